"""Kronos of published shapes on one GPU: nowcast beside the public code's generation, random weights.

Usage: python3 bench/gpu/run_kronos.py --source CHECKOUT [--nowcast target/release/nowcast] [--out FILE.json]

CHECKOUT is https://github.com/shiyu-coder/Kronos (needs torch with CUDA, safetensors, einops, tqdm, huggingface_hub;
pandas only if it is there). The public code runs eagerly in f32 and evaluation mode, from tensors on the GPU to paths on
the host; nowcast's times are whole forecasts, host copies included.
"""

import argparse
import datetime
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from make_fullsize_kronos import DROPOUT, SHAPES, TOKENIZER

WORKLOADS = [
    dict(model="small", context=400, horizon=24, samples=1, temperature=1.0, top_k=0, top_p=0.9),
    dict(model="base", context=232, horizon=7, samples=192, temperature=0.15, top_k=20, top_p=0.9),
    dict(model="small", context=512, horizon=24, samples=30, temperature=1.0, top_k=0, top_p=0.9),
]


def save(model, config, folder):
    folder.mkdir(parents=True)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))


def public(generate, halves, work, runs):
    """Milliseconds of each run and the most memory that its tensors took."""
    context, horizon = work["context"], work["horizon"]
    candles = torch.randn(1, context, 6).cuda()
    stamps = [torch.ones(1, count, 5).cuda() for count in (context, horizon)]
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        started = time.perf_counter()
        generate(*halves, candles, *stamps, 512, horizon, 5, work["temperature"], work["top_k"], work["top_p"], work["samples"])
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - started))
    return times[1:], torch.cuda.max_memory_allocated()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--out")
    options = parser.parse_args()
    if importlib.util.find_spec("pandas") is None:
        # Imported by the public code, but not used by its generation.
        sys.modules["pandas"] = types.ModuleType("pandas")
    sys.path.insert(0, options.source)
    from model.kronos import Kronos, KronosTokenizer, auto_regressive_inference

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        halves = {}
        for shape in ("small", "base"):
            torch.manual_seed(0)
            config = dict(s1_bits=10, s2_bits=10, token_dropout_p=0.0, learn_te=True, **DROPOUT, **SHAPES[shape])
            model, tokenizer = Kronos(**config).eval(), KronosTokenizer(**TOKENIZER).eval()
            save(model, config, Path(folder) / shape / "model")
            save(tokenizer, TOKENIZER, Path(folder) / shape / "tokenizer")
            halves[shape] = (tokenizer.cuda(), model.cuda())
        for work in WORKLOADS:
            theirs, peak = public(auto_regressive_inference, halves[work["model"]], work, 3)
            command = [options.nowcast, "bench", "--model", str(Path(folder) / work["model"]), "--device", "cuda"]
            for flag in ("context", "horizon", "samples", "temperature", "top_k", "top_p"):
                command += ["--" + flag.replace("_", "-"), str(work[flag])]
            ours = json.loads(subprocess.check_output([*command, "--runs", "15", "--json"]))
            row = dict(
                workload=work,
                nowcast_ms=ours["median_ms"],
                nowcast_sigma_ms=ours["sigma_ms"],
                nowcast_first_ms=ours["first_ms"],
                planned_bytes=ours["planned_bytes"],
                counters=ours["counters"],
                public_ms=statistics.median(theirs),
                public_runs_ms=theirs,
                public_peak_bytes=peak,
            )
            rows.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)
    report = dict(
        date=datetime.date.today().isoformat(),
        command="python3 bench/gpu/run_kronos.py --source CHECKOUT",
        device=torch.cuda.get_device_name(),
        torch=torch.__version__,
        rows=rows,
    )
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n")


if __name__ == "__main__":
    main()

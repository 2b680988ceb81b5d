"""nowcast beside the public Kronos code, interleaved in one run on one machine.

Usage: python3 bench/compare_kronos.py --source CHECKOUT --models FOLDER [--nowcast PROGRAM] [--rounds 1]
           [--workloads small-400,base-192,small-slide] [--out bench/results/NAME.json]

CHECKOUT is https://github.com/shiyu-coder/Kronos; FOLDER holds small/ and base/ as make_fullsize_kronos.py writes them.
Each workload is timed once for each round: `nowcast bench` (median of its runs) beside `KronosPredictor.predict` in a
process of its own, in evaluation mode. Peak memory is that of the processes. Both get synthetic candles of the shape.
"""

import argparse
import datetime
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORKLOADS = {
    "small-400": dict(model="small", context=400, horizon=24, samples=1, temperature=1.0, top_k=0, top_p=0.9),
    "base-192": dict(model="base", context=232, horizon=7, samples=192, temperature=0.15, top_k=20, top_p=0.9),
    "small-slide": dict(model="small", context=512, horizon=24, samples=30, temperature=1.0, top_k=0, top_p=0.9),
}


def candles(count):
    import numpy
    import pandas

    generator = numpy.random.default_rng(0)
    close = 100 + numpy.cumsum(generator.normal(0, 0.3, count))
    open_ = numpy.concatenate([[100.0], close[:-1]])
    high = numpy.maximum(open_, close) + generator.exponential(0.1, count)
    low = numpy.minimum(open_, close) - generator.exponential(0.1, count)
    frame = pandas.DataFrame(dict(open=open_, high=high, low=low, close=close))
    frame["volume"] = generator.exponential(1000.0, count)
    times = pandas.Series(pandas.date_range("2024-01-01 09:00", periods=count, freq="5min"))
    return frame, times


def reference(source, folder, work):
    """One forecast by the public code; prints seconds and peak bytes."""
    sys.path.insert(0, source)
    import torch
    from model.kronos import Kronos, KronosPredictor, KronosTokenizer
    from safetensors.torch import load_file

    def load(kind, half):
        config = json.loads((Path(folder) / half / "config.json").read_text())
        model = kind(**config)
        model.load_state_dict(load_file(Path(folder) / half / "model.safetensors"))
        return model.eval()

    predictor = KronosPredictor(load(Kronos, "model"), load(KronosTokenizer, "tokenizer"), device="cpu")
    frame, times = candles(work["context"] + work["horizon"])
    past, future = slice(0, work["context"]), slice(work["context"], None)
    torch.manual_seed(0)
    started = time.perf_counter()
    predictor.predict(
        frame[past], times[past], times[future], work["horizon"], T=work["temperature"], top_k=work["top_k"],
        top_p=work["top_p"], sample_count=work["samples"], verbose=False,
    )
    seconds = time.perf_counter() - started
    print(json.dumps(dict(seconds=seconds, peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)))


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def answer(command):
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip()}")
    return json.loads(finished.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--out")
    parser.add_argument("--reference", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reference:
        work = WORKLOADS[options.reference]
        return reference(options.source, Path(options.models) / work["model"], work)

    rows = []
    for index in range(options.rounds):
        for name in options.workloads.split(","):
            work = WORKLOADS[name]
            command = [options.nowcast, "bench", "--model", str(Path(options.models) / work["model"]), "--json"]
            for flag in ("context", "horizon", "samples", "temperature", "top_k", "top_p"):
                command += ["--" + flag.replace("_", "-"), str(work[flag])]
            ours = answer([*command, "--runs", str(options.runs)])
            program = [sys.executable, __file__, "--source", options.source, "--models", options.models]
            theirs = answer([*program, "--reference", name])
            row = dict(
                round=index,
                workload=name,
                nowcast_ms=ours["median_ms"],
                nowcast_runs_ms=ours["runs_ms"],
                nowcast_peak_bytes=ours["peak_bytes"],
                nowcast_planned_bytes=ours["planned_bytes"],
                reference_ms=1e3 * theirs["seconds"],
                reference_peak_bytes=theirs["peak"],
                ratio=1e3 * theirs["seconds"] / ours["median_ms"],
            )
            rows.append(row)
            print({key: value for key, value in row.items() if key != "nowcast_runs_ms"}, file=sys.stderr, flush=True)

    import torch

    summary = {
        name: {
            key: statistics.median(row[key] for row in rows if row["workload"] == name)
            for key in ("nowcast_ms", "reference_ms", "ratio", "nowcast_peak_bytes", "reference_peak_bytes")
        }
        for name in options.workloads.split(",")
    }
    report = dict(
        date=datetime.date.today().isoformat(),
        command="python3 bench/compare_kronos.py --source CHECKOUT --models FOLDER",
        processor=processor(),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        python=platform.python_version(),
        workloads={name: WORKLOADS[name] for name in options.workloads.split(",")},
        medians=summary,
        rows=rows,
    )
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n")


if __name__ == "__main__":
    main()

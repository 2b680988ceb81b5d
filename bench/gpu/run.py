"""Checks and times the CUDA device on one machine, in one call, and writes everything down.

Usage: python3 bench/gpu/run.py --nowcast target/release/nowcast --goldens goldens --csv examples/vix_daily.csv
           [--tests target/release/deps/cuda-...] --out bench/results/DATE-toto-cuda.json

1. Operations on the GPU against the CPU device (the test binary of crates/nowcast-engine/tests/cuda.rs).
2. Goldens in every mode.
3. Forecasts of a full-size random checkpoint on the CPU and on the GPU: how many values are the same.
4. The bandwidth of a copy, then forecasts of several shapes in `default` and `reduce-overhead`.
5. A new process with compiled kernels at hand: from its start to its answer.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SHAPES = [
    {"context": 512, "horizon": 8, "samples": 256, "runs": 500},
    {"context": 512, "horizon": 64, "samples": 256, "runs": 300},
    {"context": 512, "horizon": 336, "samples": 256, "runs": 40},
    {"context": 4096, "horizon": 336, "samples": 256, "variates": 7, "runs": 15},
    {"context": 512, "horizon": 8, "samples": 256, "batch": 28, "runs": 100},
]


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def numbers(value):
    """Every number of a JSON value, in order."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from numbers(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)):
        yield float(value)


def bandwidth():
    import torch

    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(10):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize()
    return 2 * 4 * (1 << 30) * 10 / (start.elapsed_time(end) * 1e-3) / 1e12


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nowcast", required=True)
    parser.add_argument("--goldens", required=True)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--column", default="CLOSE")
    parser.add_argument("--tests")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    nowcast, folder = arguments.nowcast, Path(tempfile.mkdtemp())
    results = {}

    query = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    results["gpu"] = query.stdout.strip()
    if arguments.tests:
        output = run(arguments.tests)
        results["operations"] = re.findall(r"test result: .*", output.stdout)[-1]
        print("operations:", results["operations"])
        if output.returncode:
            print(output.stdout[-3000:], output.stderr[-3000:])

    results["goldens"] = {}
    for mode in ["eager", "default", "reduce-overhead"]:
        output = run(nowcast, "verify", "--goldens", arguments.goldens, "--device", "cuda", "--mode", mode, "--json")
        report = json.loads(output.stdout)
        results["goldens"][mode] = {
            "passed": report["passed"],
            "failed": report["failed"],
            "checks": sum(len(case["checks"]) for case in report["cases"]),
        }
        print("goldens", mode, results["goldens"][mode])

    model = folder / "toto"
    print(run(sys.executable, Path(__file__).with_name("make_weights.py"), model).stdout.strip())
    results["equality"] = []
    for horizon in [8, 200]:
        answers = []
        for device in ["cpu", "cuda"]:
            out = folder / f"{device}.json"
            run(nowcast, "forecast", arguments.csv, "--columns", arguments.column, "--model", model, "--context", 512,
                "--horizon", horizon, "--samples", 64, "--paths", "--device", device, "--output", "json", "--out", out)
            answers.append(list(numbers(json.loads(out.read_text())["series"])))
        same = sum(x == y for x, y in zip(*answers))
        results["equality"].append({"horizon": horizon, "values": len(answers[0]), "same_on_cpu_and_gpu": same})
        print("equality", results["equality"][-1])

    start = time.perf_counter()
    run(nowcast, "forecast", arguments.csv, "--columns", arguments.column, "--model", model, "--context", 512,
        "--horizon", 8, "--device", "cuda", "--output", "json", "--out", folder / "first.json")
    results["new_process_ms"] = (time.perf_counter() - start) * 1e3
    print("a new process, start to answer:", round(results["new_process_ms"]), "ms")

    results["copy_tb_per_s"] = bandwidth()
    print("copy", results["copy_tb_per_s"], "TB/s")
    results["timings"] = []
    for mode in ["default", "reduce-overhead"]:
        for shape in SHAPES:
            flags = [part for name, value in shape.items() for part in (f"--{name}", value)]
            output = run(nowcast, "bench", "--model", model, "--device", "cuda", "--mode", mode, "--json", *flags)
            timing = json.loads(output.stdout)
            kept = {key: timing[key] for key in
                    ["load_ms", "first_ms", "median_ms", "p99_ms", "sigma_ms", "planned_bytes", "weight_bytes", "counters"]}
            results["timings"].append({"shape": shape, "mode": mode, **kept})
            print(mode, shape, {key: round(kept[key], 4) for key in ["first_ms", "median_ms", "p99_ms", "sigma_ms"]})
    Path(arguments.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

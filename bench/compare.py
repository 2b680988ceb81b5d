"""nowcast beside the public PyTorch package, interleaved in one run on one machine.

Usage: python3 bench/compare.py --checkpoint FOLDER --csv FILE --column NAME [--nowcast PROGRAM] [--rounds N]
           [--context 512] [--horizon 8] [--samples 256] [--out bench/results/NAME.json]

Every round times, one after the other: a whole `nowcast forecast` process; five forecasts inside a `nowcast bench`
process; one `toto-ts` forecast as published; one forward pass of PyTorch with the same savings. Medians over the
rounds are quoted, and the raw rows are kept.
"""

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import reference


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=8)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--out")
    return parser.parse_args()


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def run(command):
    started = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True)
    elapsed = 1e3 * (time.perf_counter() - started)
    if finished.returncode != 0:
        sys.exit(f"{' '.join(command)}: {finished.stderr.strip()}")
    return elapsed, finished.stdout


def main():
    options = arguments()
    shape = ["--context", str(options.context), "--horizon", str(options.horizon), "--samples", str(options.samples)]
    whole = [options.nowcast, "forecast", options.csv, "--columns", options.column, "--model", options.checkpoint]
    whole += [*shape, "--output", "json"]
    inside = [options.nowcast, "bench", "--model", options.checkpoint, *shape, "--runs", "5", "--json"]

    model = reference.load(options.checkpoint)
    published, savings = reference.Published(model), reference.WithSavings(model)
    values = reference.Context(options.csv, options.column, options.context)
    published.forecast(values, options.horizon, options.samples)
    savings.forward(values)

    rows = []
    for index in range(options.rounds):
        process_ms, _ = run(whole)
        report = json.loads(run(inside)[1])
        published_ms, _ = reference.milliseconds(
            lambda: published.forecast(values, options.horizon, options.samples)
        )
        savings_ms = min(reference.milliseconds(lambda: savings.forward(values))[0] for _ in range(5))
        row = {
            "round": index,
            "nowcast_process_ms": process_ms,
            "nowcast_ms": report["median_ms"],
            "nowcast_runs_ms": report["runs_ms"],
            "toto_ts_ms": published_ms,
            "torch_with_savings_best_of_5_ms": savings_ms,
        }
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    median = {
        name: statistics.median(row[name] for row in rows)
        for name in ("nowcast_process_ms", "nowcast_ms", "toto_ts_ms", "torch_with_savings_best_of_5_ms")
    }
    result = {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(sys.argv),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "workload": vars(options),
        "median": median,
        "ratio_toto_ts": statistics.median(row["toto_ts_ms"] / row["nowcast_ms"] for row in rows),
        "ratio_torch_with_savings": statistics.median(
            row["torch_with_savings_best_of_5_ms"] / row["nowcast_ms"] for row in rows
        ),
        "rows": rows,
    }
    text = json.dumps(result, indent=1) + "\n"
    if options.out:
        Path(options.out).write_text(text)
    print(text)


if __name__ == "__main__":
    main()

"""nowcast beside the public Kronos code, interleaved in one run on one machine.

Usage: python3 bench/compare_kronos.py --source CHECKOUT --models FOLDER [--nowcast PROGRAM] [--rounds 1]
           [--workloads small-400,base-192,small-slide] [--out FILE.json]

CHECKOUT is https://github.com/shiyu-coder/Kronos; FOLDER holds small/ and base/ as make_fullsize_kronos.py writes them.
Each round times every workload, each in a process of its own: `nowcast bench` in each dtype that the program has here
(median of its runs), `KronosPredictor.predict` once in evaluation mode, and PyTorch with the same savings in f32 and in
bf16 (median of five). Peak memory is that of the processes. All get synthetic candles of the shape.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import side_by_side

WORKLOADS = {
    "small-400": dict(model="small", context=400, horizon=24, samples=1, temperature=1.0, top_k=0, top_p=0.9),
    "base-192": dict(model="base", context=232, horizon=7, samples=192, temperature=0.15, top_k=20, top_p=0.9),
    "small-slide": dict(model="small", context=512, horizon=24, samples=30, temperature=1.0, top_k=0, top_p=0.9),
}
REFERENCE = Path(__file__).with_name("reference_kronos.py")


def ours(options, work, dtype):
    folder = str(Path(options.models) / work["model"])
    command = [options.nowcast, "bench", "--model", folder, "--device", "cpu", "--dtype", dtype, "--json"]
    for flag in ("context", "horizon", "samples", "temperature", "top_k", "top_p"):
        command += ["--" + flag.replace("_", "-"), str(work[flag])]
    return side_by_side.answer([*command, "--runs", str(options.runs)])


def theirs(options, work, *more):
    command = [sys.executable, str(REFERENCE), "--source", options.source, "--work", json.dumps(work)]
    return side_by_side.answer([*command, "--model", str(Path(options.models) / work["model"]), *more])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--out")
    options = parser.parse_args()
    names = options.workloads.split(",")
    dtypes = side_by_side.dtypes(options.nowcast, str(Path(options.models) / WORKLOADS[names[0]]["model"]))

    rows = []
    for index in range(options.rounds):
        for name in names:
            work = WORKLOADS[name]
            row = dict(round=index, workload=name)
            for dtype in dtypes:
                report = ours(options, work, dtype)
                row[f"nowcast_{dtype}_ms"] = report["median_ms"]
                row[f"nowcast_{dtype}_runs_ms"] = report["runs_ms"]
                row[f"nowcast_{dtype}_peak_bytes"] = report["peak_bytes"]
                row[f"nowcast_{dtype}_planned_bytes"] = report["planned_bytes"]
            references = {
                "public": ["--kind", "published"],
                "torch_with_savings_f32": ["--kind", "savings"],
                "torch_with_savings_bf16": ["--kind", "savings", "--bf16"],
            }
            for reference, more in references.items():
                measured = theirs(options, work, *more)
                row[f"{reference}_ms"] = statistics.median(measured["runs_ms"])
                row[f"{reference}_runs_ms"] = measured["runs_ms"]
                row[f"{reference}_peak_bytes"] = measured["peak_bytes"]
            for dtype in dtypes:
                row[f"public_over_{dtype}"] = row["public_ms"] / row[f"nowcast_{dtype}_ms"]
                same = "f32" if dtype == "f32" else "bf16"
                row[f"torch_with_savings_over_{dtype}"] = (
                    row[f"torch_with_savings_{same}_ms"] / row[f"nowcast_{dtype}_ms"]
                )
            rows.append(row)
            print({key: value for key, value in row.items() if not key.endswith("runs_ms")}, file=sys.stderr, flush=True)

    numbers = [name for name in rows[0] if name not in ("round", "workload") and not name.endswith("runs_ms")]
    of = {name: [row for row in rows if row["workload"] == name] for name in names}
    side_by_side.write(
        "kronos-cpu",
        options.out,
        side_by_side.versions(options.nowcast, "torch"),
        workloads={name: WORKLOADS[name] for name in names},
        medians={name: side_by_side.medians(of[name], numbers) for name in names},
        rows=rows,
    )


if __name__ == "__main__":
    main()

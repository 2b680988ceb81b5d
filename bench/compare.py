"""nowcast beside the public PyTorch package, interleaved in one run on one machine.

Usage: python3 bench/compare.py --checkpoint FOLDER --csv FILE --column NAME [--nowcast PROGRAM] [--rounds N]
           [--context 512] [--horizon 8] [--samples 256] [--out FILE.json]

Every round times, one after the other: for each dtype that the program has here, a whole `nowcast forecast` process and
forecasts inside a `nowcast bench` process; one `toto-ts` forecast as published; one forward pass of PyTorch with the same
savings in f32 and in bf16 (best of five, and without sampling). Medians over the rounds are quoted, and the raw rows are
kept in bench/results/. The limit is what `nowcast bench --roofline` measures at the start of the run.
"""

import argparse
import json
import statistics
import sys

import reference_toto as reference
import side_by_side


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=8)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--out")
    return parser.parse_args()


def main():
    options = arguments()
    shape = ["--context", str(options.context), "--horizon", str(options.horizon), "--samples", str(options.samples)]
    model = ["--model", options.checkpoint, "--device", "cpu", *shape]
    whole = [options.nowcast, "forecast", options.csv, "--columns", options.column, *model, "--output", "json"]
    inside = [options.nowcast, "bench", *model, "--runs", str(options.runs), "--json"]
    dtypes = side_by_side.dtypes(options.nowcast, options.checkpoint)
    limits = {dtype: side_by_side.answer([*inside, "--roofline", "--dtype", dtype]) for dtype in dtypes}

    loaded = reference.load(options.checkpoint)
    published, savings = reference.Published(loaded), reference.WithSavings(loaded)
    values = reference.Context(options.csv, options.column, options.context)
    forecast = lambda: published.forecast(values, options.horizon, options.samples)
    best = lambda bfloat16: min(
        reference.milliseconds(lambda: savings.forward(values, bfloat16))[0] for _ in range(5)
    )
    forecast(), best(False), best(True)

    rows = []
    for index in range(options.rounds):
        row = {"round": index}
        for dtype in dtypes:
            row[f"nowcast_process_{dtype}_ms"] = side_by_side.run([*whole, "--dtype", dtype])[0]
            report = side_by_side.answer([*inside, "--dtype", dtype])
            row[f"nowcast_{dtype}_ms"] = report["median_ms"]
            row[f"nowcast_{dtype}_p99_ms"] = report["p99_ms"]
            row[f"nowcast_{dtype}_sigma_ms"] = report["sigma_ms"]
            row[f"nowcast_{dtype}_load_ms"] = report["load_ms"]
            row[f"nowcast_{dtype}_peak_bytes"] = report["peak_bytes"]
        row["toto_ts_ms"] = reference.milliseconds(forecast)[0]
        row["torch_with_savings_f32_best_of_5_ms"] = best(False)
        row["torch_with_savings_bf16_best_of_5_ms"] = best(True)
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)

    def ratio(over, under):
        return statistics.median(row[over] / row[under] for row in rows)

    side_by_side.write(
        "toto-cpu",
        options.out,
        side_by_side.versions(options.nowcast, "torch", "toto-ts"),
        workload={"context": options.context, "horizon": options.horizon, "samples": options.samples},
        median=side_by_side.medians(rows, [name for name in rows[0] if name != "round"]),
        faster_than_toto_ts={dtype: ratio("toto_ts_ms", f"nowcast_{dtype}_ms") for dtype in dtypes},
        faster_than_torch_with_savings={
            dtype: ratio(f"torch_with_savings_{'f32' if dtype == 'f32' else 'bf16'}_best_of_5_ms", f"nowcast_{dtype}_ms")
            for dtype in dtypes
        },
        rows=rows,
        rooflines=limits,
    )


if __name__ == "__main__":
    main()

"""What bf16 and int8 cost in accuracy: `nano` and `kronos-nano` on real series, each dtype beside f32.

Usage: python bench/dtypes.py --nowcast target/release/nowcast --data FOLDER --out results.json

60 windows from the end of each series, 24 steps apart, horizon 24. `nano` looks at 512 steps, and 24 are within one of its
patches, so quantiles are exact and no sampling noise hides a difference. `kronos-nano` looks at 256 bars and draws 100
paths; once rounding turns one token into another a path goes its own way, so its rows are to be read beside the row of
f32 with another seed. MASE is that of the median of the close (season 1), the mean over windows; WQL is the mean over the
levels 0.1 to 0.9; differences of quantiles from those of f32 are in units of the mean 80% interval.
Only the standard library is needed.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile

# File, the column that `nano` forecasts, the close of the bars that `kronos-nano` forecasts, times.
SERIES = [
    ("vix_daily.csv", "CLOSE", "CLOSE", "DATE"),
    ("kline_5min.csv", "close", "close", "timestamps"),
    ("btc_usd_daily.csv", "Close", "Close", "Date"),
    ("aapl_daily.csv", "Adj. Close", "Close", "Date"),
]
LEVELS = [f"0.{tenth}" for tenth in range(1, 10)]
MISSING = ("", "null")
HORIZON, WINDOWS = 24, 60
CONTEXTS = {"nano": 512, "kronos-nano": 256}
# Model, dtype, seed; the first of a model is what the others are compared with.
RUNS = [
    ("nano", "f32", 0),
    ("nano", "bf16", 0),
    ("nano", "int8", 0),
    ("kronos-nano", "f32", 0),
    ("kronos-nano", "bf16", 0),
    ("kronos-nano", "int8", 0),
    ("kronos-nano", "f32", 1),
]


def moment(text):
    for form in ("%m/%d/%Y", "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"):
        try:
            return datetime.datetime.strptime(text.split("+")[0], form)
        except ValueError:
            continue
    raise SystemExit(f"{text!r} is no date this script knows")


def windows(path, column, time, context):
    """Rows of the context and values of the future, for each window."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[column] not in MISSING]
    rows.sort(key=lambda row: moment(row[time]))
    ends = [len(rows) - HORIZON * (window + 1) for window in range(WINDOWS)]
    if ends[-1] < context:
        raise SystemExit(f"{path} has {len(rows)} values, too few for {WINDOWS} windows")
    return [(rows[end - context : end], [float(row[column]) for row in rows[end : end + HORIZON]]) for end in ends]


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def forecast(program, run, contexts, column):
    """Quantiles of the column by level for each context."""
    model, dtype, seed = run
    with tempfile.TemporaryDirectory() as folder:
        files = []
        if model == "nano":
            names = [f"window{index}" for index in range(len(contexts))]
            columns = zip(*([row[column] for row in rows] for rows in contexts))
            files.append(os.path.join(folder, "windows.csv"))
            write(files[0], [dict(zip(names, values)) for values in columns])
        else:
            for index, rows in enumerate(contexts):
                files.append(os.path.join(folder, f"window{index}.csv"))
                write(files[-1], rows)
        command = [program, "forecast", *files, "--model", model, "--horizon", str(HORIZON), "--device", "cpu"]
        command += ["--context", str(CONTEXTS[model]), "--dtype", dtype, "--seed", str(seed), "--no-config"]
        command += ["--quantiles", ",".join(LEVELS), "--output", "json"]
        command += ["--samples", "100"] if model == "kronos-nano" else []
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    series = json.loads(answer.stdout)["series"]
    return [one["quantiles"] for one in series if model == "nano" or one["name"].endswith("/close")]


def scores(windows, quantiles, exact):
    scaled = []
    for (context, future), forecast in zip(windows, quantiles):
        naive = sum(abs(a - b) for a, b in zip(context[1:], context)) / (len(context) - 1)
        scaled.append(sum(abs(a - b) for a, b in zip(future, forecast["0.5"])) / HORIZON / naive)
    pinball = 0.0
    differences = []
    for (_, future), forecast, reference in zip(windows, quantiles, exact):
        for level in LEVELS:
            for actual, value, expected in zip(future, forecast[level], reference[level]):
                pinball += 2 * (actual - value) * (float(level) - (actual < value))
                differences.append(abs(value - expected))
    total = sum(abs(actual) for _, future in windows for actual in future)
    width = sum(high - low for one in exact for high, low in zip(one["0.9"], one["0.1"])) / (WINDOWS * HORIZON)
    return {
        "mase": sum(scaled) / len(scaled),
        "wql": pinball / len(LEVELS) / total,
        "mean_difference": sum(differences) / len(differences) / width,
        "largest_difference": max(differences) / width,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nowcast", default="target/release/nowcast", help="the program")
    parser.add_argument("--data", default="examples", help="folder of the sample data; series that are not there are left out")
    parser.add_argument("--out", help="where the results go [default: standard output]")
    arguments = parser.parse_args()
    rows = []
    for file, of_nano, of_bars, time in SERIES:
        path = os.path.join(arguments.data, file)
        if not os.path.exists(path):
            print(f"{path} is not there: left out", file=sys.stderr)
            continue
        exact = {}
        for run in RUNS:
            model, dtype, seed = run
            column = of_nano if model == "nano" else of_bars
            of_series = windows(path, column, time, CONTEXTS[model])
            quantiles = forecast(arguments.nowcast, run, [rows for rows, _ in of_series], column)
            closes = [([float(row[column]) for row in rows], future) for rows, future in of_series]
            known = scores(closes, quantiles, exact.setdefault(model, quantiles))
            rows.append({"data": file, "column": column, "model": model, "dtype": dtype, "seed": seed, **known})
            print(rows[-1], file=sys.stderr)
    shape = {"contexts": CONTEXTS, "horizon": HORIZON, "windows": WINDOWS}
    command = "python bench/dtypes.py " + " ".join(sys.argv[1:])
    document = {"date": datetime.date.today().isoformat(), "command": command, "machine": platform.machine(), **shape, "rows": rows}
    text = json.dumps(document, indent=1) + "\n"
    if not arguments.out:
        return print(text, end="")
    with open(arguments.out + ".part", "w") as file:
        file.write(text)
    os.replace(arguments.out + ".part", arguments.out)


main()

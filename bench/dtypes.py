"""What bf16 and int8 cost in accuracy: `nano` on real series, each dtype beside f32.

Usage: python bench/dtypes.py --nowcast target/release/nowcast --data FOLDER --out results.json

60 windows from the end of each series, 24 steps apart, context 512, horizon 24: within one patch of `nano`, so quantiles
are exact and no sampling noise hides a difference. MASE is that of the median (season 1), the mean over windows; WQL is
the mean over the levels 0.1 to 0.9; differences of quantiles from those of f32 are in units of the mean 80% interval.
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

SERIES = [
    ("vix_daily.csv", "CLOSE", "DATE"),
    ("kline_5min.csv", "close", "timestamps"),
    ("btc_usd_daily.csv", "Close", "Date"),
    ("aapl_daily.csv", "Adj. Close", "Date"),
]
LEVELS = [f"0.{tenth}" for tenth in range(1, 10)]
MISSING = ("", "null")
CONTEXT, HORIZON, WINDOWS = 512, 24, 60


def moment(text):
    for form in ("%m/%d/%Y", "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"):
        try:
            return datetime.datetime.strptime(text.split("+")[0], form)
        except ValueError:
            continue
    raise SystemExit(f"{text!r} is no date this script knows")


def windows(path, column, time):
    with open(path, newline="") as file:
        rows = sorted((moment(row[time]), float(row[column])) for row in csv.DictReader(file) if row[column] not in MISSING)
    values = [value for _, value in rows]
    ends = [len(values) - HORIZON * (window + 1) for window in range(WINDOWS)]
    if ends[-1] < CONTEXT:
        raise SystemExit(f"{path} has {len(values)} values, too few for {WINDOWS} windows")
    return [(values[end - CONTEXT : end], values[end : end + HORIZON]) for end in ends]


def forecast(program, contexts, dtype):
    """Quantiles by level for each context."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(",".join(f"window{index}" for index in range(len(contexts))) + "\n")
        file.writelines(",".join(map(repr, row)) + "\n" for row in zip(*contexts))
        file.flush()
        command = [program, "forecast", file.name, "--model", "nano", "--context", str(CONTEXT), "--horizon", str(HORIZON)]
        command += ["--device", "cpu", "--dtype", dtype, "--quantiles", ",".join(LEVELS), "--output", "json"]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return [series["quantiles"] for series in json.loads(answer.stdout)["series"]]


def scores(windows, quantiles, exact):
    scaled = []
    for (context, future), forecast in zip(windows, quantiles):
        naive = sum(abs(a - b) for a, b in zip(context[1:], context)) / (CONTEXT - 1)
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
    for file, column, time in SERIES:
        path = os.path.join(arguments.data, file)
        if not os.path.exists(path):
            print(f"{path} is not there: left out", file=sys.stderr)
            continue
        of_series = windows(path, column, time)
        exact = None
        for dtype in ("f32", "bf16", "int8"):
            quantiles = forecast(arguments.nowcast, [context for context, _ in of_series], dtype)
            exact = exact or quantiles
            rows.append({"data": file, "column": column, "dtype": dtype, **scores(of_series, quantiles, exact)})
            print(rows[-1], file=sys.stderr)
    shape = {"model": "nano", "context": CONTEXT, "horizon": HORIZON, "windows": WINDOWS}
    command = "python bench/dtypes.py " + " ".join(sys.argv[1:])
    document = {"date": datetime.date.today().isoformat(), "command": command, "machine": platform.machine(), **shape, "rows": rows}
    text = json.dumps(document, indent=1) + "\n"
    if not arguments.out:
        return print(text, end="")
    with open(arguments.out + ".part", "w") as file:
        file.write(text)
    os.replace(arguments.out + ".part", arguments.out)


main()

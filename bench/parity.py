"""A full-size checkpoint, forecast by nowcast and by the public package: mean paths and sampled quantiles.

Usage: python3 bench/parity.py --checkpoint FOLDER --csv FILE --column NAME [--nowcast PROGRAM] [--horizon 200]

Mean paths must agree within 1e-4 of the value; quantiles of samples by rank: the share of nowcast's samples below the
reference's quantile must be the level within 4 binomial standard errors.
"""

import argparse
import json
import math
import subprocess
import sys

import numpy
import torch

import reference_toto as reference

LEVELS = [0.1, 0.25, 0.5, 0.75, 0.9]


def forecast(options, *more):
    command = [options.nowcast, "forecast", options.csv, "--columns", options.column, "--model", options.checkpoint]
    command += ["--context", str(options.context), "--horizon", str(options.horizon), "--output", "json", *more]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(finished.stderr)
    return json.loads(finished.stdout)["series"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--nowcast", default="target/release/nowcast")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=200)
    parser.add_argument("--samples", type=int, default=512)
    options = parser.parse_args()

    values = reference.Context(options.csv, options.column, options.context)
    published = reference.Published(reference.load(options.checkpoint))
    ours = numpy.array(forecast(options, "--decode", "mean")["point"])
    theirs = published.mean_path(values, options.horizon)[0, 0].double().numpy()
    mean_error = float(numpy.max(numpy.abs(ours - theirs) / numpy.abs(theirs)))

    torch.manual_seed(0)
    sampled = published.forecast(values, options.horizon, options.samples).samples[0, 0].double()
    paths = numpy.array(forecast(options, "--samples", str(options.samples), "--paths")["paths"])
    worst = 0.0
    for level in LEVELS:
        quantile = sampled.quantile(level, dim=-1).numpy()
        share = (paths <= quantile[None]).mean(axis=0)
        error = math.sqrt(level * (1 - level) * 2 / options.samples)
        worst = max(worst, float(numpy.max(numpy.abs(share - level)) / error))
    agrees = mean_error <= 1e-4 and worst <= 4
    print(json.dumps({"mean_path_relative_error": mean_error, "quantile_standard_errors": worst, "agrees": agrees}))
    sys.exit(0 if agrees else 1)


if __name__ == "__main__":
    main()

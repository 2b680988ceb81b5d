"""Classical forecasts of the same windows by statsforecast, kept in a file because they take long.

Usage: python baselines.py --data FOLDER --out baselines.npz
"""

import argparse
import os
import time
import warnings

import numpy as np
from statsforecast.models import AutoETS, AutoTheta, Naive, SeasonalNaive

from windows import LEVELS, real_tasks, synthetic_tasks

BASELINES = {
    "naive": lambda season: Naive(),
    "seasonal naive": lambda season: SeasonalNaive(season_length=season),
    "AutoETS": lambda season: AutoETS(season_length=season),
    "AutoTheta": lambda season: AutoTheta(season_length=season),
}


def quantile_forecast(model, context, horizon):
    """Quantiles [horizon, len(LEVELS)] from central intervals; the point forecast stands for the median."""
    result = model.forecast(y=context, h=horizon, level=[20, 40, 60, 80])
    columns = [result[f"lo-{level}"] for level in (80, 60, 40, 20)] + [result["mean"]]
    columns += [result[f"hi-{level}"] for level in (20, 40, 60, 80)]
    return np.stack(columns, axis=-1)


def forecast_task(task, make_model):
    windows, series, horizon = task.futures.shape
    quantiles = np.full((windows, series, horizon, len(LEVELS)), np.nan)
    for window in range(windows):
        for row in range(series):
            context = task.contexts[window, row].astype(np.float64)
            try:
                quantiles[window, row] = quantile_forecast(make_model(task.season), context, horizon)
            except Exception as problem:  # a series the method cannot fit: fall back to naive and say so
                print(f"{task.name}, window {window}, series {row}: {problem!r}; naive instead", flush=True)
                quantiles[window, row] = quantile_forecast(Naive(), context, horizon)
    bad = ~np.isfinite(quantiles)
    if bad.any():
        print(f"{task.name}: {bad.sum()} values not finite, replaced by the last observation", flush=True)
        last = np.broadcast_to(task.contexts[..., -1:, None], quantiles.shape)
        quantiles = np.where(bad, last, quantiles)
    return quantiles


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="", help="part of the names of the tasks wanted")
    parser.add_argument("--synthetic-seed", type=int, default=99)
    parser.add_argument("--synthetic-count", type=int, default=40)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    results = dict(np.load(arguments.out)) if os.path.exists(arguments.out) else {}
    tasks = list(real_tasks(arguments.data)) + list(synthetic_tasks(arguments.synthetic_seed, arguments.synthetic_count))
    tasks = [task for task in tasks if arguments.only in task.name]
    for task in tasks:
        for name, make_model in BASELINES.items():
            if f"{task.name}|{name}" in results:
                continue
            start = time.time()
            results[f"{task.name}|{name}"] = forecast_task(task, make_model).astype(np.float32)
            print(f"{task.name}, {name}: {time.time() - start:.1f} s", flush=True)
            np.savez_compressed(arguments.out, **results)


if __name__ == "__main__":
    main()

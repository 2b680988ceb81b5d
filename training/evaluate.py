"""Judges a checkpoint on windows it never saw: MASE, weighted quantile loss and the coverage of its 80% interval.

Usage: python evaluate.py --checkpoint FOLDER --data FOLDER --baselines baselines.npz --out results.json
"""

import argparse
import json
import os

import numpy as np
import torch
from toto.data.util.dataset import MaskedTimeseries
from toto.inference.forecaster import TotoForecaster

from model_files import load_checkpoint
from windows import LEVELS, real_tasks, synthetic_tasks


def forecast(forecaster, contexts, horizon, samples):
    """Quantiles [batch, variate, horizon, level] of sampled paths for contexts [batch, variate, time]."""
    series = torch.from_numpy(contexts.astype(np.float32))
    inputs = MaskedTimeseries(
        series=series,
        padding_mask=torch.ones(series.shape, dtype=torch.bool),
        id_mask=torch.zeros(series.shape, dtype=torch.int),
        timestamp_seconds=torch.zeros(series.shape, dtype=torch.int),
        time_interval_seconds=torch.ones(series.shape[:2], dtype=torch.int))
    result = forecaster.forecast(inputs, horizon, num_samples=samples, samples_per_batch=min(samples, 32))
    levels = torch.tensor(LEVELS, dtype=torch.float32)
    return result.samples.quantile(levels, dim=-1).permute(1, 2, 3, 0).numpy()


def forecast_task(forecaster, task, samples, jointly):
    horizon = max(task.horizons)
    if jointly:
        return forecast(forecaster, task.contexts, horizon, samples)
    windows, series, _ = task.contexts.shape
    alone = task.contexts.reshape(windows * series, 1, -1)
    return forecast(forecaster, alone, horizon, samples).reshape(windows, series, horizon, len(LEVELS))


def scores(task, quantiles, horizon):
    """Means over windows and series; the weighted quantile loss is computed per series and then averaged."""
    future, quantiles = task.futures[..., :horizon], quantiles[..., :horizon, :]
    season = task.season
    seasonal_error = np.abs(task.contexts[..., season:] - task.contexts[..., :-season]).mean(-1)
    usable = seasonal_error > 1e-8
    absolute_error = np.abs(future - quantiles[..., 4]).mean(-1)
    scaled_error = (absolute_error / np.where(usable, seasonal_error, np.nan))
    difference = future[..., None] - quantiles
    pinball = np.maximum(LEVELS * difference, (LEVELS - 1) * difference)
    if task.name.startswith("synthetic"):  # every window is a series of its own unit
        losses = 2 * pinball.mean((-1, -2)) / np.abs(future).mean(-1).clip(1e-8)
        weighted_quantile_loss = float(np.median(losses))
    else:
        losses = 2 * pinball.mean(-1).sum((0, 2)) / np.abs(future).sum((0, 2))
        weighted_quantile_loss = float(losses.mean())
    inside = (future >= quantiles[..., 0]) & (future <= quantiles[..., -1])
    return dict(mase=float(np.nanmean(scaled_error)), wql=weighted_quantile_loss, coverage=float(inside.mean()))


def table(rows, models):
    lines = ["| data | horizon | windows | " + " | ".join(models) + " |", "|---|---|---|" + "---|" * len(models)]
    for name, horizon, windows, values in rows:
        lines.append(f"| {name} | {horizon} | {windows} | " + " | ".join(values.get(model, "") for model in models) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--baselines")
    parser.add_argument("--out")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--only", default="", help="part of the names of the tasks wanted")
    parser.add_argument("--synthetic-seed", type=int, default=99)
    parser.add_argument("--synthetic-count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    forecaster = TotoForecaster(load_checkpoint(arguments.checkpoint).model)
    known = np.load(arguments.baselines) if arguments.baselines and os.path.exists(arguments.baselines) else {}

    results = []
    tasks = list(real_tasks(arguments.data)) + list(synthetic_tasks(arguments.synthetic_seed, arguments.synthetic_count))
    tasks = [task for task in tasks if arguments.only in task.name]
    for task in tasks:
        forecasts = {"nano": forecast_task(forecaster, task, arguments.samples, jointly=False)}
        if task.contexts.shape[1] > 1:
            forecasts["nano, jointly"] = forecast_task(forecaster, task, arguments.samples, jointly=True)
        for key in known:
            if key.split("|")[0] == task.name:
                forecasts[key.split("|")[1]] = known[key]
        for horizon in task.horizons:
            for model, quantiles in forecasts.items():
                results.append(dict(data=task.name, horizon=horizon, windows=len(task.contexts), model=model,
                                    **scores(task, quantiles, horizon)))

    models = list(dict.fromkeys(entry["model"] for entry in results))
    for measure in ("mase", "wql", "coverage"):
        rows = {}
        for entry in results:
            key = (entry["data"], entry["horizon"], entry["windows"])
            rows.setdefault(key, {})[entry["model"]] = f"{entry[measure]:.3f}"
        print(f"\n{measure}\n\n" + table([(*key, values) for key, values in rows.items()], models))
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(results, file, indent=0)


if __name__ == "__main__":
    main()

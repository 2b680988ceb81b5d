"""The data sets that `nano` is judged on and the windows cut from their ends. Never used for training."""

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd

from batches import raw_units
from synthetic_series import FAMILIES

CONTEXT = 512
LEVELS = np.arange(1, 10) / 10


@dataclass
class Task:
    """Windows of one data set: contexts [window, series, CONTEXT] and what followed [window, series, longest horizon]."""

    name: str
    season: int
    horizons: tuple
    contexts: np.ndarray
    futures: np.ndarray


def tail_windows(values, count, stride, horizon):
    """`count` windows of values [series, time], the last one ending with the data, `stride` steps apart."""
    ends = values.shape[1] - horizon - stride * np.arange(count)[::-1]
    contexts = np.stack([values[:, end - CONTEXT : end] for end in ends])
    futures = np.stack([values[:, end : end + horizon] for end in ends])
    return contexts, futures


def read_columns(path, columns, time_column):
    frame = pd.read_csv(path)
    frame[time_column] = pd.to_datetime(frame[time_column])
    frame = frame.sort_values(time_column)
    values = frame[columns].astype(float).dropna()
    return values.to_numpy().T


def real_tasks(folder):
    sources = [
        ("vix CLOSE", "vix_daily.csv", ["CLOSE"], "DATE"),
        ("btc Close", "btc_usd_daily.csv", ["Close"], "Date"),
        ("aapl Adj. Close", "aapl_daily.csv", ["Adj. Close"], "Date"),
        ("aapl Close", "aapl_daily.csv", ["Close"], "Date"),
        ("kline close", "kline_5min.csv", ["close"], "timestamps"),
    ]
    for name, file, columns, time_column in sources:
        values = read_columns(os.path.join(folder, file), columns, time_column)
        yield Task(name, 1, (8, 24), *tail_windows(values, count=60, stride=24, horizon=24))
    load = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    values = read_columns(os.path.join(folder, "etth1.csv"), load, "date")
    yield Task("etth1", 24, (24, 96), *tail_windows(values, count=24, stride=100, horizon=96))


def synthetic_tasks(seed, count):
    """Series of every family from a seed that training never used."""
    for number, (name, (function, _, _)) in enumerate(FAMILIES.items()):
        random = np.random.default_rng([seed, number])
        series = function(random, count, CONTEXT + 64)
        context = series[:, :CONTEXT]
        series = (series - context.mean(1, keepdims=True)) / (context.std(1, keepdims=True) + 1e-6)
        series = raw_units(random, series)[:, None, :]
        season = 24 if name == "daily_load" else 1
        yield Task(f"synthetic {name}", season, (24, 64), series[..., :CONTEXT], series[..., CONTEXT:])

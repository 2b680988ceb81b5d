"""Training batches cut from a pool of synthetic rows that is renewed as training goes on.

Everything is a pure function of (seed, step), so a resumed run sees the batches an uninterrupted one would see.
"""

import numpy as np
import torch

from synthetic_series import FAMILIES, column, log_uniform, make_chunk

MAY_FLIP = np.array([flip for _, _, flip in FAMILIES.values()])
IS_LEVEL_LIKE = np.array([name.startswith("prices") or name == "mean_reverting_level" for name in FAMILIES])
HAS_SPLITS = np.array([name == "prices_with_splits" for name in FAMILIES])
LONGEST_LAG = 48


class Pool:
    """The newest chunks of synthetic rows; one chunk is replaced every `steps_per_chunk` steps."""

    def __init__(self, seed, chunks=10, rows=2500, length=1216, steps_per_chunk=250):
        self.seed, self.chunks, self.rows, self.length = seed, chunks, rows, length
        self.steps_per_chunk = steps_per_chunk
        self.series = np.zeros((chunks * rows, length), np.float32)
        self.family = np.zeros(chunks * rows, np.int64)
        self.held = [None] * chunks

    def advance(self, step):
        newest = step // self.steps_per_chunk + self.chunks - 1
        for chunk in range(newest - self.chunks + 1, newest + 1):
            slot = chunk % self.chunks
            if self.held[slot] != chunk:
                where = slice(slot * self.rows, (slot + 1) * self.rows)
                self.series[where], self.family[where] = make_chunk(self.seed, chunk, self.rows, self.length)
                self.held[slot] = chunk


def cut(pool, rows, starts, length):
    return pool.series[rows[..., None], starts[..., None] + np.arange(length)]


def own_series(random, pool, count, length):
    """Windows of single rows; some are a weighted sum of two or three rows, some are turned upside down."""
    rows = random.integers(0, len(pool.series), count)
    starts = random.integers(LONGEST_LAG, pool.length - length + 1, count)
    window = cut(pool, rows, starts, length)
    level_like = IS_LEVEL_LIKE[pool.family[rows]]
    for _ in range(2):
        others = random.integers(0, len(pool.series), count)
        mixed = (random.random(count) < 0.1) & ~level_like
        weight = column(random.uniform(0.2, 0.8, count))
        other_starts = random.integers(LONGEST_LAG, pool.length - length + 1, count)
        window = np.where(column(mixed), weight * window + (1 - weight) * cut(pool, others, other_starts, length), window)
    flip = MAY_FLIP[pool.family[rows]] & (random.random(count) < 0.3)
    window = np.where(column(flip), -window, window)
    grain = np.where(level_like, 0.002, 0.008)
    usual_step = np.median(np.abs(np.diff(window, axis=1)), axis=1)
    grain = np.where(HAS_SPLITS[pool.family[rows]], 0.02 * usual_step, grain)
    return window + column(grain) * random.standard_normal(window.shape)


def group_series(random, pool, groups, variates, length):
    """Groups of variates: shared factors with lags and loadings beside series of their own, or strangers."""
    own = own_series(random, pool, groups * variates, length).reshape(groups, variates, length)
    factors = 2
    factor_rows = random.integers(0, len(pool.series), (groups, factors))
    factor_starts = random.integers(LONGEST_LAG, pool.length - length + 1, (groups, factors))
    lags = random.integers(0, LONGEST_LAG + 1, (groups, variates)) * (random.random((groups, variates)) < 0.6)
    choice = random.integers(0, factors, (groups, variates))
    group = np.arange(groups)[:, None]
    shared = cut(pool, factor_rows[group, choice], factor_starts[group, choice] - lags, length)
    sign = np.where(random.random((groups, variates)) < 0.8, 1.0, -1.0)
    share_of_own = log_uniform(random, 0.02, 1.0, (groups, variates))
    related = sign[..., None] * shared + share_of_own[..., None] * own
    strangers = random.random(groups) < 0.25
    return np.where(strangers[:, None, None], own, related)


def raw_units(random, window):
    """Scale and offset of chance: the model sees raw values, and its scaler is not blind to small ones."""
    shape = window.shape[:-1]
    scale = np.where(random.random(shape) < 0.15, log_uniform(random, 0.03, 0.3, shape), log_uniform(random, 0.3, 1000, shape))
    offset = scale * log_uniform(random, 0.3, 30, shape) * (random.random(shape) < 0.75) * np.where(random.random(shape) < 0.85, 1, -1)
    return window * scale[..., None] + offset[..., None]


def hide_parts(random, window, patch_size):
    """Left padding (zeros) and missing blocks (zeros or the last seen value); True marks what was observed."""
    groups, variates, length = window.shape
    time = np.arange(length)
    observed = np.ones(window.shape, bool)
    longest = length - 5 * patch_size
    whole = random.integers(0, longest // patch_size, groups) * patch_size
    padding = np.where(random.random(groups) < 0.7, whole, random.integers(0, longest, groups)) * (random.random(groups) < 0.12)
    observed &= (time >= padding[:, None])[:, None, :]
    gappy = random.random(groups) < 0.12
    for _ in range(3):
        start = random.integers(0, length, (groups, variates))
        width = log_uniform(random, 1, 64, (groups, variates)).astype(int) * (gappy[:, None] & (random.random((groups, variates)) < 0.7))
        observed &= ~((time >= start[..., None]) & (time < (start + width)[..., None]))
    scattered = (random.random(groups) < 0.3) & gappy
    observed &= ~(scattered[:, None, None] & (random.random(window.shape) < 0.08))
    last_seen = np.maximum.accumulate(np.where(observed, time, -1), axis=-1)
    carried = np.where(last_seen >= 0, np.take_along_axis(window, np.maximum(last_seen, 0), -1), 0)
    carry = random.random((groups, 1, 1)) < 0.6
    filled = np.where(observed, window, np.where(carry, carried, 0))
    return filled, observed


def make_batch(pool, seed, step, series_per_batch, patch_size):
    """Returns (values, observed) of shape [groups, variates, context + one patch] as torch tensors."""
    random = np.random.default_rng([seed, 7, step])
    long = random.random() < 0.08
    context = 1024 if long else 512
    total = series_per_batch // 2 if long else series_per_batch
    variates = int(random.choice([1, 2, 3, 4, 6, 8], p=[0.66, 0.08, 0.08, 0.07, 0.06, 0.05]))
    groups = max(1, total // variates)
    length = context + patch_size
    if variates == 1:
        window = own_series(random, pool, groups, length)[:, None, :]
    else:
        window = group_series(random, pool, groups, variates, length)
    values, observed = hide_parts(random, raw_units(random, window), patch_size)
    return torch.from_numpy(values.astype(np.float32)), torch.from_numpy(observed)

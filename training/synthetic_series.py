"""Families of synthetic series.

Every family is a function (random, count, length) -> float array [count, length]. Each row has parameters
of its own. Nothing here is fitted to any real data set.
"""

import numpy as np

COMMON_PERIODS = np.array([24, 24, 24, 24, 7, 7, 12, 12, 48, 60, 96, 168, 288, 30, 52, 4, 144, 365])
PROFILE_BINS = 256


def column(values):
    return np.asarray(values)[:, None]


def log_uniform(random, low, high, size):
    return np.exp(random.uniform(np.log(low), np.log(high), size))


def student_noise(random, count, length, lowest=2.5, highest=30.0):
    """Noise of unit variance with tails of its own in every row."""
    freedom = column(log_uniform(random, lowest, highest, count))
    chi_square = random.standard_gamma(np.broadcast_to(freedom / 2, (count, length))) * 2
    return random.standard_normal((count, length)) / np.sqrt(chi_square / freedom) * np.sqrt((freedom - 2) / freedom)


def autoregressive(noise, persistence):
    """First-order autoregression of unit variance (persistence below one) started in its steady state."""
    result = np.empty_like(noise)
    state = noise[:, 0].copy()
    innovation = np.sqrt(1 - persistence**2)
    for step in range(noise.shape[1]):
        if step:
            state = persistence * state + innovation * noise[:, step]
        result[:, step] = state
    return result


def smooth_drift(random, count, length, lowest=30.0, highest=2000.0):
    """Slow wandering of unit variance: an autoregression with a long memory, smoothed once more."""
    persistence = np.exp(-1 / log_uniform(random, lowest, highest, count))
    rough = autoregressive(random.standard_normal((count, length)), persistence)
    return np.where(column(random.random(count) < 0.5), rough, autoregressive(rough, np.sqrt(persistence)))


def random_walk(random, count, length):
    walk = np.cumsum(random.standard_normal((count, length)), axis=1)
    return walk / walk.std(axis=1, keepdims=True)


def profile_tables(random, count):
    """One period of a season as a table: harmonics, bumps, on/off windows and rough profiles, of unit variance."""
    phase = np.arange(PROFILE_BINS) / PROFILE_BINS
    harmonics = np.zeros((count, PROFILE_BINS))
    decay = column(random.uniform(0.3, 2.5, count))
    for order in range(1, 9):
        amplitude = column(random.standard_normal(count)) * order**-decay
        harmonics += amplitude * np.cos(2 * np.pi * (order * phase + column(random.random(count))))
    bumps = np.zeros((count, PROFILE_BINS))
    for _ in range(3):
        sharpness = column(log_uniform(random, 1, 150, count))
        centre = column(random.random(count))
        bumps += column(random.normal(0.4, 1, count)) * np.exp(sharpness * (np.cos(2 * np.pi * (phase - centre)) - 1))
    window = ((phase - column(random.random(count))) % 1 < column(random.uniform(0.1, 0.7, count))).astype(float)
    rough = np.repeat(random.standard_normal((count, 32)), PROFILE_BINS // 32, axis=1)
    parts = []
    for part, probability in ((harmonics, 0.85), (bumps, 0.5), (window, 0.15), (rough, 0.25)):
        part = (part - part.mean(axis=1, keepdims=True)) / (part.std(axis=1, keepdims=True) + 1e-6)
        parts.append(part * column((random.random(count) < probability) * random.uniform(0.2, 1, count)))
    table = sum(parts)
    nothing = table.std(axis=1) < 1e-3
    table[nothing] = np.cos(2 * np.pi * phase)
    return (table - table.mean(axis=1, keepdims=True)) / table.std(axis=1, keepdims=True)


def read_profile(tables, phase):
    """Linear interpolation of periodic tables at the phases [count, length]."""
    place = (phase % 1) * PROFILE_BINS
    left = place.astype(np.int64) % PROFILE_BINS
    weight = place - np.floor(place)
    right = (left + 1) % PROFILE_BINS
    return np.take_along_axis(tables, left, 1) * (1 - weight) + np.take_along_axis(tables, right, 1) * weight


def season(random, period, length, shift=None):
    count = len(period)
    shift = random.random(count) if shift is None else shift
    return read_profile(profile_tables(random, count), np.arange(length) / column(period) + column(shift))


def random_periods(random, count):
    common = random.choice(COMMON_PERIODS, count).astype(float)
    free = log_uniform(random, 3, 300, count)
    return np.where(random.random(count) < 0.8, common, np.where(random.random(count) < 0.5, np.round(free), free))


def daily_load(random, count, length):
    """Hourly-like demand: a daily shape that drifts, weekday factors, a slow level, correlated noise, outages."""
    period = np.where(random.random(count) < 0.75, 24, random.choice([48, 96, 144, 12, 288], count)).astype(float)
    shift = random.random(count)
    first, second = season(random, period, length, shift), season(random, period, length, shift)
    blend = 1 / (1 + np.exp(-column(random.uniform(0, 3, count)) * smooth_drift(random, count, length)))
    shape = blend * first + (1 - blend) * second
    day = np.floor(np.arange(length) / column(period) + column(shift)).astype(np.int64)
    weekday_factor = 1 + column(random.uniform(0, 0.5, count)) * random.standard_normal((count, 7))
    weekday_level = column(random.uniform(0, 0.8, count) * (random.random(count) < 0.6)) * random.standard_normal((count, 7))
    number_of_days = int(day.max()) + 1
    day_effects = autoregressive(random.standard_normal((count, number_of_days)), random.uniform(0, 0.95, count))
    day_factor = np.exp(column(random.uniform(0, 0.5, count)) * day_effects)
    day_level = column(random.uniform(0, 0.6, count)) * autoregressive(
        random.standard_normal((count, number_of_days)), random.uniform(0, 0.95, count))
    amplitude = np.take_along_axis(day_factor, day, 1) * np.take_along_axis(weekday_factor, day % 7, 1)
    level = np.take_along_axis(weekday_level, day % 7, 1) + np.take_along_axis(day_level, day, 1)
    slow = column(log_uniform(random, 0.1, 3, count)) * smooth_drift(random, count, length)
    noise = autoregressive(student_noise(random, count, length), random.uniform(0, 0.97, count))
    noise *= column(log_uniform(random, 0.05, 1.5, count))
    heteroskedastic = column(random.random(count) < 0.4)
    noise *= np.where(heteroskedastic, np.exp(0.4 * shape), 1.0)
    noise += column(log_uniform(random, 0.02, 0.5, count)) * student_noise(random, count, length)
    load = amplitude * shape + level + slow + noise
    for _ in range(2):
        start = random.integers(0, length, count)
        stop = start + log_uniform(random, 2, 60, count).astype(np.int64)
        where = (np.arange(length) >= column(start)) & (np.arange(length) < column(stop)) & column(random.random(count) < 0.15)
        load = np.where(where, np.quantile(load, 0.02, axis=1)[:, None], load)
    return load


def several_seasons(random, count, length):
    """One to three seasons, a trend, multiplicative growth now and then, white or correlated noise."""
    period = random_periods(random, count)
    result = season(random, period, length)
    factor = random.choice([7, 4, 12, 5, 30], count)
    result += column((random.random(count) < 0.5) * random.uniform(0.1, 1, count)) * season(random, period * factor, length)
    result += column((random.random(count) < 0.3) * random.uniform(0.1, 1, count)) * season(random, random_periods(random, count), length)
    time = np.linspace(0, 1, length)
    trend = column(random.standard_normal(count) * (random.random(count) < 0.6)) * 2 * time ** column(log_uniform(random, 0.5, 2, count))
    growth = np.exp(column((random.random(count) < 0.25) * random.normal(0, 1, count)) * time)
    noise = autoregressive(student_noise(random, count, length), random.uniform(-0.3, 0.95, count))
    drift = column(random.uniform(0, 1, count) * (random.random(count) < 0.5)) * smooth_drift(random, count, length)
    return (result + trend) * growth + drift + column(log_uniform(random, 0.01, 1.5, count)) * noise


def volatility(random, count, length):
    """Log-normal autoregressive volatility with occasional lasting shocks, around one."""
    persistence = np.exp(-1 / log_uniform(random, 5, 300, count))
    wander = autoregressive(random.standard_normal((count, length)), persistence)
    shocks = (random.random((count, length)) < 0.003) * random.exponential(1.0, (count, length))
    lasting = np.zeros(count)
    decay = np.exp(-1 / log_uniform(random, 3, 60, count))
    for step in range(length):
        lasting = decay * lasting + shocks[:, step]
        shocks[:, step] = lasting
    spread = column(random.uniform(0, 0.8, count))
    return np.exp(spread * wander + shocks * column(random.random(count) < 0.5) - spread**2 / 2)


def prices(random, count, length):
    """Geometric and arithmetic random walks with stochastic volatility, fat tails, jumps and a little drift."""
    sigma = column(log_uniform(random, 0.001, 0.05, count))
    noise = student_noise(random, count, length, 2.7, 30.0)
    jumps = (random.random((count, length)) < column(log_uniform(random, 0.0003, 0.01, count))) * random.normal(0, 4, (count, length))
    change = volatility(random, count, length) * noise + jumps * column(random.random(count) < 0.3)
    drift = column(random.normal(0, 0.03, count))
    path = np.cumsum(sigma * (change + drift), axis=1)
    path = np.clip(path, -6, 6)
    geometric = np.exp(path)
    return np.where(column(random.random(count) < 0.8), geometric, path / sigma)


def prices_with_splits(random, count, length):
    """Prices that were never adjusted: one or two splits or mergers of shares divide the level by a whole number."""
    path = np.abs(prices(random, count, length)) + 1e-3
    for _ in range(2):
        ratio = random.choice([2.0, 3.0, 4.0, 5.0, 7.0, 10.0], count)
        ratio = np.where(random.random(count) < 0.75, 1 / ratio, ratio)
        happens = random.random(count) < 0.7
        start = random.integers(100, length, count)
        path = np.where(column(happens) & (np.arange(length) >= column(start)), path * column(ratio), path)
    return path


def prices_in_changing_markets(random, count, length):
    """Prices whose volatility and drift also jump to lasting new values, calm years beside feverish ones."""
    switch = random.random((count, length)) < column(1 / log_uniform(random, 40, 400, count))
    place = np.maximum.accumulate(np.where(switch, np.arange(length), 0), axis=1)
    calm_or_not = np.take_along_axis(random.standard_normal((count, length)), place, 1)
    drift = np.take_along_axis(random.standard_normal((count, length)), place, 1) * column(random.uniform(0, 0.08, count))
    spread = np.exp(column(random.uniform(0.3, 0.9, count)) * calm_or_not) * volatility(random, count, length)
    sigma = column(log_uniform(random, 0.001, 0.03, count))
    path = np.cumsum(sigma * spread * (student_noise(random, count, length, 2.7, 15.0) + drift), axis=1)
    return np.exp(np.clip(path, -6, 6))


def mean_reverting_level(random, count, length):
    """Volatility indices, rates and spreads: a slowly reverting logarithm with upward shocks that fade."""
    persistence = np.exp(-1 / log_uniform(random, 8, 600, count))
    noise = student_noise(random, count, length, 2.7, 20.0) * volatility(random, count, length)
    level = autoregressive(noise, persistence)
    shocks = (random.random((count, length)) < 0.004) * random.exponential(2.0, (count, length))
    decay = np.exp(-1 / log_uniform(random, 3, 60, count))
    state = np.zeros(count)
    for step in range(length):
        state = decay * state + shocks[:, step]
        shocks[:, step] = state
    level = level + shocks * column(random.uniform(0, 1, count) * (random.random(count) < 0.5))
    level = level + column(random.uniform(0, 1, count)) * smooth_drift(random, count, length, 300, 3000)
    return np.where(column(random.random(count) < 0.7), np.exp((column(random.uniform(0.1, 0.5, count)) * level).clip(-5, 5)), level)


def moving_average_autoregression(random, count, length):
    """Second-order autoregression with random stable roots, a moving-average term, integrated for some rows."""
    radius, angle = random.uniform(0.2, 0.99, count), random.uniform(0, np.pi, count)
    real = random.random(count) < 0.5
    one, two = random.uniform(-0.5, 0.99, count), random.uniform(-0.5, 0.95, count)
    first = np.where(real, one + two, 2 * radius * np.cos(angle))
    second = np.where(real, -one * two, -(radius**2))
    noise = student_noise(random, count, length + 100)
    noise[:, 1:] += column(random.uniform(-0.8, 0.8, count)) * noise[:, :-1]
    result = np.zeros_like(noise)
    for step in range(2, length + 100):
        result[:, step] = first * result[:, step - 1] + second * result[:, step - 2] + noise[:, step]
    result = result[:, 100:]
    result = result / (result.std(axis=1, keepdims=True) + 1e-6)
    integrated = np.cumsum(result, axis=1)
    return np.where(column(random.random(count) < 0.25), integrated, result)


def exponential_smoothing_states(random, count, length):
    """Local level, damped local trend and a season that changes, as innovation state-space models make them."""
    period = np.minimum(random_periods(random, count), 168).round().astype(np.int64).clip(2)
    alpha = log_uniform(random, 0.01, 1, count)
    beta = alpha * random.uniform(0, 0.15, count) * (random.random(count) < 0.5)
    gamma = random.uniform(0, 0.3, count) * (random.random(count) < 0.7)
    damping = random.uniform(0.85, 1.0, count)
    table = profile_tables(random, count)
    rows = np.arange(count)
    states = table[:, (np.arange(168) * PROFILE_BINS) // 168 % PROFILE_BINS] * column(log_uniform(random, 0.2, 6, count) * (gamma > 0))
    level, slope = np.zeros(count), random.normal(0, 0.01, count)
    result = np.empty((count, length))
    for step in range(length):
        place = step % period
        error = random.standard_normal(count)
        result[:, step] = level + slope + states[rows, place] + error
        level = level + damping * slope + alpha * error
        slope = damping * slope + beta * error
        states[rows, place] += gamma * error
    return result


def regimes(random, count, length):
    """Level and variance that switch between two or three states, piecewise trends, step functions."""
    number = 3
    stay = column(1 - 1 / log_uniform(random, 15, 400, count))
    switch = random.random((count, length)) > stay
    proposal = random.integers(0, number, (count, length))
    place = np.maximum.accumulate(np.where(switch, np.arange(length), 0), axis=1)
    state = np.take_along_axis(proposal, place, 1)
    level = np.take_along_axis(random.standard_normal((count, number)), state, 1)
    spread = np.take_along_axis(log_uniform(random, 0.03, 1, (count, number)), state, 1)
    slope = np.take_along_axis(random.standard_normal((count, number)) * 0.02, state, 1)
    line = np.cumsum(slope * column(random.random(count) < 0.4), axis=1)
    noise = autoregressive(student_noise(random, count, length), random.uniform(0, 0.9, count))
    cycle = season(random, random_periods(random, count), length) * column(random.uniform(0, 0.7, count) * (random.random(count) < 0.4))
    return level * column(log_uniform(random, 0.3, 3, count)) + line + spread * noise + cycle


def counts(random, count, length):
    """Poisson and over-dispersed counts with seasonal rates, and intermittent demand."""
    rate = log_uniform(random, 0.05, 60, count)
    swing = column(random.uniform(0, 1, count)) * season(random, random_periods(random, count), length)
    swing += column(random.uniform(0, 0.6, count)) * smooth_drift(random, count, length)
    mean = column(rate) * np.exp(np.clip(swing, -4, 2.5))
    dispersion = column(log_uniform(random, 0.5, 100, count))
    mean = np.where(column(random.random(count) < 0.5), mean * random.gamma(dispersion, 1 / dispersion, (count, length)), mean)
    result = random.poisson(np.minimum(mean, 1e6)).astype(float)
    active = random.random((count, length)) < column(random.uniform(0.05, 0.9, count))
    return np.where(column(random.random(count) < 0.3), result * active, result)


def machine_metrics(random, count, length):
    """Spikes on a calm base, saw teeth, saturating gauges, pulse trains."""
    base = column(random.uniform(0, 1, count)) * smooth_drift(random, count, length)
    base += column(random.uniform(0, 1, count) * (random.random(count) < 0.6)) * season(random, random_periods(random, count), length)
    noise = column(log_uniform(random, 0.01, 0.5, count)) * autoregressive(student_noise(random, count, length), random.uniform(0, 0.9, count))
    spikes = (random.random((count, length)) < column(log_uniform(random, 0.002, 0.05, count))) * random.exponential(1, (count, length))
    spikes = spikes * column(log_uniform(random, 0.5, 8, count) * (random.random(count) < 0.6))
    period = random_periods(random, count)
    phase = np.arange(length) / column(period) + column(random.random(count))
    teeth = (phase % 1) * column(random.uniform(0.5, 3, count) * (random.random(count) < 0.25))
    pulses = (phase % 1 < column(random.uniform(0.02, 0.3, count))) * column(random.uniform(0.5, 4, count) * (random.random(count) < 0.25))
    result = base + noise + spikes + teeth + pulses
    ceiling = np.quantile(result, 0.85, axis=1)[:, None]
    return np.where(column(random.random(count) < 0.15), np.minimum(result, ceiling), result)


def smooth_functions(random, count, length):
    """Gaussian processes by random cosines: smooth kernels of several lengths, added and multiplied."""
    time = np.arange(length)
    result = np.zeros((count, length))
    width = column(log_uniform(random, 8, 400, count))
    for _ in range(12):
        frequency = column(random.standard_normal(count)) / width
        result += np.cos(frequency * time + column(random.uniform(0, 2 * np.pi, count)))
    result /= np.sqrt(6)
    cycle = season(random, random_periods(random, count), length)
    kind = column(random.integers(0, 3, count))
    line = column(random.standard_normal(count)) * np.linspace(-1.5, 1.5, length)
    mixed = np.where(kind == 0, result, np.where(kind == 1, result + cycle, result * cycle)) + line * (kind != 2)
    return mixed + column(log_uniform(random, 0.01, 0.7, count)) * student_noise(random, count, length, 4, 30)


def noises(random, count, length):
    """Uncorrelated noise of several tails, a constant with hardly any noise, walks with observation noise."""
    white = student_noise(random, count, length)
    skewed = np.exp(column(random.uniform(0.2, 1.0, count)) * random.standard_normal((count, length)))
    walk = random_walk(random, count, length) + column(log_uniform(random, 0.02, 1, count)) * white
    kind = column(random.integers(0, 4, count))
    return np.where(kind == 0, white, np.where(kind == 1, skewed, walk))


# family: (function, share of the first, second and third stage, whether values may be turned upside down)
FAMILIES = {
    "prices": (prices, (0.22, 0.27, 0.10), False),
    "mean_reverting_level": (mean_reverting_level, (0.07, 0.07, 0.07), False),
    "daily_load": (daily_load, (0.23, 0.20, 0.20), True),
    "several_seasons": (several_seasons, (0.12, 0.10, 0.10), True),
    "moving_average_autoregression": (moving_average_autoregression, (0.06, 0.05, 0.05), True),
    "exponential_smoothing_states": (exponential_smoothing_states, (0.07, 0.06, 0.06), True),
    "regimes": (regimes, (0.05, 0.04, 0.04), True),
    "counts": (counts, (0.05, 0.04, 0.04), False),
    "machine_metrics": (machine_metrics, (0.05, 0.04, 0.04), True),
    "smooth_functions": (smooth_functions, (0.05, 0.04, 0.04), True),
    "noises": (noises, (0.03, 0.03, 0.03), True),
    "prices_with_splits": (prices_with_splits, (0.0, 0.06, 0.05), False),
    "prices_in_changing_markets": (prices_in_changing_markets, (0.0, 0.0, 0.18), False),
}
STAGE_STARTS = (0, 19, 34)  # the chunks with which the stages begin


def make_chunk(seed, chunk, rows, length):
    """Rows of all families by their shares, each row with mean zero and variance one, in an order of chance."""
    random = np.random.default_rng([seed, chunk])
    stage = sum(chunk >= start for start in STAGE_STARTS) - 1
    parts, family_of = [], []
    for number, (function, shares, _) in enumerate(FAMILIES.values()):
        share = shares[stage]
        if share == 0:
            continue
        count = max(2, int(round(share * rows)))
        parts.append(function(random, count, length))
        family_of.append(np.full(count, number))
    series, family_of = np.concatenate(parts), np.concatenate(family_of)
    order = random.permutation(len(series))[:rows]
    series, family_of = series[order], family_of[order]
    series = (series - series.mean(axis=1, keepdims=True)) / (series.std(axis=1, keepdims=True) + 1e-6)
    return np.nan_to_num(series).clip(-50, 50).astype(np.float32), family_of

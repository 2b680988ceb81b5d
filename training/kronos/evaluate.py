"""Judges a checkpoint on real candles, which training never reads.

Walk-forward windows from the end of each file; MASE of the close (median path against the naive forecast), coverage
of the 80% interval of every field, and how often a sampled candle is none (high below open or close, and so on).

Usage: python evaluate.py --checkpoint FOLDER --data FOLDER [--out results.json]
"""

import argparse
import json
import os

import numpy as np
import pandas as pd
import torch

from candles import make_candles
from checkpoint import load_pair
from sampling import sample_paths
from windows import normalise

FIELDS = ("open", "high", "low", "close", "volume", "amount")
SOURCES = {
    "kline 5 min": ("kline_5min.csv", "timestamps", ["open", "high", "low", "close", "volume", "amount"]),
    "btc daily": ("btc_usd_daily.csv", "Date", ["Open", "High", "Low", "Close", "Volume"]),
    "aapl daily, adjusted": ("aapl_daily.csv", "Date", ["Adj. Open", "Adj. High", "Adj. Low", "Adj. Close", "Adj. Volume"]),
    "vix daily": ("vix_daily.csv", "DATE", ["OPEN", "HIGH", "LOW", "CLOSE"]),
}


def read(folder, name):
    """Candles [bars, 6] as the published predictor completes them, and stamps [bars, 5]."""
    file, clock, columns = SOURCES[name]
    frame = pd.read_csv(os.path.join(folder, file), usecols=[clock, *columns])
    frame[clock] = pd.to_datetime(frame[clock])
    frame = frame.sort_values(clock).dropna()
    values = frame[columns].to_numpy(float)
    if len(columns) == 4:
        values = np.concatenate([values, np.zeros((len(values), 2))], 1)
    elif len(columns) == 5:
        values = np.concatenate([values, values[:, 4:] * values[:, :4].mean(1, keepdims=True)], 1)
    time = frame[clock].dt
    stamps = np.stack([time.minute, time.hour, time.weekday, time.day, time.month], 1)
    return torch.tensor(values, dtype=torch.float32), torch.tensor(stamps)


def tail_windows(values, count, stride, length):
    ends = len(values) - stride * np.arange(count)[::-1]
    return torch.stack([values[end - length : end] for end in ends])


def judge(paths, truth, context, horizon):
    """Scores of paths [series, paths, time, 6] in real units against truth [series, time, 6]."""
    paths, truth = paths[:, :, :horizon], truth[:, :horizon]
    low, middle, high = paths.quantile(torch.tensor([0.1, 0.5, 0.9], device=paths.device), 1)
    inside = ((truth >= low) & (truth <= high)).float().mean((0, 1)).tolist()
    unit = (context[:, 1:, 3] - context[:, :-1, 3]).abs().mean(1, keepdim=True).clamp_min(1e-12)
    error = ((middle[..., 3] - truth[..., 3]).abs() / unit).mean().item()
    naive = ((context[:, -1:, 3] - truth[..., 3]).abs() / unit).mean().item()
    o, h, l, c, volume, amount = paths.unbind(-1)
    high_broken, low_broken = h < torch.maximum(o, c), l > torch.minimum(o, c)
    traded = (context[..., 4].amax(1) > 0)[:, None, None]
    negative = ((volume < 0) | (amount < 0)) & traded
    depth = torch.maximum(torch.maximum(o, c) - h, l - torch.minimum(o, c)).clamp_min(0) / unit[:, None]
    share = lambda flags: flags.float().mean().item()
    return dict(mase=error, naive=naive, ratio=error / naive, coverage=dict(zip(FIELDS, inside)),
                valid=1 - share(high_broken | low_broken | negative), high_broken=share(high_broken),
                low_broken=share(low_broken), negative=share(negative), depth=depth.mean().item())


def describe(entry):
    cover = " ".join(f"{100 * value:5.1f}" for value in entry["coverage"].values())
    return (f"{entry['data']:<22} h={entry['horizon']:<3} top_p={entry['top_p']:<4} MASE {entry['mase']:.3f} "
            f"naive {entry['naive']:.3f} ratio {entry['ratio']:.3f} | coverage o h l c v a {cover} | "
            f"valid {100 * entry['valid']:.2f} high {100 * entry['high_broken']:.2f} low {100 * entry['low_broken']:.2f} "
            f"negative {100 * entry['negative']:.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--data")
    parser.add_argument("--out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--context", type=int, default=480)
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--stride", type=int, default=24)
    parser.add_argument("--paths", type=int, default=128)
    parser.add_argument("--chunk", type=int, default=6, help="windows at a time; another number draws other paths")
    parser.add_argument("--top-p", type=float, nargs="+", default=[0.9, 1.0])
    parser.add_argument("--synthetic", type=int, default=0, help="judge on so many fresh synthetic series as well")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    horizons, longest = (8, 24), 24
    tokenizer, model = load_pair(arguments.checkpoint, arguments.device)
    length = arguments.context + longest
    tasks = {}
    for name in SOURCES:
        if arguments.data and arguments.only in name:
            values, stamps = read(arguments.data, name)
            tasks[name] = tuple(tail_windows(part, arguments.windows, arguments.stride, length) for part in (values, stamps))
    if arguments.synthetic:
        random = torch.Generator("cpu").manual_seed(arguments.seed + 1000)
        candles, stamps = make_candles(random, arguments.synthetic, length)
        tasks["synthetic"] = candles, stamps

    results = []
    for name, (candles, stamps) in tasks.items():
        candles, stamps = candles.to(arguments.device), stamps.to(arguments.device)
        values, mean, deviation = normalise(candles, arguments.context)
        context, truth = candles[:, : arguments.context], candles[:, arguments.context :]
        with torch.no_grad():
            again = tokenizer.decode(*tokenizer.encode(values[:, : arguments.context])) * deviation + mean
        unit = (context[:, 1:, 3] - context[:, :-1, 3]).abs().mean(1, keepdim=True).clamp_min(1e-12)
        lost = ((again - context)[:, 64:, 3].abs() / unit).mean().item()
        for top_p in arguments.top_p:
            random = torch.Generator(arguments.device).manual_seed(arguments.seed)
            parts = [sample_paths(tokenizer, model, values[at : at + arguments.chunk, : arguments.context],
                                  stamps[at : at + arguments.chunk], longest, arguments.paths, random, top_p=top_p)
                     for at in range(0, len(values), arguments.chunk)]
            paths = torch.cat(parts) * deviation[:, None] + mean[:, None]
            for horizon in horizons:
                entry = dict(data=name, horizon=horizon, top_p=top_p, windows=len(values), paths=arguments.paths,
                             context=arguments.context, reconstruction=lost, **judge(paths, truth, context, horizon))
                results.append(entry)
                print(describe(entry), flush=True)
        print(f"{name}: error of the reconstructed close {lost:.3f} of a usual step", flush=True)
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()

"""Windows as the predictor sees them: every field normalised by its mean and deviation over the context, then clipped."""

from dataclasses import dataclass

import torch

CLIP = 5.0
LONGEST = 512  # tokens that the model sees at once
FUTURE = 96  # bars after the context in a training window


@dataclass
class Window:
    values: torch.Tensor  # [rows, bars, 6], normalised and clipped
    stamps: torch.Tensor  # [rows, bars, 5]
    mean: torch.Tensor  # [rows, 1, 6]
    deviation: torch.Tensor  # [rows, 1, 6]
    context: int


def normalise(candles, context):
    """Normalised candles, mean and deviation, as the published predictor computes them from the context alone."""
    seen = candles[:, :context]
    mean = seen.mean(1, keepdim=True)
    deviation = (seen - mean).square().mean(1, keepdim=True).sqrt() + 1e-5
    return ((candles - mean) / deviation).clamp(-CLIP, CLIP), mean, deviation


def draw_window(pool, chooser, tokens):
    """About `tokens` bars in windows of one context length; `chooser` is a random.Random."""
    context = chooser.choice([chooser.randint(64, LONGEST), chooser.randint(256, LONGEST)])
    length = context + FUTURE
    candles, stamps = pool.take(tokens // length, length)
    values, mean, deviation = normalise(candles, context)
    return Window(values, stamps, mean, deviation, context)

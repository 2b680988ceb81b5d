"""Windows as the predictor sees them: every field normalised by its mean and deviation over the context, then clipped."""

from dataclasses import dataclass

import torch

CLIP = 5.0
LONGEST = 512  # tokens that the model sees at once
FUTURE = 96  # bars after the context in a training window
CONTEXTS = (64, 96, 144, 208, 256, 320, 368, 400, 432, 464, 480, 512)


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
    """About `tokens` bars in windows of one context length; `chooser` is a random.Random.

    A price that hardly moves leaves a deviation made of rounding: such rows repeat a sound one.
    """
    context = chooser.choice(CONTEXTS)
    length = context + FUTURE
    candles, stamps = pool.take(tokens // length, length)
    values, mean, deviation = normalise(candles, context)
    sound = (deviation[..., :4] > 1e-5 + 1e-5 * mean[..., :4].abs()).all(-1)[:, 0]
    row = torch.where(sound, torch.arange(len(sound), device=sound.device), sound.float().argmax())
    return Window(values[row], stamps[row], mean[row], deviation[row], context)

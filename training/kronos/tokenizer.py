"""The tokenizer: a candle becomes two integers, the signs of a point on a sphere (binary spherical quantisation)."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from network import Block, initialise

CONFIGURATION = dict(
    d_in=6, d_model=96, n_heads=4, ff_dim=192, n_enc_layers=3, n_dec_layers=3, ffn_dropout_p=0.0, attn_dropout_p=0.0,
    resid_dropout_p=0.0, s1_bits=10, s2_bits=10, beta=0.05, gamma0=1.0, gamma=1.1, zeta=0.05, group_size=5)

SHARPNESS = 12.0  # inverse temperature of the soft bits in the entropy terms


class SignBuffers(nn.Module):
    """Holds two tables that published files carry and no computation here needs."""

    def __init__(self, bits, group_size):
        super().__init__()
        self.bsq = nn.Module()
        self.bsq.register_buffer("basis", 2 ** torch.arange(bits - 1, -1, -1))
        self.bsq.register_buffer("group_basis", 2 ** torch.arange(group_size - 1, -1, -1))


class Tokenizer(nn.Module):
    def __init__(self, configuration=CONFIGURATION):
        super().__init__()
        self.configuration = c = dict(configuration)
        self.bits, self.half = c["s1_bits"] + c["s2_bits"], c["s1_bits"]
        width, shape = c["d_model"], (c["d_model"], c["n_heads"], c["ff_dim"])
        self.embed, self.head = nn.Linear(c["d_in"], width), nn.Linear(width, c["d_in"])
        self.encoder = nn.ModuleList(Block(*shape) for _ in range(c["n_enc_layers"] - 1))
        self.decoder = nn.ModuleList(Block(*shape) for _ in range(c["n_dec_layers"] - 1))
        self.quant_embed = nn.Linear(width, self.bits)
        self.post_quant_embed_pre = nn.Linear(self.half, width)
        self.post_quant_embed = nn.Linear(self.bits, width)
        self.tokenizer = SignBuffers(self.bits, c["group_size"])
        initialise(self)

    def sphere(self, values):
        hidden = self.embed(values)
        for block in self.encoder:
            hidden = block(hidden)
        return F.normalize(self.quant_embed(hidden), dim=-1)

    def quantise(self, point):
        """The nearest corner ±1/sqrt(bits); its gradient passes straight through to the point."""
        corner = torch.where(point > 0, 1.0, -1.0)
        return (point + (corner - point).detach()) / math.sqrt(self.bits)

    def expand(self, hidden):
        for block in self.decoder:
            hidden = block(hidden)
        return self.head(hidden)

    def encode(self, values):
        """Normalised candles [rows, time, 6] -> s1 and s2 [rows, time], lowest bit first."""
        bits = (self.sphere(values) > 0).long()
        powers = 2 ** torch.arange(self.half, device=values.device)
        return (bits[..., : self.half] * powers).sum(-1), (bits[..., self.half :] * powers).sum(-1)

    def corners(self, s1, s2):
        powers = 2 ** torch.arange(self.half, device=s1.device)
        bits = torch.cat([s1[..., None] & powers, s2[..., None] & powers], -1) != 0
        return (bits.float() * 2 - 1) / math.sqrt(self.bits)

    def decode(self, s1, s2):
        return self.expand(self.post_quant_embed(self.corners(s1, s2)))

    def bit_losses(self, point):
        """Commitment to a corner; every candle sure of its bits, all candles together using all codes of each group."""
        c = self.configuration
        corner = torch.where(point > 0, 1.0, -1.0) / math.sqrt(self.bits)
        commitment = (corner - point).square().sum(-1).mean()
        logit = 4 * SHARPNESS * point / math.sqrt(self.bits)
        chance = torch.sigmoid(logit)
        doubt = F.binary_cross_entropy_with_logits(logit, chance, reduction="none").sum(-1).mean()
        size = c["group_size"]
        codes = (torch.arange(2**size, device=point.device)[:, None] >> torch.arange(size, device=point.device)) & 1
        sides = (codes * 2 - 1).float() * (2 * SHARPNESS / math.sqrt(self.bits))
        usage = (point.unflatten(-1, (-1, size)) @ sides.t()).softmax(-1).flatten(0, -3).mean(0)
        variety = -(usage * (usage + 1e-8).log()).sum()
        return c["beta"] * commitment + c["zeta"] * (c["gamma0"] * doubt - c["gamma"] * variety), variety


def shape_of(values, window):
    """Upper wick, lower wick and body in one unit: the deviation of the close."""
    real = values[..., :4] * window.deviation[..., :4] + window.mean[..., :4] - window.mean[..., 3:4]
    o, h, l, c = (real / window.deviation[..., 3:4]).unbind(-1)
    return torch.stack([h - torch.maximum(o, c), torch.minimum(o, c) - l, c - o], -1)


def bar_size(window):
    """How far one bar moves in normalised units, per series [rows, 1, 1]; the unit in which price errors count."""
    close = window.values[:, : window.context, 3]
    return ((close[:, 1:] - close[:, :-1]).abs().mean(1) + 0.03)[:, None, None]


def distance(difference, softness):
    return (difference.square() + softness**2).sqrt() - softness


def invalidity(values, window, unit):
    """How far candles break their own rules: wicks below a small positive margin, volumes below zero."""
    wicks = F.relu(0.1 - shape_of(values, window)[..., :2] / unit).mean()
    floor = -window.mean[..., 4:] / window.deviation[..., 4:]
    return wicks + F.relu(floor + 0.01 - values[..., 4:]).mean()


def reconstruction(values, window, unit):
    error = values - window.values
    prices = distance(error[..., :4] / unit, 0.1).mean()
    shape = distance((shape_of(values, window) - shape_of(window.values, window)) / unit, 0.1).mean()
    traded = distance(error[..., 4:], 0.05).mean()
    return 2 * prices + shape + traded + error.square().mean()


def training_loss(tokenizer, window):
    """Everything the tokenizer is trained on, and the numbers worth logging."""
    unit = bar_size(window)
    point = tokenizer.sphere(window.values)
    corner = tokenizer.quantise(point)
    coarse = tokenizer.expand(tokenizer.post_quant_embed_pre(corner[..., : tokenizer.half]))
    fine = tokenizer.expand(tokenizer.post_quant_embed(corner))
    # generation may pair a coarse token with a fine one that fits it badly: the candle should still be one
    rows = len(corner) // 4
    other = torch.cat([corner[:rows, :, : tokenizer.half], corner[rows : 2 * rows, :, tokenizer.half :]], -1).detach()
    future = slice(window.context, None)
    mixed = torch.cat([corner[:rows, : window.context], other[:, future]], 1)
    part = type(window)(window.values[:rows], window.stamps, window.mean[:rows], window.deviation[:rows], window.context)
    mixed_loss = invalidity(tokenizer.expand(tokenizer.post_quant_embed(mixed))[:, future], part, unit[:rows])
    fine_loss, coarse_loss = reconstruction(fine, window, unit), reconstruction(coarse, window, unit)
    broken = invalidity(fine, window, unit)
    bits, variety = tokenizer.bit_losses(point)
    loss = fine_loss + 0.4 * coarse_loss + 4 * broken + invalidity(coarse, window, unit) + mixed_loss + bits
    with torch.no_grad():
        shape = shape_of(fine, window)[..., :2]
        error = (fine - window.values).abs()
        numbers = dict(fine=fine_loss, coarse=coarse_loss, invalid_share=(shape < 0).any(-1).float().mean(),
                       close_error=error[..., 3].mean(), close_error_bars=(error[..., 3:4] / unit).mean(),
                       coarse_close_error=(coarse - window.values)[..., 3].abs().mean(),
                       volume_error=error[..., 4].mean(), mixed=mixed_loss, variety=variety)
    return loss, numbers

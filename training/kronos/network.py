"""What tokenizer and model are made of: rotary causal attention, the gated feed-forward part, their block."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, values):
        return F.rms_norm(values.float(), self.weight.shape, self.weight, 1e-5)


class Rotary(nn.Module):
    """Rotates the halves (i, i + D/2) of a head by position · 10000^(-2i/D)."""

    def __init__(self, head_width):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, head_width, 2).float() / head_width))

    def forward(self, values, first=0):
        """values [..., time, head_width], the first of them at position `first`."""
        position = torch.arange(first, first + values.shape[-2], device=values.device)
        angle = position[:, None] * self.inv_freq
        cosine, sine = angle.cos().to(values.dtype), angle.sin().to(values.dtype)
        left, right = values.chunk(2, -1)
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)


class Attention(nn.Module):
    """Causal attention. With `rotate` off, positions are not told apart except by the causal order."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.rotary = Rotary(width // heads)

    def split(self, values):
        """[rows, time, width] -> [rows, heads, time, head_width]"""
        return values.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, queries, keys, rotate=True):
        q, k, v = self.split(self.q_proj(queries)), self.split(self.k_proj(keys)), self.split(self.v_proj(keys))
        if rotate:
            q, k = self.rotary(q), self.rotary(k)
        kind = torch.bfloat16 if q.is_cuda else q.dtype
        result = F.scaled_dot_product_attention(q.to(kind), k.to(kind), v.to(kind), is_causal=True)
        return self.out_proj(result.transpose(1, 2).flatten(2).to(queries.dtype))


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, values):
        return self.w2(F.silu(self.w1(values)) * self.w3(values))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.norm1, self.self_attn = RMSNorm(width), Attention(width, heads)
        self.norm2, self.ffn = RMSNorm(width), FeedForward(width, hidden)

    def forward(self, values):
        normed = self.norm1(values)
        values = values + self.self_attn(normed, normed)
        return values + self.ffn(self.norm2(values))


def initialise(module):
    """Xavier for the linear layers, zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_normal_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)

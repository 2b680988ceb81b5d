"""The model: tokens of past bars -> the coarse token s1 of the next bar, then its fine token s2 given s1."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from network import Attention, Block, RMSNorm, initialise
from windows import LONGEST

CONFIGURATION = dict(
    s1_bits=10, s2_bits=10, n_layers=5, d_model=128, n_heads=4, ff_dim=256, ffn_dropout_p=0.0, attn_dropout_p=0.0,
    resid_dropout_p=0.0, token_dropout_p=0.0, learn_te=True)


class Embedding(nn.Module):
    def __init__(self, c):
        super().__init__()
        width = c["d_model"]
        self.emb_s1, self.emb_s2 = nn.Embedding(2 ** c["s1_bits"], width), nn.Embedding(2 ** c["s2_bits"], width)
        self.fusion_proj = nn.Linear(2 * width, width)
        self.scale = math.sqrt(width)

    def forward(self, s1, s2):
        return self.fusion_proj(torch.cat([self.emb_s1(s1), self.emb_s2(s2)], -1) * self.scale)


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.minute_embed, self.hour_embed = nn.Embedding(60, width), nn.Embedding(24, width)
        self.weekday_embed, self.day_embed = nn.Embedding(7, width), nn.Embedding(32, width)
        self.month_embed = nn.Embedding(13, width)

    def forward(self, stamps):
        tables = (self.minute_embed, self.hour_embed, self.weekday_embed, self.day_embed, self.month_embed)
        return sum(table(stamps[..., place]) for place, table in enumerate(tables))


class Dependency(nn.Module):
    """Lets the coarse token ask the context: its embedding is the query, the model's output keys and values.

    Generation passes one query over all positions, neither rotated nor masked. Causal attention without rotation gives
    every position of a training window exactly that.
    """

    def __init__(self, width):
        super().__init__()
        self.cross_attn, self.norm = Attention(width, 4), RMSNorm(width)

    def forward(self, context, sibling):
        return self.norm(context + self.cross_attn(sibling, context, rotate=False))


class Heads(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj_s1 = nn.Linear(c["d_model"], 2 ** c["s1_bits"])
        self.proj_s2 = nn.Linear(c["d_model"], 2 ** c["s2_bits"])


class Model(nn.Module):
    def __init__(self, configuration=CONFIGURATION):
        super().__init__()
        self.configuration = c = dict(configuration)
        self.embedding, self.time_emb = Embedding(c), TimeEmbedding(c["d_model"])
        self.transformer = nn.ModuleList(Block(c["d_model"], c["n_heads"], c["ff_dim"]) for _ in range(c["n_layers"]))
        self.norm, self.dep_layer, self.head = RMSNorm(c["d_model"]), Dependency(c["d_model"]), Heads(c)
        initialise(self)
        for part in self.modules():
            if isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=c["d_model"] ** -0.5)

    def context(self, s1, s2, stamps):
        hidden = self.embedding(s1, s2) + self.time_emb(stamps)
        for block in self.transformer:
            hidden = block(hidden)
        return self.norm(hidden)


def training_loss(model, tokenizer, window):
    """Cross entropy of both tokens of the bars after the context: only there are the statistics those of the past."""
    with torch.no_grad():
        s1, s2 = (tokens[:, -LONGEST - 1 :] for tokens in tokenizer.encode(window.values))
        stamps = window.stamps[:, -LONGEST - 1 :]
    future = slice(-(window.values.shape[1] - window.context), None)
    context = model.context(s1[:, :-1], s2[:, :-1], stamps[:, :-1])
    coarse = model.head.proj_s1(context[:, future])
    answered = model.dep_layer(context, model.embedding.emb_s1(s1[:, 1:]))
    fine = model.head.proj_s2(answered[:, future])
    coarse_loss = F.cross_entropy(coarse.flatten(0, 1).float(), s1[:, 1:][:, future].flatten())
    fine_loss = F.cross_entropy(fine.flatten(0, 1).float(), s2[:, 1:][:, future].flatten())
    return coarse_loss + fine_loss, dict(coarse=coarse_loss, fine=fine_loss)

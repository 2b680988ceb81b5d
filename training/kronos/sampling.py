"""Sampled paths: the context is run once per series, every path adds only its own bars (keys and values are kept)."""

import torch
import torch.nn.functional as F

from windows import LONGEST


def choose(logits, temperature, top_p, random):
    """Nucleus sampling: the likeliest tokens up to and including the one whose cumulative probability exceeds top_p."""
    logits = logits.float() / temperature
    if top_p < 1:
        ordered, order = logits.sort(-1, descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        dropped = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before > top_p)
        logits = logits.masked_fill(dropped, -torch.inf)
    chances = logits.softmax(-1)
    return torch.multinomial(chances.flatten(0, -2), 1, generator=random).view(chances.shape[:-1])


class SharedAttention:
    """One attention layer over a prefix [series, time] and the suffixes [series, path, step] grown from it."""

    def __init__(self, layer, prefix, rotate=True):
        self.layer, self.rotate, self.length = layer, rotate, prefix.shape[1]
        k, v = layer.split(layer.k_proj(prefix)), layer.split(layer.v_proj(prefix))
        self.prefix_keys, self.prefix_values = layer.rotary(k) if rotate else k, v
        self.keys, self.values = [], []

    def append(self, new):
        """new [series, paths, width]: the next position of every path."""
        k, v = self.layer.split(self.layer.k_proj(new)), self.layer.split(self.layer.v_proj(new))
        self.keys.append(self.turned(k, len(self.keys)))
        self.values.append(v)

    def turned(self, values, step):
        if not self.rotate:
            return values
        return self.layer.rotary(values[..., None, :], self.length + step)[..., 0, :]

    def ask(self, queries):
        """queries [series, paths, width]; rotated as the position last appended."""
        q = self.layer.split(self.layer.q_proj(queries))  # [series, heads, paths, head_width]
        q = self.turned(q, len(self.keys) - 1) * q.shape[-1] ** -0.5
        scores = q @ self.prefix_keys.mT
        if self.keys:
            keys, values = torch.stack(self.keys, -2), torch.stack(self.values, -2)
            scores = torch.cat([scores, torch.einsum("shpd,shptd->shpt", q, keys)], -1)
        weights = scores.softmax(-1)
        result = weights[..., : self.length] @ self.prefix_values
        if self.keys:
            result = result + torch.einsum("shpt,shptd->shpd", weights[..., self.length :], values)
        return self.layer.out_proj(result.transpose(1, 2).flatten(2))


class SharedBlocks:
    """A stack of blocks: the prefix runs at once, then one position of every path at a time."""

    def __init__(self, blocks, prefix):
        self.blocks, self.attentions = blocks, []
        for block in blocks:
            self.attentions.append(SharedAttention(block.self_attn, block.norm1(prefix)))
            prefix = block(prefix)
        self.prefix = prefix

    def step(self, hidden):
        for block, attention in zip(self.blocks, self.attentions):
            normed = block.norm1(hidden)
            attention.append(normed)
            hidden = hidden + attention.ask(normed)
            hidden = hidden + block.ffn(block.norm2(hidden))
        return hidden


@torch.no_grad()
def sample_paths(tokenizer, model, context, stamps, horizon, paths, random, temperature=1.0, top_p=0.9):
    """Normalised candles [series, paths, horizon, 6] after `context` [series, time, 6]; stamps [series, time + horizon, 5].

    Context and horizon together must fit the model's window: nothing slides here.
    """
    length = context.shape[1]
    assert length + horizon <= LONGEST
    s1, s2 = tokenizer.encode(context)
    blocks = SharedBlocks(model.transformer, model.embedding(s1, s2) + model.time_emb(stamps[:, :length]))
    seen = model.norm(blocks.prefix)
    dependency = SharedAttention(model.dep_layer.cross_attn, seen, rotate=False)
    decoder = SharedBlocks(tokenizer.decoder, tokenizer.post_quant_embed(tokenizer.corners(s1, s2)))
    last = seen[:, -1:].expand(-1, paths, -1)
    candles = []
    for step in range(horizon):
        s1 = choose(model.head.proj_s1(last), temperature, top_p, random)
        answered = model.dep_layer.norm(last + dependency.ask(model.embedding.emb_s1(s1)))
        s2 = choose(model.head.proj_s2(answered), temperature, top_p, random)
        candles.append(tokenizer.head(decoder.step(tokenizer.post_quant_embed(tokenizer.corners(s1, s2)))))
        if step + 1 < horizon:
            hidden = model.embedding(s1, s2) + model.time_emb(stamps[:, length + step])[:, None]
            last = model.norm(blocks.step(hidden))
            dependency.append(last)
    return torch.stack(candles, 2)

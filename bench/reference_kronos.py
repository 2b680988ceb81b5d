"""The public references that nowcast is measured against for Kronos, in one process: the public code as its
documentation uses it, and PyTorch with the same algorithmic savings as nowcast (a context that all paths share is
computed once, a new candle costs one token, only the last token reaches a head).

Usage: python3 bench/reference_kronos.py --source CHECKOUT --model FOLDER --work JSON --kind published|savings [--bf16]

Prints the milliseconds of each run and the most memory the process had resident, as JSON. `published` is run once;
`savings` is run once to warm up and five times more, after its greedy tokens have been compared with the public code's.
"""

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy
import torch

RUNS = 5
FIELDS = 6


def candles(count):
    """Bars of five minutes around 100, as a frame and times."""
    import pandas

    generator = numpy.random.default_rng(0)
    close = 100 + numpy.cumsum(generator.normal(0, 0.3, count))
    open_ = numpy.concatenate([[100.0], close[:-1]])
    high = numpy.maximum(open_, close) + generator.exponential(0.1, count)
    low = numpy.minimum(open_, close) - generator.exponential(0.1, count)
    frame = pandas.DataFrame(dict(open=open_, high=high, low=low, close=close))
    frame["volume"] = generator.exponential(1000.0, count)
    times = pandas.Series(pandas.date_range("2024-01-01 09:00", periods=count, freq="5min"))
    return frame, times


def load(source, folder):
    """Tokenizer and model of a folder, in evaluation mode."""
    sys.path.insert(0, source)
    from model.kronos import Kronos, KronosTokenizer
    from safetensors.torch import load_file

    halves = []
    for kind, half in ((KronosTokenizer, "tokenizer"), (Kronos, "model")):
        model = kind(**json.loads((Path(folder) / half / "config.json").read_text()))
        model.load_state_dict(load_file(Path(folder) / half / "model.safetensors"))
        halves.append(model.eval())
    return halves


class Published:
    """`KronosPredictor` as its documentation uses it."""

    def __init__(self, tokenizer, model, max_context=512):
        from model.kronos import KronosPredictor

        self.predictor = KronosPredictor(model, tokenizer, device="cpu", max_context=max_context)

    def forecast(self, work):
        frame, times = candles(work["context"] + work["horizon"])
        past, future = slice(0, work["context"]), slice(work["context"], None)
        return self.predictor.predict(
            frame[past], times[past], times[future], work["horizon"], T=work["temperature"], top_k=work["top_k"],
            top_p=work["top_p"], sample_count=work["samples"], verbose=False,
        )


class SharedPrefix:
    """Transformer blocks over a prefix that all paths share, and over each path's own tokens behind it."""

    def __init__(self, blocks):
        self.blocks = blocks

    def prefill(self, x):
        """The prefix, `[1, tokens, width]`; its keys and values stay."""
        self.length, self.prefix, self.own = x.shape[1], [], []
        for block in self.blocks:
            query, key, value = self.projections(block, x, 0)
            attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            self.prefix.append((key[0], value[0]))
            x = self.rest(block, x, attended)
        return x

    def extend(self, x):
        """More tokens of every path, `[paths, tokens, width]`."""
        seen = self.own[0][0].shape[2] if self.own else 0
        tokens = x.shape[1]
        mask = torch.ones(tokens, seen + tokens, dtype=torch.bool).tril(seen).logical_not()
        for index, block in enumerate(self.blocks):
            query, key, value = self.projections(block, x, self.length + seen)
            if seen:
                key = torch.cat([self.own[index][0], key], dim=2)
                value = torch.cat([self.own[index][1], value], dim=2)
                self.own[index] = (key, value)
            else:
                self.own.append((key, value))
            x = self.rest(block, x, self.attend(query, index, key, value, mask))
        return x

    def attend(self, query, index, key, value, mask):
        """Scores against the prefix are one product over all paths; those against own tokens are one for each path."""
        prefix_key, prefix_value = self.prefix[index]
        paths, heads, tokens, head_dim = query.shape
        flat = query.transpose(0, 1).reshape(heads, paths * tokens, head_dim)
        shared = (flat @ prefix_key.transpose(1, 2)).view(heads, paths, tokens, -1).transpose(0, 1)
        own = (query @ key.transpose(2, 3)).masked_fill(mask, -math.inf)
        weights = torch.softmax(torch.cat([shared, own], dim=-1) / math.sqrt(head_dim), dim=-1)
        of_prefix = weights[..., : self.length].transpose(0, 1).reshape(heads, paths * tokens, -1)
        of_prefix = (of_prefix.to(prefix_value.dtype) @ prefix_value).view(heads, paths, tokens, head_dim).transpose(0, 1)
        return of_prefix + weights[..., self.length :].to(value.dtype) @ value

    def projections(self, block, x, position):
        attention = block.self_attn
        normed = block.norm1(x)
        split = lambda y: y.view(*x.shape[:2], attention.n_heads, attention.head_dim).transpose(1, 2)
        query, key, value = (split(part(normed)) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        angles = torch.outer(torch.arange(position, position + x.shape[1]).float(), attention.rotary.inv_freq)
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        turn = lambda y: (y * cos + attention.rotary._rotate_half(y) * sin).to(value.dtype)
        return turn(query), turn(key), value

    @staticmethod
    def rest(block, x, attended):
        x = x + block.self_attn.out_proj(attended.transpose(1, 2).reshape(x.shape))
        return x + block.ffn(block.norm2(x))


class WithSavings:
    """One forecast with a shared prefill. A window that slides is computed again for every candle, its context once."""

    def __init__(self, tokenizer, model, max_context=512):
        from model.kronos import sample_from_logits

        self.tokenizer, self.model, self.max_context, self.sample = tokenizer, model, max_context, sample_from_logits

    @torch.inference_mode()
    def tokens(self, work, bfloat16=False):
        """Tokens of every path, `[2, paths, horizon]`, and what the tokenizer makes of them."""
        context, horizon, paths = work["context"], work["horizon"], work["samples"]
        x, stamps, units = self.inputs(work)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            known = self.tokenizer.encode(x, half=True)
            drawn = torch.zeros(2, paths, 0, dtype=torch.long)
            stack, first = None, 0
            for step in range(horizon):
                start = max(0, context + step - self.max_context)
                if stack is None or start != first:
                    stack, first = SharedPrefix(self.model.transformer), start
                    hidden = stack.prefill(self.embed(known, stamps[:, :context], start))
                    shared = self.dependency(hidden)
                    last, own = hidden[:, -1:].expand(paths, -1, -1), None
                    fresh = drawn
                if fresh.shape[2]:
                    at = stamps[:, context + step - fresh.shape[2] : context + step].expand(paths, -1, -1)
                    hidden = stack.extend(self.embed(fresh, at, 0))
                    last = hidden[:, -1:]
                    more = self.dependency(hidden)
                    own = more if own is None else [torch.cat(pair, dim=2) for pair in zip(own, more)]
                fresh = self.next_tokens(last, shared, own, work)
                drawn = torch.cat([drawn, fresh], dim=2)
            values = self.decode(known, drawn)
        return drawn, values.float() * units[1] + units[0]

    def inputs(self, work):
        from model.kronos import calc_time_stamps

        frame, times = candles(work["context"] + work["horizon"])
        frame["amount"] = frame["volume"] * frame[["open", "high", "low", "close"]].mean(axis=1)
        values = frame[["open", "high", "low", "close", "volume", "amount"]].to_numpy("float32")[: work["context"]]
        mean, deviation = values.mean(axis=0), values.std(axis=0) + 1e-5
        x = torch.from_numpy(numpy.clip((values - mean) / deviation, -5, 5))[None]
        stamps = torch.from_numpy(calc_time_stamps(times).to_numpy("float32"))[None]
        return x, stamps, (torch.from_numpy(mean), torch.from_numpy(deviation))

    def embed(self, tokens, stamps, start):
        x = self.model.embedding([tokens[0][:, start:], tokens[1][:, start:]])
        return x + self.model.time_emb(stamps[:, start:])

    def dependency(self, hidden):
        """Keys and values that the coarse token asks, which are not rotated."""
        attention, normed = self.model.dep_layer.cross_attn, self.model.norm(hidden)
        split = lambda y: y.view(*hidden.shape[:2], attention.n_heads, attention.head_dim).transpose(1, 2)
        return split(attention.k_proj(normed)), split(attention.v_proj(normed))

    def next_tokens(self, last, shared, own, work):
        options = dict(temperature=work["temperature"], top_k=work["top_k"], top_p=work["top_p"])
        normed = self.model.norm(last)
        coarse = self.sample(self.model.head(normed)[:, -1].float(), **options)
        layer = self.model.dep_layer
        attention = layer.cross_attn
        paths, heads, width = last.shape[0], attention.n_heads, attention.head_dim
        query = attention.q_proj(self.model.embedding.emb_s1(coarse)).view(paths, 1, heads, width).transpose(1, 2)
        stack = SharedPrefix([])
        stack.length, stack.prefix = shared[0].shape[2], [(shared[0][0], shared[1][0])]
        key, value = own if own is not None else [part[:, :, :0].expand(paths, -1, -1, -1) for part in shared]
        attended = stack.attend(query, 0, key, value, torch.zeros(1, key.shape[2], dtype=torch.bool))
        attended = attention.out_proj(attended.transpose(1, 2).reshape(paths, 1, heads * width))
        fine = self.sample(self.model.head.cond_forward(layer.norm(normed + attended))[:, -1].float(), **options)
        return torch.stack([coarse, fine])

    def decode(self, known, drawn):
        start = max(0, known[0].shape[1] + drawn.shape[2] - self.max_context)
        bits = lambda tokens: self.tokenizer.post_quant_embed(self.tokenizer.indices_to_bits(tokens, half=True))
        stack = SharedPrefix(self.tokenizer.decoder)
        stack.prefill(bits([part[:, start:] for part in known]))
        return self.tokenizer.head(stack.extend(bits([drawn[0], drawn[1]])))


def milliseconds(call):
    started = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - started), result


def check(published, savings, work):
    """Both take the likeliest tokens; a wrong saving would show in the first candle."""
    greedy = dict(work, samples=2, horizon=min(work["horizon"], 4), top_k=1)
    theirs = published.forecast(greedy).to_numpy()
    ours = savings.tokens(greedy)[1].numpy()
    scale = savings.inputs(greedy)[2][1].numpy()
    for path in ours:
        error = numpy.abs((path - theirs) / scale).max()
        if error > 1e-3:
            sys.exit(f"PyTorch with savings is wrong: {error} deviations from the public code")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--work", type=json.loads, required=True)
    parser.add_argument("--kind", choices=["published", "savings"], required=True)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    tokenizer, model = load(options.source, options.model)
    published, savings = Published(tokenizer, model), WithSavings(tokenizer, model)
    if options.kind == "published":
        runs = [milliseconds(lambda: published.forecast(options.work))[0]]
    else:
        check(published, savings, options.work)
        call = lambda: savings.tokens(options.work, options.bf16)
        runs = [milliseconds(call)[0] for _ in range(RUNS + 1)][1:]
    print(json.dumps(dict(runs_ms=runs, peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)))


if __name__ == "__main__":
    main()

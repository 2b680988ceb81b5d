"""Confirms that the public Kronos code loads a checkpoint and computes with it what this code computes.

Usage: python check_public.py --checkpoint FOLDER --kronos CLONE   (a clone of the public repository)
"""

import argparse
import os
import sys

import torch
from safetensors.torch import load_file

import sampling
from candles import make_candles
from checkpoint import load_pair
from windows import normalise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--kronos", required=True)
    arguments = parser.parse_args()
    tokenizer, model = load_pair(arguments.checkpoint)

    for name in ("model", "tokenizer", "network"):  # the public package is called `model` too
        sys.modules.pop(name, None)
    sys.path.insert(0, arguments.kronos)
    from model.kronos import Kronos, KronosTokenizer

    public = {}
    for name, kind in (("tokenizer", KronosTokenizer), ("model", Kronos)):
        folder = os.path.join(arguments.checkpoint, name)
        public[name] = kind.from_pretrained(folder).eval()
        public[name].load_state_dict(load_file(os.path.join(folder, "model.safetensors")), strict=True)

    candles, stamps = make_candles(torch.Generator().manual_seed(5), 8, 300)
    values, _, _ = normalise(candles, 300)
    with torch.no_grad():
        s1, s2 = tokenizer.encode(values)
        their_s1, their_s2 = public["tokenizer"].encode(values, half=True)
        print("token ids that differ:", (s1 != their_s1).sum().item() + (s2 != their_s2).sum().item(), "of", 2 * s1.numel())
        print("decoded:", (tokenizer.decode(s1, s2) - public["tokenizer"].decode([s1, s2], half=True)).abs().max().item())
        context = model.context(s1, s2, stamps)
        logits, their_context = public["model"].decode_s1(s1, s2, stamps)
        print("s1 logits:", (model.head.proj_s1(context) - logits).abs().max().item())
        chosen = logits[:, -1:].argmax(-1)
        theirs = public["model"].decode_s2(their_context, chosen)[:, -1]
        shared = sampling.SharedAttention(model.dep_layer.cross_attn, context, rotate=False)
        answered = model.dep_layer.norm(context[:, -1:] + shared.ask(model.embedding.emb_s1(chosen)))
        print("s2 logits of a generation step:", (model.head.proj_s2(answered)[:, 0] - theirs).abs().max().item())
        training = model.dep_layer(context, torch.cat([model.embedding.emb_s1(s1[:, 1:]), model.embedding.emb_s1(chosen)], 1))
        print("the same by the training path:", (model.head.proj_s2(training[:, -1]) - theirs).abs().max().item())


if __name__ == "__main__":
    main()

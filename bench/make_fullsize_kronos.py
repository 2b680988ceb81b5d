"""Writes Kronos checkpoints of the published shapes with random weights: FOLDER/model and FOLDER/tokenizer.

Usage: python3 bench/make_fullsize_kronos.py SOURCE FOLDER mini|small|base|large [SEED]

SOURCE is a checkout of https://github.com/shiyu-coder/Kronos (needs torch, safetensors, einops, pandas).
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

DROPOUT = dict(ffn_dropout_p=0.2, attn_dropout_p=0.0, resid_dropout_p=0.2)
SHAPES = {
    "mini": dict(n_layers=4, d_model=256, n_heads=4, ff_dim=512),
    "small": dict(n_layers=8, d_model=512, n_heads=8, ff_dim=1024),
    "base": dict(n_layers=12, d_model=832, n_heads=16, ff_dim=2048),
    "large": dict(n_layers=18, d_model=1664, n_heads=32, ff_dim=3072),
}
TOKENIZER = dict(
    d_in=6, d_model=256, n_heads=4, ff_dim=512, n_enc_layers=4, n_dec_layers=4, s1_bits=10, s2_bits=10,
    beta=0.05, gamma0=1.0, gamma=1.1, zeta=0.05, group_size=5, **DROPOUT,
)


def save(model, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    print(folder, sum(parameter.numel() for parameter in model.parameters()), "parameters")


def main():
    source, folder, shape = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    sys.path.insert(0, source)
    from model.kronos import Kronos, KronosTokenizer

    torch.manual_seed(int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    config = dict(s1_bits=10, s2_bits=10, token_dropout_p=0.0, learn_te=True, **DROPOUT, **SHAPES[shape])
    save(Kronos(**config), config, folder / "model")
    save(KronosTokenizer(**TOKENIZER), TOKENIZER, folder / "tokenizer")


if __name__ == "__main__":
    main()

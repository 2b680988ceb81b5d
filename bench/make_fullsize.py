"""Writes a checkpoint of the published Toto 1.0 shape (151,306,080 parameters) with random weights.

Usage: python3 bench/make_fullsize.py FOLDER [SEED]    (needs torch, safetensors and toto-ts)
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from toto.model.toto import Toto

CONFIG = dict(
    patch_size=64,
    stride=64,
    embed_dim=768,
    num_layers=12,
    num_heads=12,
    mlp_hidden_dim=3072,
    dropout=0.1,
    spacewise_every_n_layers=12,
    spacewise_first=False,
    scaler_cls="<class 'model.scaler.CausalPatchStdMeanScaler'>",
    output_distribution_classes=["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
    output_distribution_kwargs={"k_components": 24},
    use_memory_efficient_attention=False,
    stabilize_with_global=True,
    scale_factor_exponent=10.0,
)


def main():
    folder, seed = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = Toto(**CONFIG)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    print(sum(parameter.numel() for parameter in model.parameters()), "parameters")


if __name__ == "__main__":
    main()

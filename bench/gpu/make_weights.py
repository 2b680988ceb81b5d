"""Writes a checkpoint of the published Toto 1.0 shape with random weights, by name: needs torch and safetensors only.

Usage: python3 bench/gpu/make_weights.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
WIDTH, HIDDEN, PATCH, COMPONENTS, LAYERS = 768, 3072, 64, 24, 12
state = {}


def linear(name, rows, inputs):
    bound = inputs ** -0.5
    state[name + ".weight"] = (torch.rand(rows, inputs) * 2 - 1) * bound
    state[name + ".bias"] = (torch.rand(rows) * 2 - 1) * bound


linear("model.unembed", WIDTH * PATCH, WIDTH)
for head in ["df", "loc_proj", "scale_proj", "mixture_weights"]:
    linear("model.output_distribution." + head, COMPONENTS, WIDTH)
linear("model.patch_embed.projection", WIDTH, PATCH)
for i in range(LAYERS):
    n = f"model.transformer.layers.{i}."
    state[n + "norm1.scale"] = torch.ones(WIDTH)
    state[n + "norm2.scale"] = torch.ones(WIDTH)
    linear(n + "attention.wQKV", 3 * WIDTH, WIDTH)
    linear(n + "attention.wO", WIDTH, WIDTH)
    linear(n + "mlp.0", 2 * HIDDEN, WIDTH)
    linear(n + "mlp.2", WIDTH, HIDDEN)
save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
config = dict(patch_size=64, stride=64, embed_dim=768, num_layers=12, num_heads=12, mlp_hidden_dim=3072, dropout=0.1,
    spacewise_every_n_layers=12, spacewise_first=False, scaler_cls="<class 'model.scaler.CausalPatchStdMeanScaler'>",
    output_distribution_classes=["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
    output_distribution_kwargs={"k_components": 24}, use_memory_efficient_attention=False, stabilize_with_global=True,
    scale_factor_exponent=10.0)
(folder / "config.json").write_text(json.dumps(config))
print(sum(t.numel() for t in state.values()), "parameters")

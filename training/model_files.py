"""The architecture of `nano` and its checkpoint in the published format (config.json and model.safetensors)."""

import json
import os

from safetensors.torch import save_file
from toto.model.toto import Toto

CONFIGURATION = dict(
    patch_size=32,
    stride=32,
    embed_dim=128,
    num_layers=6,
    num_heads=4,
    mlp_hidden_dim=256,
    dropout=0.0,
    spacewise_every_n_layers=6,
    spacewise_first=False,
    scaler_cls="<class 'model.scaler.CausalPatchStdMeanScaler'>",
    output_distribution_classes=["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
    output_distribution_kwargs={"k_components": 5},
    use_memory_efficient_attention=False,
    stabilize_with_global=True,
    scale_factor_exponent=10.0,
)


def new_model():
    return Toto(**CONFIGURATION)


def save_checkpoint(state, folder):
    """Writes a state dict of `Toto` (keys `model.*`) as 32-bit floats."""
    os.makedirs(folder, exist_ok=True)
    weights = {name: value.detach().float().contiguous() for name, value in state.items()}
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIGURATION, file, indent=1)
        file.write("\n")


def load_checkpoint(folder):
    return Toto.load_from_checkpoint(folder)

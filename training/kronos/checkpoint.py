"""Folders in the published format: config.json and model.safetensors, 32-bit floats."""

import json
import os

import torch
from safetensors.torch import load_file, save_file

from model import Model
from tokenizer import Tokenizer


def save(module, folder, state=None):
    """Writes `module`, or the weights `state` in its place."""
    os.makedirs(folder, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in (state or module.state_dict()).items()}
    weights = {name: value.float() if value.is_floating_point() else value for name, value in weights.items()}
    path = os.path.join(folder, "model.safetensors")
    save_file(weights, path + ".new", metadata={"format": "pt"})
    os.replace(path + ".new", path)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(module.configuration, file, indent=1)
        file.write("\n")


def load(kind, folder, device="cpu"):
    with open(os.path.join(folder, "config.json")) as file:
        module = kind(json.load(file))
    module.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    return module.to(device).eval()


def load_pair(folder, device="cpu"):
    """The tokenizer and the model of a checkpoint folder."""
    return load(Tokenizer, os.path.join(folder, "tokenizer"), device), load(Model, os.path.join(folder, "model"), device)

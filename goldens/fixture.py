"""A case folder, and what all families need to write one."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

QUANTILES = [0.01, 0.05] + [round(0.1 * i, 1) for i in range(1, 10)] + [0.95, 0.99]


def storable(x):
    """float32 / float64 / int64 only, contiguous, detached."""
    t = torch.as_tensor(x).detach().clone()
    if t.dtype == torch.bool or not t.is_floating_point():
        t = t.to(torch.int64)
    elif t.dtype not in (torch.float32, torch.float64):
        t = t.to(torch.float32)
    return t.contiguous()


class Fixture:
    """One case folder: the tensors, what each one means, and the call arguments."""

    def __init__(self, out: Path, name: str, summary: str, args: dict):
        self.dir, self.name, self.summary, self.args = out / name, name, summary, args
        self.tensors, self.docs, self.notes = {}, {}, []
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)

    def put(self, name, value, doc):
        self.tensors[name] = storable(value)
        self.docs[name] = doc

    def put_all(self, outputs: dict, describe):
        for name, value in outputs.items():
            self.put(name, value, describe(name))

    def write(self, seed, versions):
        save_file(self.tensors, self.dir / "golden.safetensors")
        table = {
            n: {"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")} for n, t in self.tensors.items()
        }
        meta = dict(case=self.name, summary=self.summary, seed=seed, args=self.args, notes=self.notes,
                    versions=versions, tensors=table)
        (self.dir / "case.json").write_text(json.dumps(meta) + "\n")
        lines = [f"# {self.name}", "", self.summary, ""]
        lines += ["Call arguments:", "", "```json", json.dumps(self.args, indent=1), "```", ""]
        lines += [f"- {n}" for n in self.notes] + [""] * bool(self.notes)
        lines += ["| tensor | shape | dtype | meaning |", "|---|---|---|---|"]
        for n, row in table.items():
            doc = self.docs[n].replace("|", "\\|")
            lines.append(f"| `{n}` | {row['shape']} | {row['dtype']} | {doc} |")
        (self.dir / "README.md").write_text("\n".join(lines) + "\n")
        for f in self.dir.rglob("*.safetensors"):
            f.chmod(0o644)
        print(f"  {self.name}: {folder_size(self.dir) / 1e6:.2f} MB, {len(table)} tensors")
        for n in self.notes:
            print("     -", n)


def folder_size(p: Path) -> int:
    return sum(f.stat().st_size for f in p.rglob("*") if f.is_file())


def read_case(folder: Path):
    return json.loads((folder / "case.json").read_text()), load_file(folder / "golden.safetensors")


def commit_of(src):
    if src is None:
        return None
    r = subprocess.run(["git", "-C", str(src), "rev-parse", "HEAD"], capture_output=True, text=True)
    return r.stdout.strip() or None


class Shapes:
    """Base value for seed 0, otherwise one of the alternatives (drawn from the seed)."""

    def __init__(self, seed: int):
        self.seed, self.rng = seed, random.Random(seed * 7919 + 13)

    def __call__(self, base, *others):
        return base if self.seed == 0 else self.rng.choice(others)


def generator(*key) -> torch.Generator:
    g = torch.Generator()
    g.manual_seed(int.from_bytes(repr(key).encode(), "little") % (2**63 - 25))
    return g


@torch.no_grad()
def fill(param, g, std, mean=0.0):
    param.copy_(mean + std * torch.randn(param.shape, generator=g))


def require_gradients(model, loss, skip=()):
    """Every stored parameter must matter: a zero gradient would hide an unused tensor."""
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
    for n, gr in zip(params, grads):
        if any(s in n for s in skip):
            continue
        assert gr is not None and gr.abs().max() > 1e-7, f"parameter {n} does not influence the output"


@contextlib.contextmanager
def patched(obj, name, value):
    old = getattr(obj, name)
    setattr(obj, name, value)
    try:
        yield
    finally:
        setattr(obj, name, old)


@contextlib.contextmanager
def capture(modules: dict):
    """Collect the outputs of modules: {key: [output of call 0, output of call 1, ...]}."""
    log = {k: [] for k in modules}
    hooks = []
    for key, mod in modules.items():
        hooks.append(mod.register_forward_hook(lambda m, i, o, key=key: log[key].append(o)))
    try:
        yield log
    finally:
        for h in hooks:
            h.remove()

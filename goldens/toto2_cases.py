"""The cases of Toto 2.0."""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile

import torch

from fixture import Fixture, Shapes, capture, fill, generator, patched, require_gradients
from toto_cases import walk


def toto2_randomise(model, g):
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            fill(p, g, 2.0)  # unit scaling divides the bias by sqrt(fan_in) too
        elif "norm" in name:
            fill(p, g, 0.25, 1.0)
        elif "per_dim_scale" in name:
            fill(p, g, 0.7)
        elif "in_proj" in name:
            fill(p, g, 1.4 if model.config.qk_norm else 2.2)
        elif "fc1" in name or "fc2" in name:
            fill(p, g, 1.4)
        elif "output_head" in name and ("linear2" in name or "skip_proj" in name):
            fill(p, g, 0.9 * math.sqrt(p.shape[1]))  # the readout divides by fan_in, not its square root
        else:
            fill(p, g, 1.0)


@contextlib.contextmanager
def toto2_exact_rms():
    """The reference RMS norm always reduces in float32; for the float64 runs do it in float64."""
    import unit_scaling.functional as upstream

    def rms(x, dims=None, keepdim=False, eps=0.0):
        return (x.pow(2).mean(dims, keepdim=keepdim) + eps).sqrt()

    with patched(upstream, "rms", rms):
        yield


def toto2_inputs(inp, dtype):
    r = dict(target=inp["target"].to(dtype), target_mask=inp["target_mask"].bool(), series_ids=inp["series_ids"])
    if "known_dynamic" in inp:
        r |= dict(known_dynamic=inp["known_dynamic"].to(dtype), known_dynamic_mask=inp["known_dynamic_mask"].bool(),
                  known_dynamic_series_ids=inp["known_dynamic_series_ids"])
    return r


def toto2_kwargs(run):
    return {k: run[k] for k in ("decode_block_size", "has_missing_values", "scaler_fallback_min_obs", "quantile_real_cap_k")}


def toto2_load(folder):
    """from_pretrained on a copy: huggingface_hub refuses a folder with a second *.safetensors in it."""
    from toto2 import Toto2Model

    with tempfile.TemporaryDirectory() as tmp:
        for f in ("config.json", "model.safetensors"):
            shutil.copy(folder / f, tmp)
        return Toto2Model.from_pretrained(tmp).eval()


@torch.no_grad()
def toto2_compute(folder, tensors, args):
    from toto2 import Toto2Model
    from toto2 import model as t2

    model = toto2_load(folder)
    double = toto2_load(folder).double()
    out = {}
    for run in args["runs"]:
        name = run["name"]
        inp = {k: tensors[f"in.{run['inputs']}.{k}"] for k in
               ("target", "target_mask", "series_ids", "known_dynamic", "known_dynamic_mask", "known_dynamic_series_ids")
               if f"in.{run['inputs']}.{k}" in tensors}
        mods = {"scaler": model.scaler, "embed": model.patch_proj, "hidden": model.transformer, "head": model.output_head}
        mods |= {f"layer{i}": layer for i, layer in enumerate(model.transformer.layers)}
        filled, backfill = [], t2.backfill_short_patches

        def spy(*a):
            filled.append(backfill(*a))
            return filled[-1]

        with capture(mods) as log, patched(t2, "backfill_short_patches", spy):
            q = model.forecast(toto2_inputs(inp, torch.float32), run["horizon"], **toto2_kwargs(run))
        out[f"{name}.quantiles"] = q
        _, out[f"{name}.loc"], out[f"{name}.scale"] = log["scaler"][-1]
        if filled:
            out[f"{name}.backfilled_loc"], out[f"{name}.backfilled_scale"] = filled[-1]
        if run["trace"]:
            out[f"{name}.embed"] = torch.cat(log["embed"][:2], dim=-2)
            for i in range(len(model.transformer.layers)):
                out[f"{name}.layer_out.{i}"] = log[f"layer{i}"][0]
        for blk, (h, r) in enumerate(zip(log["hidden"], log["head"])):
            if run["trace"] or blk == 1:
                out[f"{name}.hidden.{blk}"] = h
            out[f"{name}.head.{blk}"] = r
        with toto2_exact_rms():
            out[f"{name}.quantiles_f64"] = double.forecast(toto2_inputs(inp, torch.float64), run["horizon"], **toto2_kwargs(run))
    if "in.clamp.values" in tensors:
        out["clamp.values_out"] = Toto2Model._clamp_nonfinite(tensors["in.clamp.values"])
    return out


TOTO2_DOC = {
    "target": "input series [batch, variate, context]; the context length must be a multiple of the patch",
    "target_mask": "1 = observed",
    "series_ids": "group of each variate [batch, variate]",
    "known_dynamic": "covariates known over context + horizon [batch, exog, time]",
    "known_dynamic_mask": "1 = observed",
    "known_dynamic_series_ids": "group of each covariate [batch, exog]",
    "quantiles": "Toto2Model.forecast(...) [9 levels 0.1..0.9, batch, variate, horizon]",
    "loc": "scaler loc at the LAST block's scaler call (raw PatchedCausalStdScaler output, before backfill) [batch, variate (+ covariates), context + padded horizon]",
    "scale": "scaler scale of the same call",
    "backfilled_loc": "backfill_short_patches(target, loc, scale, ...)[0]: the loc really used when scaler_fallback_min_obs > 0",
    "backfilled_scale": "the same for scale",
    "embed": "patch_proj outputs of the first pass: context patches then the first prediction block",
}


def toto2_doc(name):
    if name.startswith("in.clamp") or name.startswith("clamp."):
        return "Toto2Model._clamp_nonfinite: " + ("argument" if name.startswith("in.") else "result")
    if name.startswith("in."):
        return TOTO2_DOC[name.split(".")[2]]
    run, key = name.split(".", 1)
    if key == "quantiles_f64":
        return f"run {run}: forecast with model and inputs in float64 and the RMS norm reduced in float64 (the reference reduces in float32)"
    if key.startswith("layer_out."):
        return f"run {run}: output of layer {key.split('.')[1]} in the first pass; variate layers see [(batch patch), variate, d], time layers [(batch variate), patch, d]"
    if key.startswith("hidden."):
        return f"run {run}: transformer output (after out_norm) of block {key.split('.')[1]} [batch, variate, tokens of that pass, d]"
    if key.startswith("head."):
        return f"run {run}: output head of block {key.split('.')[1]}, arcsinh-of-scaled units, unsorted [9, batch, variate, block patches, patch]"
    return f"run {run}: {TOTO2_DOC[key]}"


def make_toto2(out, seed, versions):
    from toto2 import Toto2Model
    from toto2.configuration import Toto2ModelConfig

    sh = Shapes(seed)

    def config(**kw):
        """d_ff is set by hand in most cases, only to keep the files small."""
        d, h = kw.pop("dims", None) or sh((64, 4), (48, 2), (64, 8), (56, 7), (48, 6))
        p = sh(16, 8, 12, 20)
        base = dict(patch_size=p, d_model=d, num_heads=h, num_layers=4, layer_group_size=2, num_variate_layers_per_group=1,
                    variate_layer_first=True, num_output_patches=1, d_ff=sh(64, 56, 72),
                    residual_attn_ratio=Toto2ModelConfig.compute_residual_attn_ratio(sh(4096, 2048, 1024), p))
        return Toto2ModelConfig(**(base | kw))

    def emit(name, summary, cfg, inputs, runs, extra=None):
        defaults = dict(decode_block_size=None, has_missing_values=True, scaler_fallback_min_obs=0, quantile_real_cap_k=0.0,
                        trace=False)
        runs = [defaults | r for r in runs]
        fx = Fixture(out, f"toto2-{name}", summary, dict(runs=runs))
        torch.manual_seed(seed)
        model = Toto2Model(cfg).eval()
        toto2_randomise(model, generator(seed, "toto2", name))
        model.save_pretrained(str(fx.dir))
        (fx.dir / "README.md").unlink(missing_ok=True)
        tensors = {f"in.{n}.{k}": t for n, group in inputs.items() for k, t in group.items()} | (extra or {})
        for k, t in tensors.items():
            fx.put(k, t, toto2_doc(k))
        res = toto2_compute(fx.dir, tensors, fx.args)
        fx.put_all(res, toto2_doc)
        by = {r["name"]: r for r in runs}
        for n, r in by.items():
            q, q64 = res[f"{n}.quantiles"], res[f"{n}.quantiles_f64"]
            assert q.isfinite().all(), n
            s = res[f"{n}.scale"][..., : q.shape[-2], -1:]
            fx.notes.append(f"{n}: blocks {sum(k.startswith(n + '.head.') for k in res)}, "
                            f"float32 vs float64 max |diff| {((q - q64).abs() / s).max():.2g} in units of the final scale")
        for a, b in extra_pairs(by):
            if res[f"{a}.quantiles"].shape == res[f"{b}.quantiles"].shape:
                d = (res[f"{a}.quantiles"] - res[f"{b}.quantiles"]).abs().max()
                fx.notes.append(f"max |{a} - {b}| = {d:.4g}")
        # every parameter matters (group size 1 variate layers still use their weights through v)
        first = inputs[runs[0]["inputs"]]
        o = model(first["target"], first["target_mask"].bool(), torch.ones_like(first["target_mask"]).bool(), first["series_ids"])
        require_gradients(model, o.quantiles.sin().sum())
        fx.write(seed, versions)

    def extra_pairs(by):
        names = list(by)
        return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if by[a]["inputs"] == by[b]["inputs"]]

    def group(series, mask=None, ids=None, **kd):
        b, v, _ = series.shape
        return dict(target=series, target_mask=torch.ones_like(series, dtype=torch.int64) if mask is None else mask,
                    series_ids=torch.zeros(b, v, dtype=torch.int64) if ids is None else ids) | kd

    def masked(g, p, ctx_p, zero):
        """3 variates in two groups; holes, whole unobserved patches inside and at the start, a hole at the end."""
        t = ctx_p * p
        series = walk(g, 2, 3, t, 40.0) * torch.tensor([1.0, 5.0, 0.2])[:, None]
        mask = torch.ones(2, 3, t, dtype=torch.int64)
        mask[0, 0, p + 1 : p + 6] = 0
        mask[0, 0, 3 * p : 4 * p] = 0
        mask[0, 1, : 2 * p] = 0  # shares its group: block decoding then masks variate attention by these leading patches
        mask[0, 2, 2 * p : 3 * p] = 0
        mask[1, 1, : p + 3] = 0
        mask[1, 2, : 2 * p] = 0
        mask[1, 0, -4:] = 0  # the last context patch is forced to observed, whatever the mask says
        if zero:
            series = torch.where(mask == 1, series, torch.zeros(()))
        return group(series, mask, torch.tensor([[0, 0, 1], [1, 0, 1]]))

    # a. plain rotary, variate layers first, groups of 2 layers
    cfg = config(use_xpos=False, variate_layer_first=True, layer_group_size=2)
    p, g = cfg.patch_size, generator(seed, "toto2-in", "plain")
    cp = sh(6, 5, 7)
    ins = dict(uni=group(walk(g, 1, 1, cp * p)), masked=masked(g, p, cp, True))
    runs = [
        dict(name="uni_single", inputs="uni", horizon=3 * p + p // 2, has_missing_values=False),
        dict(name="uni_block", inputs="uni", horizon=3 * p + p // 2, decode_block_size=p, has_missing_values=False),
        dict(name="masked_single", inputs="masked", horizon=3 * p, trace=True),
        dict(name="masked_block", inputs="masked", horizon=5 * p - 3, decode_block_size=2 * p),
    ]
    emit("rope", "Rotary without xPos, qk norm, no biases, variate layer first in each group of 2 layers (config defaults).", cfg, ins, runs)

    # b. xPos, variate layers last, one group of 4 layers
    cfg = config(use_xpos=True, variate_layer_first=False, layer_group_size=4, attn_bias=True, qk_norm=False, per_dim_scale=True,
                 norm_eps=1e-4, residual_mult=0.75)
    p, g = cfg.patch_size, generator(seed, "toto2-in", "xpos")
    cp = sh(5, 6, 7)
    ids3 = torch.tensor([[0, 0, 1]])
    short = walk(g, 1, 2, cp * p, 10.0)
    smask = torch.ones_like(short, dtype=torch.int64)
    smask[0, 0, : (cp - 1) * p + p // 2] = 0  # few observations
    smask[0, 1, : 2 * p - 3] = 0  # three observed points in patch 1
    ins = dict(uni=group(walk(g, 1, 1, cp * p)), groups=group(walk(g, 1, 3, cp * p, 60.0), ids=ids3), masked=masked(g, p, cp, False),
               short=group(torch.where(smask == 1, short, torch.zeros(())), smask))
    runs = [
        dict(name="groups_single", inputs="groups", horizon=2 * p + 1, has_missing_values=False),
        dict(name="groups_block", inputs="groups", horizon=4 * p, decode_block_size=p, has_missing_values=False),
        dict(name="masked_single", inputs="masked", horizon=3 * p),
        dict(name="masked_block", inputs="masked", horizon=5 * p - 3, decode_block_size=2 * p, trace=True),
        dict(name="uni_block3", inputs="uni", horizon=7 * p, decode_block_size=3 * p, has_missing_values=False),
        dict(name="short_plain", inputs="short", horizon=2 * p),
        dict(name="short_fallback", inputs="short", horizon=2 * p, scaler_fallback_min_obs=8),
        dict(name="short_cap", inputs="short", horizon=2 * p, quantile_real_cap_k=1.0),
        dict(name="short_fallback_cap_block", inputs="short", horizon=3 * p, decode_block_size=p, scaler_fallback_min_obs=8,
             quantile_real_cap_k=1.0),
        dict(name="cap_default", inputs="groups", horizon=2 * p + 1, has_missing_values=False, scaler_fallback_min_obs=8,
             quantile_real_cap_k=1e4),
    ]
    inf = float("inf")
    vals = torch.tensor([[1.0, inf, 3.0, -inf], [inf, inf, 2.0, 5.0], [-1.0, -2.0, -3.0, 0.0], [inf, inf, inf, inf],
                         [-inf, -inf, -inf, -inf], [inf, -inf, inf, -inf]])
    emit("xpos", "Rotary with xPos, variate layer last in one group of 4 layers, attention biases, no qk norm, per-dim scale (the "
         "switches third parties report for the published checkpoints); scaler fallback and quantile cap.",
         cfg, ins, runs, extra={"in.clamp.values": vals})

    # c. known_dynamic covariates
    cfg = config(dims=sh((32, 4), (40, 2), (48, 6)), use_xpos=sh(False, True), variate_layer_first=False, layer_group_size=2)
    p, g = cfg.patch_size, generator(seed, "toto2-in", "cov")
    cp, hor = sh(4, 5, 6), 3 * p + 2
    full = walk(g, 2, 4, cp * p + 4 * p, 25.0)
    mask = torch.ones(2, 2, cp * p, dtype=torch.int64)
    mask[0, 0, 3:9] = 0
    kmask = torch.ones(2, 2, cp * p + hor, dtype=torch.int64)
    kmask[0, 1, p + 2 : p + 7] = 0
    kmask[1, 0, : 2 * p] = 0  # unobserved leading patches of a covariate
    kmask[1, 1, -p:] = 0  # unknown at the end of the horizon
    kd = dict(known_dynamic=full[:, 2:, : cp * p + hor].contiguous(), known_dynamic_mask=kmask,
              known_dynamic_series_ids=torch.tensor([[0, 0], [0, 1]]))
    tgt = torch.where(mask == 1, full[:, :2, : cp * p], torch.zeros(()))
    ins = dict(cov=group(tgt.contiguous(), mask, torch.tensor([[0, 0], [0, 1]]), **kd),
               nocov=group(tgt.contiguous(), mask, torch.tensor([[0, 0], [0, 1]])))
    runs = [
        dict(name="cov_single", inputs="cov", horizon=hor, trace=True),
        dict(name="cov_block", inputs="cov", horizon=hor, decode_block_size=p),
        dict(name="cov_block2", inputs="cov", horizon=hor, decode_block_size=2 * p),
        dict(name="nocov_single", inputs="nocov", horizon=hor),
    ]
    emit("covariates", "Two targets and two known_dynamic covariates (length context + horizon, with holes).", cfg, ins, runs)

    # d. every optional switch of the config
    d, h, grp = sh((48, 4, 2), (48, 6, 3), (56, 8, 2), (40, 10, 2))
    cfg = config(dims=(d, h), num_groups=grp, qk_dim=sh(12, 8, 20), v_dim=sh(20, 12, 8), attn_bias=True,
                 mlp_bias=True, norm_include_weight=True, per_dim_scale=True, residual_mult=0.7, norm_eps=1e-3, use_xpos=True,
                 layer_group_size=4, num_variate_layers_per_group=2, variate_layer_first=True, d_ff=None)
    p, g = cfg.patch_size, generator(seed, "toto2-in", "opt")
    ins = dict(masked=masked(g, p, sh(5, 4, 6), True))
    runs = [dict(name="masked_single", inputs="masked", horizon=2 * p, trace=True),
            dict(name="masked_block", inputs="masked", horizon=3 * p, decode_block_size=p)]
    emit("options", "Grouped query attention, own qk/v widths, biases, norm weights, per-dim scale, default d_ff, two variate "
         "layers per group.", cfg, ins, runs)

"""The cases of Toto 1.0."""

from __future__ import annotations

import json
import math

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from fixture import Fixture, QUANTILES, Shapes, capture, fill, generator, require_gradients

SCALER = "<class 'model.scaler.CausalPatchStdMeanScaler'>"
MIXTURE = "<class 'model.distribution.MixtureOfStudentTsOutput'>"


def toto_config(embed, heads, layers, every, patch, mlp, k, first=False, exponent=10.0):
    return dict(
        patch_size=patch, stride=patch, embed_dim=embed, num_layers=layers, num_heads=heads, mlp_hidden_dim=mlp,
        dropout=0.1, spacewise_every_n_layers=every, spacewise_first=first, scaler_cls=SCALER,
        output_distribution_classes=[MIXTURE], output_distribution_kwargs={"k_components": k},
        use_memory_efficient_attention=False, stabilize_with_global=True, scale_factor_exponent=exponent,
    )


def toto_randomise(backbone, g):
    gains = {"patch_embed": 1.5, "wQKV": 1.4, "wO": 1.2, "mlp.0": 1.4, "mlp.2": 1.3, "unembed": 1.0,
             ".df": 0.5, "loc_proj": 0.35, "scale_proj": 0.3, "mixture_weights": 0.5}
    for name, p in backbone.named_parameters():
        if "variate_label" in name:
            fill(p, g, 1.0)
        elif "norm" in name:
            fill(p, g, 0.25, 1.0)
        elif name.endswith("bias"):
            fill(p, g, 0.2)
        else:
            gain = next(v for k, v in gains.items() if k in name)
            fill(p, g, gain / math.sqrt(p.shape[1]))


def toto_load(folder, labels):
    """The reference loader.  It drops variate labels, so they are put back by hand."""
    from toto.model.toto import Toto

    m = Toto.load_from_checkpoint(str(folder), map_location="cpu")
    if labels:
        m.model.enable_variate_labels()
        state = load_file(folder / "model.safetensors")
        with torch.no_grad():
            m.model.target_variate_label.copy_(state["model.target_variate_label"])
            m.model.exogenous_variate_label.copy_(state["model.exogenous_variate_label"])
    return m.eval()


def toto_pad(inp, patch):
    from toto.data.util.dataset import pad_array, pad_id_mask

    return (pad_array(inp["series"], patch), pad_array(inp["padding_mask"].bool(), patch),
            pad_id_mask(inp["id_mask"], patch))


def toto_prefill(bb, series, pmask, ids, n_exog):
    """One pass over the padded context without a cache, with every stage recorded."""
    patch = bb.patch_embed.patch_size
    mods = {"patch_embed": bb.patch_embed, "hidden": bb.transformer, "logits": bb.output_distribution.mixture_weights}
    mods |= {f"layer_out.{i}": layer for i, layer in enumerate(bb.transformer.layers)}
    with capture(mods) as log:
        out = bb(inputs=series, input_padding_mask=pmask, id_mask=ids, kv_cache=None,
                 scaling_prefix_length=series.shape[-1], num_exogenous_variables=n_exog)
    scaled, loc, scale = bb.scaler(series, weights=torch.ones_like(series), padding_mask=pmask,
                                   prefix_length=series.shape[-1])
    comp = out.distribution.component_distribution
    last = slice(-patch, None)
    r = dict(scaled=scaled, loc=loc, scale=scale, patch_embed=log["patch_embed"][0][0],
             patch_id_mask=log["patch_embed"][0][1])
    r |= {k: log[k][0] for k in mods if k.startswith("layer_out")}
    r["hidden"] = log["hidden"][0]
    r["mix_df"], r["mix_loc"], r["mix_scale"] = (t[:, :, last] for t in (comp.df, comp.loc, comp.scale))
    r["mix_logits"] = log["logits"][0][:, :, last]
    r["affine_loc"], r["affine_scale"] = out.loc[:, :, last], out.scale[:, :, last]
    r["prefill_mean"] = out.distribution.mean[:, :, last] * r["affine_scale"] + r["affine_loc"]
    return r


def toto_series(inp, args, dtype):
    from toto.data.util.dataset import MaskedTimeseries

    s = inp["series"].to(dtype)
    return MaskedTimeseries(
        series=s, padding_mask=inp["padding_mask"].bool(), id_mask=inp["id_mask"],
        timestamp_seconds=torch.zeros_like(inp["id_mask"]),
        time_interval_seconds=torch.full(s.shape[:2], 3600, dtype=torch.int64),
        num_exogenous_variables=args["num_exogenous_variables"],
    )


def toto_means(model, inp, args, dtype):
    """Mean forecasts with and without the KV cache, and the hidden state of each decode step."""
    from toto.inference.forecaster import TotoForecaster

    r, f = {}, TotoForecaster(model.model)
    future = inp["future_exog"].to(dtype) if "future_exog" in inp else None
    for cached, tag in ((True, "kv"), (False, "nokv")):
        with capture({"h": model.model.transformer}) as log:
            fc = f.forecast(toto_series(inp, args, dtype), args["prediction_length"], num_samples=None,
                            use_kv_cache=cached, future_exogenous_variables=future)
        r[f"mean_{tag}"] = fc.mean
        if len(log["h"]) > 1:
            r[f"decode_hidden_{tag}"] = torch.cat([h[:, :, -1:] for h in log["h"][1:]], dim=2)
    return r


def mixture_quantiles(df, loc, scale, logits, levels):
    """Exact quantiles of a Student-t mixture by bisection, float64.  Shapes [..., k] -> [Q, ...]."""
    from scipy.stats import t as student

    df, loc, scale = (np.asarray(a, dtype=np.float64) for a in (df, loc, scale))
    w = torch.as_tensor(logits, dtype=torch.float64).softmax(-1).numpy()
    out = []
    for q in levels:
        parts = student.ppf(q, df) * scale + loc
        lo, hi = parts.min(-1), parts.max(-1)
        for _ in range(200):
            mid = 0.5 * (lo + hi)
            below = (w * student.cdf((mid[..., None] - loc) / scale, df)).sum(-1) < q
            lo, hi = np.where(below, mid, lo), np.where(below, hi, mid)
        out.append(0.5 * (lo + hi))
    return torch.from_numpy(np.stack(out))


@torch.no_grad()
def toto_compute(folder, inp, args):
    """Every stored output, from the checkpoint on disk and the stored inputs."""
    from toto.inference.forecaster import TotoForecaster

    out = {}
    variants = [("", args["labels"])] + ([("nolabels.", False)] if args["labels"] else [])
    for prefix, labels in variants:
        model = toto_load(folder, labels)
        bb, patch = model.model, model.model.patch_embed.patch_size
        series, pmask, ids = toto_pad(inp, patch)
        if not prefix:
            out |= dict(padded_series=series, padded_padding_mask=pmask, padded_id_mask=ids)
        pre = toto_prefill(bb, series, pmask, ids, args["num_exogenous_variables"])
        means = toto_means(model, inp, args, torch.float32)
        double = toto_load(folder, labels).double()
        pre64 = toto_prefill(double.model, series.double(), pmask, ids, args["num_exogenous_variables"])
        means64 = toto_means(double, inp, args, torch.float64)
        if prefix:  # the scaler and the embedding do not depend on the labels
            pre = {k: v for k, v in pre.items() if k in ("mix_df", "mix_loc", "mix_scale", "mix_logits")}
            pre64 = {k: v for k, v in pre64.items() if k in pre}
        out |= {prefix + k: v for k, v in (pre | means).items()}
        keep64 = set(pre) - {"patch_id_mask", "patch_embed"} - {k for k in pre if k.startswith("layer_out")}
        out |= {f"{prefix}{k}_f64": v for k, v in (pre64 | means64).items() if k in keep64 | set(means64)}

        if not prefix:
            # Scaler statistics once whole predicted patches have been appended (prefix length stays the context).
            whole = means["mean_kv"].shape[-1] // patch * patch
            if whole:
                ext = torch.cat([series, means["mean_kv"][:, :, :whole]], dim=-1)
                em = torch.cat([pmask, torch.ones(*pmask.shape[:2], whole, dtype=torch.bool)], dim=-1)
                _, el, es = bb.scaler(ext, weights=torch.ones_like(ext), padding_mask=em, prefix_length=series.shape[-1])
                out |= dict(ext_loc=el, ext_scale=es)
            if args["num_samples"]:
                levels = torch.tensor(QUANTILES)
                torch.manual_seed(args["sample_seed"])
                fc = TotoForecaster(bb).forecast(
                    toto_series(inp, args, torch.float32), args["prediction_length"], num_samples=args["num_samples"],
                    samples_per_batch=args["samples_per_batch"], use_kv_cache=True)
                parts = fc.samples.chunk(8, dim=-1)
                out["quantile_levels"] = torch.tensor(QUANTILES, dtype=torch.float64)
                out["sample_quantiles"] = fc.quantile(levels)
                per = torch.stack([p.quantile(levels, dim=-1) for p in parts]).double()
                out["sample_quantiles_se"] = per.std(0) / math.sqrt(8)
                out["sample_mean"] = fc.mean
                out["sample_mean_se"] = torch.stack([p.mean(-1) for p in parts]).double().std(0) / math.sqrt(8)
                h = min(patch, args["prediction_length"])
                exact = mixture_quantiles(*(pre64[k][:, :, :h] for k in ("mix_df", "mix_loc", "mix_scale", "mix_logits")),
                                          QUANTILES)
                out["first_patch_quantiles_exact_f64"] = exact * pre64["affine_scale"][:, :, :h] + pre64["affine_loc"][:, :, :h]
    return out


TOTO_DOC = {
    "series": "input series [batch, variate, time], as given to TotoForecaster.forecast",
    "padding_mask": "1 = valid point, 0 = masked [batch, variate, time]; masked points still carry a value",
    "id_mask": "group id of each variate, constant over time [batch, variate, time]",
    "future_exog": "known future values of the last variates [batch, exog, prediction_length]",
    "padded_series": "pad_array(series, patch): zeros on the left up to a multiple of the patch",
    "padded_padding_mask": "pad_array(padding_mask): 0 on the left",
    "padded_id_mask": "pad_id_mask(id_mask): the leftmost id repeated",
    "scaled": "TotoBackbone.scaler(padded series, padding_mask, prefix_length=padded length)[0]",
    "loc": "scaler location per point (constant inside a patch), real units",
    "scale": "scaler scale per point (constant inside a patch), real units",
    "patch_embed": "PatchEmbedding output [batch, variate, patches, embed_dim]",
    "patch_id_mask": "id mask per patch [batch, variate, patches]",
    "hidden": "output of Transformer for the context, no cache [batch, variate, (1 label token if labels) + patches, embed_dim]; no final norm exists",
    "mix_df": "degrees of freedom for the LAST context patch's output = the first predicted patch [batch, variate, patch, k]",
    "mix_loc": "component locations, scaled units [batch, variate, patch, k]",
    "mix_scale": "component scales, scaled units [batch, variate, patch, k]",
    "mix_logits": "mixture logits before softmax [batch, variate, patch, k]",
    "affine_loc": "loc of the last context patch: y = affine_scale * x + affine_loc [batch, variate, patch]",
    "affine_scale": "scale of the last context patch [batch, variate, patch]",
    "prefill_mean": "mixture mean of the first predicted patch in real units [batch, variate, patch]",
    "mean_kv": "TotoForecaster.forecast(num_samples=None, use_kv_cache=True).mean [batch, variate, prediction_length]",
    "mean_nokv": "the same with use_kv_cache=False",
    "decode_hidden_kv": "Transformer output for the newest patch at decode steps 1.. (after the prefill), with cache [batch, variate, steps, embed_dim]",
    "decode_hidden_nokv": "the same without cache (last position of the full recomputation)",
    "ext_loc": "scaler loc on padded series + the whole patches of mean_kv, prefix_length = padded context length",
    "ext_scale": "scaler scale for the same extended series",
    "quantile_levels": "levels of the sample quantiles",
    "sample_quantiles": "Forecast.quantile over num_samples draws, use_kv_cache=True [Q, batch, variate, prediction_length]",
    "sample_quantiles_se": "standard error of sample_quantiles: std over 8 equal sub-batches / sqrt(8)",
    "sample_mean": "mean of the draws [batch, variate, prediction_length]",
    "sample_mean_se": "standard error of sample_mean from 8 sub-batches",
    "first_patch_quantiles_exact_f64": "exact quantiles of the first predicted patch from the float64 mixture (bisection on the cdf), real units [Q, batch, variate, min(patch, prediction_length)]",
}


def toto_doc(name):
    if name.startswith("nolabels."):
        return "without variate labels (what Toto.load_from_checkpoint alone gives): " + toto_doc(name[9:])
    if name in TOTO_DOC:
        return TOTO_DOC[name]
    if name.startswith("layer_out."):
        return f"output of transformer layer {name.split('.')[1]} during the prefill"
    if name.endswith("_f64"):
        return f"`{name[:-4]}` with the model and the inputs in float64"
    raise KeyError(name)


def walk(g, b, v, t, start=100.0, step=1.0):
    """Random walks with a season, so that variates and times differ visibly."""
    noise = torch.randn(b, v, t, generator=g).cumsum(-1) * step
    phase = torch.rand(b, v, 1, generator=g) * 6.28
    level = start * (1 + 0.5 * torch.randn(b, v, 1, generator=g))
    return (level + noise + 4 * step * torch.sin(torch.arange(t) / 5.0 + phase)).float()


def make_toto(out, seed, versions):
    from toto.model.toto import Toto

    sh = Shapes(seed)

    def dims(base):
        """(embed_dim, heads); other seeds use other head counts than 4."""
        return sh(base, (56, 2), (64, 8), (60, 6), (60, 3), (60, 5), (48, 2))

    def build(cfg, key, labels=False):
        m = Toto(**cfg).eval()
        if labels:
            m.model.enable_variate_labels()
        toto_randomise(m.model, generator(seed, "toto", key))
        return m

    def emit(name, summary, cfg, model, inp, horizon, samples=0, n_exog=0, labels=False, rename=None, extra_state=None,
             per_variate=False):
        args = dict(prediction_length=horizon, num_samples=samples, samples_per_batch=1024, sample_seed=seed + 1,
                    num_exogenous_variables=n_exog, labels=labels, use_kv_cache="both")
        fx = Fixture(out, f"toto-{name}", summary, args)
        (fx.dir / "config.json").write_text(json.dumps(cfg, indent=2, sort_keys=True) + "\n")
        state = {(rename(k) if rename else k): v.contiguous() for k, v in model.state_dict().items()}
        save_file(state | (extra_state or {}), fx.dir / "model.safetensors", metadata={"format": "pt"})
        for k, t in inp.items():
            fx.put(k, t, toto_doc(k))
        res = toto_compute(fx.dir, inp, args)
        fx.put_all(res, toto_doc)

        # Checks and numbers worth knowing.
        ps, pm, pi = toto_pad(inp, cfg["patch_size"])
        grad_out = model.model(inputs=ps, input_padding_mask=pm, id_mask=pi, scaling_prefix_length=ps.shape[-1],
                               num_exogenous_variables=n_exog).distribution
        c = grad_out.component_distribution
        require_gradients(model, (c.df + c.loc.sin() + c.scale * grad_out.mixture_distribution.probs.cos()).sum())
        rel = lambda a, b: ((a - b).abs() / res["affine_scale"][:, :, :1].to(a.dtype)).max().item()
        if horizon > cfg["patch_size"]:
            fx.notes.append(f"kv True vs False: max |mean_kv - mean_nokv| = {(res['mean_kv'] - res['mean_nokv']).abs().max():.4g} "
                            f"real units, {rel(res['mean_kv'], res['mean_nokv']):.4g} in units of the context scale "
                            f"(float64: {rel(res['mean_kv_f64'], res['mean_nokv_f64']):.4g})")
        fx.notes.append(f"float32 vs float64 reference, max |diff| in units of the context scale: "
                        f"mean_kv {rel(res['mean_kv'].double(), res['mean_kv_f64']):.2g}, "
                        f"mean_nokv {rel(res['mean_nokv'].double(), res['mean_nokv_f64']):.2g}; "
                        f"hidden abs {(res['hidden'].double() - res['hidden_f64']).abs().max():.2g} "
                        f"(max |hidden| {res['hidden'].abs().max():.3g})")
        if per_variate:
            d = (res["mean_kv"] - res["mean_kv_f64"]).abs() / res["affine_scale"][:, :, :1]
            fx.notes.append("float32 vs float64 mean_kv per variate, in units of its scale: "
                            + ", ".join(f"{x:.2g}" for x in d.amax((0, 2)).tolist())
                            + ". Where this is large the float32 rounding of loc decides: compare with the float32 values.")
        if samples:
            h = res["first_patch_quantiles_exact_f64"].shape[-1]
            z = (res["sample_quantiles"][..., :h].double() - res["first_patch_quantiles_exact_f64"]) / res["sample_quantiles_se"][..., :h]
            fx.notes.append(f"sample quantiles vs exact quantiles on the first patch: rms z-score {z.pow(2).mean().sqrt():.2f} "
                            f"(8-batch standard errors, so about 1.2 is expected)")
        if labels:
            d = (res["mean_kv"] - res["nolabels.mean_kv"]).abs().max()
            fx.notes.append(f"max |mean_kv with labels - without| = {d:.4g}: the labels matter")
        fx.write(seed, versions)
        return fx

    def plain(series):
        return dict(series=series, padding_mask=torch.ones_like(series, dtype=torch.int64),
                    id_mask=torch.zeros_like(series, dtype=torch.int64))

    # 1. one variate, whole patches, horizon inside one patch; space layer last (published layout)
    (e, h), p = dims((64, 4)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 4, 4, p, 24, sh(5, 3, 4, 6))
    g = generator(seed, "toto-in", 1)
    ctx, hor = sh(6, 5, 7, 9) * p, p - sh(5, 3, 1)
    emit("univariate", "One variate, context a multiple of the patch, horizon shorter than one patch.",
         cfg, build(cfg, 1), plain(walk(g, 1, 1, ctx)), hor, samples=16384)

    # 2 and 4. left padding, several decode steps; the same weights under both mlp namings
    (e, h), p = dims((64, 4)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 4, 2, p, 24, sh(4, 3, 5, 6))
    g = generator(seed, "toto-in", 2)
    ctx = sh(5, 4, 6, 8) * p + sh(9, 3, 5, 7)
    model, inp, hor = build(cfg, 2), plain(walk(g, 1, 1, ctx, 20.0)), p * 7 // 2
    a = emit("leftpad", "One variate, context NOT a multiple of the patch (left padding), horizon of 3.5 patches.",
             cfg, model, inp, hor, samples=16384)

    def fused(k):
        for old, new in (("mlp.0.weight", "mlp.0.w12.weight"), ("mlp.0.bias", "mlp.0.w12.bias"),
                         ("mlp.2.weight", "mlp.0.w3.weight"), ("mlp.2.bias", "mlp.0.w3.bias")):
            if k.endswith(old):
                return k[: -len(old)] + new
        return k

    freqs = model.model.transformer.rotary_emb.freqs.detach().clone()
    extra = {"model.transformer.rotary_emb.freqs": freqs}
    extra |= {f"model.transformer.layers.{i}.attention.rotary_emb.freqs": freqs.clone() for i in (0, 2)}
    b = emit("leftpad-fused", "The weights of toto-leftpad saved under the fused SwiGLU names (mlp.0.w12, mlp.0.w3), "
             "plus rotary_emb.freqs keys, which the reference loader ignores. All outputs identical to toto-leftpad.",
             cfg, model, inp, hor, samples=16384, rename=fused, extra_state=extra)
    assert all(torch.equal(t, b.tensors[k]) for k, t in a.tensors.items()), "fused naming changed the outputs"

    # 3. groups, masked points, a batch
    (e, h), p = dims((64, 4)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 6, 3, p, 24, sh(5, 3, 4, 6))
    g = generator(seed, "toto-in", 3)
    # an even number of patches: with an odd number the first cached decode step happens to equal the uncached one
    v, ctx = sh(5, 4, 6), sh(5, 3, 7) * p + sh(7, 3, 5)
    series = walk(g, 2, v, ctx, 50.0) * torch.tensor([1.0, 10.0, 0.1, 3.0, 0.5, 2.0])[:v, None]
    ids = torch.tensor([[0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 1, 0]])[:, :v]
    mask = torch.ones(2, v, ctx, dtype=torch.int64)
    mask[0, 1, p + 2 : p + 9] = 0  # inside a patch
    mask[0, 2, 2 * p - 3 : 3 * p + 4] = 0  # across patches
    mask[1, 0, -3:] = 0  # the end of the context
    mask[1, v - 1, : p + p // 2] = 0  # the start: first patches without any valid point
    inp = dict(series=series, padding_mask=mask, id_mask=ids[:, :, None].expand(2, v, ctx).contiguous())
    emit("groups", f"Batch of 2, {v} variates in 2 id groups (different in each batch item), masked points in the middle, "
         "at the end and at the start; the masked points carry ordinary (non zero) values; horizon 2 patches.",
         cfg, build(cfg, 3), inp, 2 * p, samples=16384)

    # 5. exogenous variables and labels; space layer first
    (e, h), p = dims((64, 4)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 4, 2, p, 24, sh(4, 3, 5, 6), first=True)
    g = generator(seed, "toto-in", 5)
    v, ctx, hor = sh(5, 4, 6), sh(4, 5, 3) * p + sh(11, 3, 5), 2 * p + p // 2
    full = walk(g, 2, v, ctx + hor, 30.0, 2.0)
    inp = plain(full[..., :ctx].contiguous()) | dict(future_exog=full[:, -2:, ctx:].contiguous())
    emit("exogenous", f"{v} variates of which the LAST 2 are exogenous with known future values; variate labels enabled "
         "(fusion token); the nolabels.* outputs are the same call on the same checkpoint without labels.",
         cfg, build(cfg, 5, labels=True), inp, hor, n_exog=2, labels=True)

    # 6. hard numbers for the scaler
    (e, h), p = dims((64, 4)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 4, 2, p, 24, sh(4, 3, 5, 6))
    g = generator(seed, "toto-in", 6)
    ctx = sh(6, 5, 7) * p + sh(3, 2, 5)
    n = lambda s: torch.randn(ctx, generator=g) * s
    spike = n(1.0)
    spike[ctx // 2] = 1e6
    rows = [1e5 + n(50.0).cumsum(0), torch.full((ctx,), 42.0), spike, 1000 + n(1e-4), n(1e-6), torch.zeros(ctx),
            1e7 + n(500.0)]
    series = torch.stack(rows)[None].float()
    inp = plain(series)
    inp["padding_mask"][0, 5] = 0  # a variate without a single valid point
    inp["id_mask"][:] = torch.arange(len(rows))[None, :, None]  # own group each: no variate contaminates another
    emit("extreme", "Prices near 1e5, a constant, one huge spike, near constants, tiny values, a fully masked variate, "
         "1e7 with noise 500, each in its own id group; left padding; horizon 2.5 patches.",
         cfg, build(cfg, 6), inp, 2 * p + p // 2, per_variate=True)

    # extra: the global stabilisation really clamps (small exponent); a smaller model is enough
    (e, h), p = sh((32, 4), (24, 2), (40, 5)), sh(16, 8, 12, 20)
    cfg = toto_config(e, h, 4, 2, p, 24, 4, exponent=sh(0.25, 0.2, 0.3))
    g = generator(seed, "toto-in", 7)
    ctx = sh(5, 4, 6) * p + 5
    series = torch.stack([torch.cat([torch.randn(ctx // 2, generator=g) * s for s in (lo, hi)] + [torch.zeros(ctx % 2)])
                          for lo, hi in ((0.1, 30.0), (30.0, 0.1), (5.0, 5.0))])[None]
    fx = emit("clamp", "scale_factor_exponent small, so the causal scale is clamped by the global scale of the context.",
              cfg, build(cfg, 7), plain(series), 2 * p + 3)
    s, loose = fx.tensors["scale"], toto_load(fx.dir, False).model.scaler
    loose.scale_factor_exponent = 10.0
    free = loose(fx.tensors["padded_series"], weights=torch.ones_like(s), padding_mask=fx.tensors["padded_padding_mask"].bool(),
                 prefix_length=s.shape[-1])[2]
    assert (s > free).any() and (s < free).any(), "the clamp must act in both directions"

"""The cases of Kronos."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import torch

from fixture import Fixture, Shapes, capture, fill, generator, patched, require_gradients

FEATURES = ["open", "high", "low", "close", "volume", "amount"]


def kronos_randomise(tok, model, g, sharp):
    for net in (tok, model):
        for name, p in net.named_parameters():
            if "norm" in name:
                fill(p, g, 0.25, 1.0)
            elif name.endswith("bias"):
                fill(p, g, 0.2)
            elif "emb_s" in name:
                fill(p, g, p.shape[1] ** -0.5)
            elif "time_emb" in name:
                fill(p, g, 0.5)
            elif "head.proj_s" in name:
                fill(p, g, sharp / math.sqrt(p.shape[1]))
            else:
                fill(p, g, 1.3 / math.sqrt(p.shape[1]))


def kronos_load(folder):
    from model import Kronos, KronosTokenizer

    return (KronosTokenizer.from_pretrained(str(folder / "tokenizer")).eval(),
            Kronos.from_pretrained(str(folder / "model")).eval())


@contextlib.contextmanager
def kronos_exact_norm():
    """The reference RMSNorm computes in float32; for the float64 runs keep the input dtype."""
    from model import module

    with patched(module.RMSNorm, "forward", lambda self, x: self._norm(x) * self.weight):
        yield


@torch.no_grad()
def kronos_tokens_compute(folder, inp, args):
    """Tokenizer round trip and the two logit heads over all positions."""
    tok, model = kronos_load(folder)
    x, stamp = inp["x"], inp["stamp"].float()
    r = {}
    with capture({"z": tok.quant_embed} | {f"enc{i}": m for i, m in enumerate(tok.encoder)}) as log:
        s1, s2 = tok.encode(x, half=True)
    r["tok.z"] = log["z"][0]
    r |= {f"tok.encoder_out.{i}": log[f"enc{i}"][0] for i in range(len(tok.encoder))}
    r["tok.s1_ids"], r["tok.s2_ids"] = s1, s2
    r["tok.ids_full"] = tok.encode(x, half=False)
    r["tok.decode"] = tok.decode([s1, s2], half=True)
    (zp, z), loss, quant, ids = tok(x)
    r |= {"tok.forward_z_pre": zp, "tok.forward_z": z, "tok.forward_bsq_loss": loss, "tok.forward_quantized": quant,
          "tok.forward_indices": ids}
    t64, m64 = (net.double() for net in kronos_load(folder))  # fresh: the rotary cache survives deepcopy and stays float32
    with kronos_exact_norm():
        (zp64, z64), loss64, _, _ = t64(x.double())
        with capture({"z": t64.quant_embed}) as log:
            t64.encode(x.double(), half=True)
    r |= {"tok.z_f64": log["z"][0], "tok.forward_z_pre_f64": zp64, "tok.forward_z_f64": z64}

    def heads(m, st, tag, dtype):
        with capture({f"layer{i}": b for i, b in enumerate(m.transformer)}) as log:
            logits, ctx = m.decode_s1(s1, s2, st)
        step = inp["step_s1"]
        d = {"s1_logits": logits, "context": ctx, "s2_logits_all": m.decode_s2(ctx, s1), "s2_logits_step": m.decode_s2(ctx, step)}
        if dtype == torch.float32 and tag == "":
            d |= {f"layer_out.{i}": log[f"layer{i}"][0] for i in range(len(m.transformer))}
            d["time_emb"] = m.time_emb(st)
            f1, f2 = m(s1, s2, st, use_teacher_forcing=True, s1_targets=s1)
            assert torch.equal(f1, logits) and torch.equal(f2, d["s2_logits_all"])
        if tag == "_nostamp":
            d = {"context": ctx}
        if dtype == torch.float64:
            d.pop("s2_logits_step")
        return {f"lm.{k}{tag}{'_f64' if dtype == torch.float64 else ''}": v for k, v in d.items()}

    r |= heads(model, stamp, "", torch.float32)
    r |= heads(model, None, "_nostamp", torch.float32)
    with kronos_exact_norm():
        r |= heads(m64, stamp, "", torch.float64)
    return r


def kronos_frame(rows, columns, times):
    import pandas as pd

    df = pd.DataFrame({c: rows[:, i].numpy() for i, c in enumerate(columns)})
    return df, pd.Series(pd.to_datetime(times.numpy(), unit="s"))


@torch.no_grad()
def kronos_predict_compute(folder, tensors, args):
    """KronosPredictor on real rows, greedy; the token ids come from watching sample_from_logits."""
    from model import KronosPredictor
    from model import kronos as kmod

    tok, model = kronos_load(folder)
    out = {}
    for run in args["runs"]:
        name = run["name"]
        predictor = KronosPredictor(model, tok, device="cpu", max_context=args["max_context"], clip=args["clip"])
        frames = [kronos_frame(tensors[f"{name}.rows"][i], run["columns"], tensors[f"{name}.x_time_s"][i])
                  for i in range(run["series"])]
        future = [kronos_frame(torch.zeros(run["pred_len"], 0), [], tensors[f"{name}.y_time_s"][i])[1] for i in range(run["series"])]
        seen, steps = [], []
        generate, sample = predictor.generate, kmod.sample_from_logits

        def spy_generate(x, xs, ys, *a):
            preds = generate(x, xs, ys, *a)
            seen.append((np.array(x), np.array(xs), np.array(ys), np.array(preds)))
            return preds

        def spy_sample(logits, **kw):
            ids = sample(logits, **kw)
            steps.append((logits.clone(), ids.clone()))
            return ids

        predictor.generate = spy_generate
        kw = dict(pred_len=run["pred_len"], T=1.0, top_k=1, top_p=1.0, sample_count=1, verbose=False)
        with patched(kmod, "sample_from_logits", spy_sample):
            if run["batch"]:
                dfs = predictor.predict_batch([f[0] for f in frames], [f[1] for f in frames], future, **kw)
            else:
                dfs = [predictor.predict(frames[0][0], frames[0][1], future[0], **kw)]
        x, xs, ys, preds = seen[0]
        full = [complete_frame(f[0]) for f in frames]
        raw = [f[FEATURES].values.astype(np.float32) for f in full]
        out[f"{name}.x_raw"] = np.stack([np.ascontiguousarray(a) for a in raw])
        out[f"{name}.x_mean"] = np.stack([np.mean(a, axis=0) for a in raw])
        out[f"{name}.x_std"] = np.stack([np.std(a, axis=0) for a in raw])
        for i, a in enumerate(raw):
            norm = np.clip((a - out[f"{name}.x_mean"][i]) / (out[f"{name}.x_std"][i] + 1e-5), -args["clip"], args["clip"])
            assert np.array_equal(norm, x[i])
        out[f"{name}.x_mean_f64"] = np.stack([a.astype(np.float64).mean(axis=0) for a in raw])
        out[f"{name}.x_std_f64"] = np.stack([a.astype(np.float64).std(axis=0) for a in raw])
        out[f"{name}.x_norm"], out[f"{name}.x_stamp"], out[f"{name}.y_stamp"] = x, xs.astype(np.int64), ys.astype(np.int64)
        with capture({"z": tok.quant_embed}) as log:
            s1, s2 = tok.encode(torch.from_numpy(np.ascontiguousarray(x)), half=True)
        out[f"{name}.ctx_z"] = log["z"][0]
        out[f"{name}.ctx_s1"], out[f"{name}.ctx_s2"] = s1, s2
        out[f"{name}.gen_s1"] = torch.cat([i for _, i in steps[0::2]], dim=1)
        out[f"{name}.gen_s2"] = torch.cat([i for _, i in steps[1::2]], dim=1)
        out[f"{name}.s1_logits"] = torch.stack([lg for lg, _ in steps[0::2]], dim=1)
        out[f"{name}.s2_logits"] = torch.stack([lg for lg, _ in steps[1::2]], dim=1)
        out[f"{name}.preds_norm"] = preds
        out[f"{name}.preds"] = np.stack([d[FEATURES].values for d in dfs])
    return {k: torch.as_tensor(np.ascontiguousarray(v) if isinstance(v, np.ndarray) else v) for k, v in out.items()}


def complete_frame(df):
    """Missing columns as KronosPredictor documents: no volume -> zeros, no amount -> volume * mean price."""
    df = df.copy()
    if "volume" not in df:
        df["volume"] = df["amount"] = 0.0
    if "amount" not in df:
        df["amount"] = df["volume"] * df[FEATURES[:4]].mean(axis=1)
    return df


@torch.no_grad()
def kronos_sampling_compute(folder, tensors, args):
    """The probabilities handed to torch.multinomial inside sample_from_logits."""
    from model import kronos as kmod

    out = {}
    for run in args["runs"]:
        probs = []

        def spy(p, num_samples, **kw):
            probs.append(p.clone())
            return torch.zeros(p.shape[0], num_samples, dtype=torch.int64)

        if run["top_p"] < 1 and run["top_k"] == 0:  # keep the nucleus boundary away from rounding
            cum = (tensors[run["logits"]].double() / run["T"]).softmax(-1).sort(descending=True).values.cumsum(-1)
            assert (cum - run["top_p"]).abs().min() > 1e-5
        with patched(torch, "multinomial", spy):
            kmod.sample_from_logits(tensors[run["logits"]].clone(), temperature=run["T"], top_k=run["top_k"], top_p=run["top_p"])
        out[f"probs.{run['name']}"] = probs[0]
    return out


KRONOS_DOC = {
    "x": "normalised, clipped input [batch, time, 6]: open high low close volume amount",
    "stamp": "minute hour weekday(Monday=0) day month [batch, time, 5]",
    "step_s1": "one s1 id per batch item [batch, 1], as auto_regressive_inference passes to decode_s2",
    "tok.z": "quant_embed output before normalisation and sign [batch, time, s1_bits + s2_bits]",
    "tok.s1_ids": "KronosTokenizer.encode(x, half=True)[0]: bits 0..s1_bits-1, bit j has weight 2^j",
    "tok.s2_ids": "KronosTokenizer.encode(x, half=True)[1]",
    "tok.ids_full": "KronosTokenizer.encode(x, half=False) = s1 + s2 * 2^s1_bits",
    "tok.decode": "KronosTokenizer.decode([s1_ids, s2_ids], half=True) [batch, time, 6]",
    "tok.forward_z_pre": "KronosTokenizer.forward(x)[0][0]: reconstruction from the s1 bits alone",
    "tok.forward_z": "KronosTokenizer.forward(x)[0][1]: reconstruction from all bits (= decode up to rounding)",
    "tok.forward_bsq_loss": "KronosTokenizer.forward(x)[1]",
    "tok.forward_quantized": "KronosTokenizer.forward(x)[2]: about +-1/sqrt(bits)",
    "tok.forward_indices": "KronosTokenizer.forward(x)[3]",
    "lm.s1_logits": "Kronos.decode_s1(s1_ids, s2_ids, stamp)[0] [batch, time, 2^s1_bits]",
    "lm.context": "Kronos.decode_s1(...)[1], after the final norm [batch, time, d_model]",
    "lm.s2_logits_all": "Kronos.decode_s2(context, s1_ids) in eval mode, all positions (not causal, rotary on q and k); equals Kronos.forward(use_teacher_forcing=True, s1_targets=s1_ids)[1]",
    "lm.s2_logits_step": "Kronos.decode_s2(context, step_s1): ONE query token, so rotary position 0 everywhere; generation uses [:, -1]",
    "lm.time_emb": "TemporalEmbedding(stamp)",
    "rows": "input rows in the column order of case.json [series, time, columns]",
    "x_time_s": "timestamps of the rows, naive, seconds since 1970-01-01 [series, time]",
    "y_time_s": "timestamps of the forecast [series, pred_len]",
    "x_raw": "the six features in float32 after missing columns are filled [series, time, 6]",
    "x_mean": "np.mean(x_raw, axis=0) in float32, as the reference computes it",
    "x_std": "np.std(x_raw, axis=0) (ddof 0) in float32",
    "x_mean_f64": "mean of x_raw in float64",
    "x_std_f64": "std of x_raw in float64",
    "x_norm": "clip((x_raw - mean) / (std + 1e-5), -clip, clip), the array given to KronosPredictor.generate",
    "x_stamp": "time features of the context: minute hour weekday day month",
    "y_stamp": "time features of the forecast",
    "ctx_z": "quant_embed output for the context (sign gives the bits)",
    "ctx_s1": "s1 ids of the whole context (encoded before any window is cut)",
    "ctx_s2": "s2 ids of the whole context",
    "gen_s1": "generated s1 ids [series, pred_len]",
    "gen_s2": "generated s2 ids",
    "s1_logits": "s1 logits at each step before temperature and filtering [series, pred_len, 2^s1_bits]",
    "s2_logits": "s2 logits at each step",
    "preds_norm": "KronosPredictor.generate result, normalised units [series, pred_len, 6]",
    "preds": "predict / predict_batch result, columns open high low close volume amount, float32",
    "logits": "logits without ties [rows, vocabulary]",
    "logits_ties": "logits with ties at the top-k boundary",
}


def kronos_doc(name):
    if name in KRONOS_DOC:
        return KRONOS_DOC[name]
    if name.startswith("probs."):
        return "probabilities given to torch.multinomial inside sample_from_logits for this setting of case.json"
    if name.endswith("_nostamp"):
        return kronos_doc(name[:-8]) + ", stamp=None"
    if ".encoder_out." in name or ".layer_out." in name:
        return f"output of transformer block {name.rsplit('.', 1)[1]}"
    if name.split(".", 1)[1] in KRONOS_DOC:
        return f"run {name.split('.', 1)[0]}: " + KRONOS_DOC[name.split(".", 1)[1]]
    if name.endswith("_f64"):
        return f"`{name[:-4]}` with model and inputs in float64 and RMSNorm kept in float64 (the reference reduces in float32)"
    raise KeyError(name)


def make_kronos(out, seed, versions, kline_csv):
    import pandas as pd
    from model import Kronos, KronosTokenizer

    sh = Shapes(seed)
    bits = sh(6, 5)
    td, th = sh((32, 4), (48, 6), (40, 2))
    tok_cfg = dict(d_in=6, d_model=td, n_heads=th, ff_dim=sh(48, 56, 40), n_enc_layers=sh(3, 2), n_dec_layers=sh(3, 4), ffn_dropout_p=0.1,
                   attn_dropout_p=0.1, resid_dropout_p=0.1, s1_bits=bits, s2_bits=bits, beta=0.05, gamma0=1.0, gamma=1.1, zeta=0.05,
                   group_size=sh(4, 5))

    def lm_cfg(te, dims):
        d, h = dims
        return dict(s1_bits=bits, s2_bits=bits, n_layers=3, d_model=d, n_heads=h, ff_dim=sh(48, 56, 40), ffn_dropout_p=0.1,
                    attn_dropout_p=0.1, resid_dropout_p=0.1, token_dropout_p=0.1, learn_te=te)

    def save(folder, te, dims, attempt, key, sharp=3.0):
        torch.manual_seed(seed)
        tok, lm = KronosTokenizer(**tok_cfg).eval(), Kronos(**lm_cfg(te, dims)).eval()
        kronos_randomise(tok, lm, generator(seed, "kronos", key, attempt), sharp)
        for sub, net in (("tokenizer", tok), ("model", lm)):
            net.save_pretrained(str(folder / sub))
            (folder / sub / "README.md").unlink(missing_ok=True)
        return tok, lm

    # -- 1 and 2: tokenizer and logits, learned and fixed time embedding
    for name, te, dims in (("tokens", True, sh((48, 4), (64, 8), (48, 6))), ("tokens-fixed-te", False, sh((48, 6), (40, 5), (64, 2)))):
        b, t = 2, sh(30, 23, 37)
        fx = Fixture(out, f"kronos-{name}", "Tokenizer encode/decode/forward, and both logit heads over all positions of a prefill. "
                     f"learn_te={te}; the cross attention of decode_s2 always has 4 heads, the model has {dims[1]}.", {})
        g = generator(seed, "kronos-in", name)
        x = torch.randn(b, t, 6, generator=g)
        x[..., :4] = x[..., :4] * 0.3 + torch.randn(b, t, 1, generator=g).cumsum(1) * 0.3
        x = x.clamp(-5, 5)
        hi = torch.tensor([60, 24, 7, 31, 12])
        stamp = (torch.rand(b, t, 5, generator=g) * hi).long() + torch.tensor([0, 0, 0, 1, 1])
        for attempt in range(500):
            tok, lm = save(fx.dir, te, dims, attempt, name)
            inp = dict(x=x, stamp=stamp, step_s1=torch.randint(0, 2**bits, (b, 1), generator=generator(seed, "step")))
            res = kronos_tokens_compute(fx.dir, inp, {})
            margin = (res["tok.z"].abs() / res["tok.z"].norm(dim=-1, keepdim=True)).min().item()
            if margin > 2e-4:
                break
        else:
            raise SystemExit("no weights with a safe bit margin")
        for k, v in inp.items():
            fx.put(k, v, kronos_doc(k))
        fx.put_all(res, kronos_doc)
        (zp, z), loss, _, _ = tok(x)
        require_gradients(tok, zp.sin().sum() + z.cos().sum() + loss)
        a, c = lm(res["tok.s1_ids"], res["tok.s2_ids"], stamp, use_teacher_forcing=True, s1_targets=res["tok.s1_ids"])
        require_gradients(lm, a.sin().sum() + c.sin().sum())
        fx.notes += [f"smallest |normalised bit| {margin:.2g}; distinct ids s1 {res['tok.s1_ids'].unique().numel()}, "
                     f"s2 {res['tok.s2_ids'].unique().numel()} of {2**bits}",
                     f"float32 vs float64: s1_logits {(res['lm.s1_logits'] - res['lm.s1_logits_f64']).abs().max():.2g}, "
                     f"s2_logits_all {(res['lm.s2_logits_all'] - res['lm.s2_logits_all_f64']).abs().max():.2g}, "
                     f"decode vs forward_z_f64 {(res['tok.decode'] - res['tok.forward_z_f64']).abs().max():.2g}"]
        fx.write(seed, versions)

    # -- 3 and 4: real rows
    df = pd.read_csv(kline_csv)
    df.columns = [c.lower() for c in df.columns]
    times = pd.to_datetime(df["timestamps"] if "timestamps" in df else df["date"])
    secs = torch.from_numpy(((times - pd.Timestamp(0)) // pd.Timedelta(seconds=1)).to_numpy(np.int64))
    have = [c for c in FEATURES if c in df.columns]
    rows = torch.from_numpy(df[have].to_numpy(np.float64))
    mc = sh(64, 48, 56, 72)

    def run(name, starts, ctx, pred, columns=None, batch=False):
        cols = columns or have
        pick = [have.index(c) for c in cols]
        tens = {f"{name}.rows": torch.stack([rows[s : s + ctx][:, pick] for s in starts]),
                f"{name}.x_time_s": torch.stack([secs[s : s + ctx] for s in starts]),
                f"{name}.y_time_s": torch.stack([secs[s + ctx : s + ctx + pred] for s in starts])}
        return dict(name=name, series=len(starts), ctx=ctx, pred_len=pred, columns=cols, batch=batch), tens

    starts = [sh(100, 700, 1500), sh(400, 900, 2100), sh(1200, 1700, 300)]
    price = FEATURES[:4]
    single = [
        run("short", starts[:1], mc - sh(24, 17, 20), sh(12, 9, 11)),
        run("slide", starts[1:2], mc - sh(8, 5, 7), sh(20, 16, 23)),
        run("long", starts[2:], mc + sh(16, 9, 21), sh(6, 8, 7)),
        run("edge", starts[:1], mc, 3),
        run("novolume", starts[1:2], mc - 30, 5, price),
    ]
    if "amount" in have:
        single.append(run("noamount", starts[2:], mc - 30, 5, price + ["volume"]))
    multi = [run("batch", starts, mc - sh(20, 15, 12), sh(10, 12, 8), batch=True),
             run("batch_slide", starts, mc - 4, sh(10, 12, 8), batch=True)]
    for name, te, dims, runs, text in (
        ("predict", True, sh((48, 4), (64, 8), (40, 5)), single,
         "KronosPredictor.predict, greedy (top_k=1), on real rows: short (fits the context), slide (window slides while generating), "
         "long (context longer than max_context from the start), edge (context = max_context), missing volume / amount columns."),
        ("batch", False, sh((48, 4), (64, 8), (48, 6)), multi, "KronosPredictor.predict_batch with three series, greedy; second run slides."),
    ):
        args = dict(max_context=mc, clip=5, T=1.0, top_k=1, top_p=1.0, sample_count=1, runs=[r for r, _ in runs])
        fx = Fixture(out, f"kronos-{name}", text + f" learn_te={te}.", args)
        tens = {k: v for _, t in runs for k, v in t.items()}
        for attempt in range(500):
            save(fx.dir, te, dims, attempt, name, sharp=2.0)
            res = kronos_predict_compute(fx.dir, tens, args)
            stats = {}
            for r, _ in runs:
                n = r["name"]
                gap = min((lambda t: (t[..., 0] - t[..., 1]).min().item())(res[f"{n}.{h}_logits"].topk(2, dim=-1).values) for h in ("s1", "s2"))
                z = res[f"{n}.ctx_z"]
                stats[n] = (gap, (z.abs() / z.norm(dim=-1, keepdim=True)).min().item(),
                            res[f"{n}.gen_s1"].unique().numel(), res[f"{n}.gen_s2"].unique().numel())
            if all(s[0] > 2e-3 and s[1] > 1e-4 and s[2] > 2 and s[3] > 2 for s in stats.values()):
                break
        else:
            raise SystemExit("no weights with safe greedy margins")
        for k, v in tens.items():
            fx.put(k, v, kronos_doc(k))
        fx.put_all(res, kronos_doc)
        fx.notes += [f"{n}: smallest top-1/top-2 logit gap {s[0]:.2g}, smallest |normalised bit| {s[1]:.2g}, distinct generated s1 {s[2]}, s2 {s[3]}"
                     for n, s in stats.items()]
        fx.write(seed, versions)

    # -- 5: the sampling rule
    g = generator(seed, "kronos-in", "sampling")
    vocab = sh(64, 32, 128)
    logits = torch.randn(6, vocab, generator=g) * torch.tensor([0.5, 1.0, 2.0, 3.0, 6.0, 0.1])[:, None]
    ties = logits.clone()
    ties[:, 5:15] = logits.max(dim=-1, keepdim=True).values * 0.5
    ties[0] = 1.0
    settings = [(0.7, 0, 0.9), (1.0, 20, 1.0), (0.15, 20, 0.83), (1.0, 0, 1.0), (1.0, 1, 1.0), (1.0, 0, 0.05), (0.6, 5, 0.1),
                (1.0, vocab + 10, 1.0)]
    runs = [dict(name=f"T{t}_k{k}_p{p}", logits="logits", T=t, top_k=k, top_p=p) for t, k, p in settings]
    runs += [dict(name="ties_k4", logits="logits_ties", T=1.0, top_k=4, top_p=1.0),
             dict(name="ties_k20_p0.5", logits="logits_ties", T=0.8, top_k=20, top_p=0.5)]
    fx = Fixture(out, "kronos-sampling", "Sampling rule: probabilities after temperature, top_k, top_p. No checkpoint. When top_k > 0 the "
                 "reference returns before top_p, so top_p has no effect there.", dict(runs=runs))
    tens = dict(logits=logits, logits_ties=ties)
    for k, v in tens.items():
        fx.put(k, v, kronos_doc(k))
    fx.put_all(kronos_sampling_compute(fx.dir, tens, fx.args), kronos_doc)
    fx.write(seed, versions)

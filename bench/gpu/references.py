"""One public reference on one GPU, eager or compiled: times of whole forecasts and the most memory its tensors took.

Usage: python3 bench/gpu/references.py toto --checkpoint FOLDER [--mode MODE] [--context 512] [--horizon 8] [--samples 256]
           [--variates 1] [--batch 1] [--dtype f32|bf16]
       python3 bench/gpu/references.py kronos --checkpoint FOLDER --source CHECKOUT [--mode MODE] ...

MODE is eager, default, reduce-overhead or max-autotune (of torch.compile). `toto` needs the package toto-ts, `kronos` a
checkout of https://github.com/shiyu-coder/Kronos and a FOLDER with model/ and tokenizer/. The first forecast, which
compiles, stands by itself. A mode that fails is a result too: {"error": ...}.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
import types
import warnings

import torch

warnings.filterwarnings("ignore")


def stand_in(name, **members):
    """An empty module where one is imported but not used by what is timed."""
    if importlib.util.find_spec(name) is None:
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module


def toto(options):
    stand_in("datasets", Dataset=object)
    from toto.data.util.dataset import MaskedTimeseries
    from toto.inference.forecaster import TotoForecaster
    from toto.model.toto import Toto

    model = Toto.load_from_checkpoint(options.checkpoint, strict=False).eval().cuda()
    if options.dtype == "bf16":
        model = model.to(torch.bfloat16)
    if options.mode != "eager":
        model.model.compile(mode=options.mode)
    forecaster = TotoForecaster(model.model)
    values = torch.randn(options.batch, options.variates, options.context).cumsum(-1)

    def forecast():
        series = values.cuda()
        inputs = MaskedTimeseries(
            series=series,
            padding_mask=torch.ones_like(series, dtype=torch.bool),
            id_mask=torch.zeros_like(series),
            timestamp_seconds=torch.zeros_like(series),
            time_interval_seconds=torch.full(series.shape[:-1], 86_400, device="cuda"),
        )
        answer = forecaster.forecast(
            inputs, prediction_length=options.horizon, num_samples=options.samples, samples_per_batch=options.samples
        )
        return answer.samples.cpu()

    return forecast


def kronos(options):
    stand_in("pandas")
    sys.path.insert(0, options.source)
    from model.kronos import Kronos, KronosTokenizer, auto_regressive_inference

    model = Kronos.from_pretrained(options.checkpoint + "/model").eval().cuda()
    tokenizer = KronosTokenizer.from_pretrained(options.checkpoint + "/tokenizer").eval().cuda()
    if options.mode != "eager":
        for module, names in ((model, ("decode_s1", "decode_s2")), (tokenizer, ("encode", "decode"))):
            for name in names:
                setattr(module, name, torch.compile(getattr(module, name), mode=options.mode))
    candles = torch.randn(1, options.context, 6)
    stamps = [torch.ones(1, count, 5) for count in (options.context, options.horizon)]

    def forecast():
        return auto_regressive_inference(
            tokenizer, model, candles.cuda(), *(stamp.cuda() for stamp in stamps), 512, options.horizon, 5,
            options.temperature, options.top_k, options.top_p, options.samples,
        )

    return forecast


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=["toto", "kronos"])
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--source")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--dtype", default="f32")
    for name, default in dict(context=512, horizon=8, samples=256, variates=1, batch=1, runs=5, top_k=0).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-p", type=float, default=0.9)
    options = parser.parse_args()
    torch.manual_seed(0)
    try:
        forecast = {"toto": toto, "kronos": kronos}[options.family](options)
        times = []
        for _ in range(options.runs + 1):
            torch.cuda.synchronize()
            started = time.perf_counter()
            with torch.inference_mode():
                forecast()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - started))
        report = dict(
            first_ms=times[0],
            median_ms=statistics.median(times[1:]),
            runs_ms=times[1:],
            peak_bytes=torch.cuda.max_memory_allocated(),
            torch=torch.__version__,
        )
    except Exception as error:
        report = dict(error=f"{type(error).__name__}: {error}"[:400])
    print(json.dumps({"mode": options.mode, **report}))


if __name__ == "__main__":
    main()

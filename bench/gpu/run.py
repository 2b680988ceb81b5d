"""Checks and times the CUDA device and the public references on one machine, in one call, and writes everything down.

Usage: python3 bench/gpu/run.py --nowcast target/release/nowcast --goldens goldens --out bench/results/DATE-gpu.json
           [--tests target/release/deps/cuda-... ...] [--kronos CHECKOUT] [--references] [--runs-factor 1.0]

1. The test binaries of crates/nowcast-engine/tests/cuda*.rs: operations on the GPU against the CPU and against f64.
2. Goldens in every mode.
3. Forecasts of full-size random checkpoints in `eager`, `default`, `reduce-overhead` and `max-autotune`, and on the CPU:
   how far the answers of the modes lie apart.
4. The bandwidth of a copy, then every workload in every dtype: timed by itself, then once more for the most device memory
   of a process, which takes another one that asks again and again.
5. A new process with compiled kernels at hand, from its start to its answer; the most device memory it had.
6. A forecast while another process holds so much that only a third of its plan fits: the same bytes, in smaller chunks.
7. A forecast whose compiled kernels on disk are whole but refused by the driver: they are compiled again.
8. With --references: toto-ts and the public Kronos code on the same GPU, eager and in every mode of torch.compile
   (`references.py`). CHECKOUT is https://github.com/shiyu-coder/Kronos.
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
MODES = ["eager", "default", "reduce-overhead", "max-autotune"]
DTYPES = ["f32", "tf32", "bf16"]
WORKLOADS = [
    dict(model="toto", context=512, horizon=8, samples=256, runs=400),
    dict(model="toto", context=512, horizon=64, samples=256, runs=200),
    dict(model="toto", context=512, horizon=8, samples=256, batch=28, runs=100),
    dict(model="toto", context=512, horizon=8, samples=4096, batch=28, runs=40),
    dict(model="toto", context=512, horizon=336, samples=256, runs=40),
    dict(model="toto", context=4096, horizon=336, samples=256, variates=7, runs=15),
    dict(model="small", context=400, horizon=24, samples=1, temperature=1.0, top_p=0.9, runs=30),
    dict(model="base", context=232, horizon=7, samples=192, temperature=0.15, top_k=20, top_p=0.9, runs=30),
    dict(model="small", context=512, horizon=24, samples=30, temperature=1.0, top_p=0.9, runs=10),
]
KEPT = ["load_ms", "first_ms", "median_ms", "p99_ms", "sigma_ms", "warm_up_runs", "runs_ms", "device_bytes", "planned_bytes",
        "weight_bytes", "counters"]


def run(*command, timeout=None):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)


def numbers(value):
    """Every number of a JSON value, in order."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from numbers(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)):
        yield float(value)


def flags(workload):
    return [part for name, value in workload.items() if name != "model"
            for part in ("--" + name.replace("_", "-"), value)]


def bandwidth():
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(10):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize()
    result = 2 * 4 * (1 << 30) * 10 / (start.elapsed_time(end) * 1e-3) / 1e12
    del source, target
    torch.cuda.empty_cache()
    return result


def with_memory(*command):
    """Runs a command; what it printed, and the most device memory in use meanwhile beyond that before it."""
    used = lambda: (lambda free, total: total - free)(*torch.cuda.mem_get_info())
    before, most, done = used(), [0], threading.Event()

    def watch():
        while not done.wait(0.001):
            most[0] = max(most[0], used() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output = run(*command)
    done.set()
    watcher.join()
    return output, most[0]


def checks(options, results):
    results["tests"] = {}
    for binary in options.tests:
        output = run(binary)
        summary = re.findall(r"test result: .*", output.stdout)
        results["tests"][Path(binary).name.rsplit("-", 1)[0]] = summary[-1] if summary else output.stderr[-500:]
        if output.returncode:
            print(output.stdout[-3000:], output.stderr[-3000:])
    results["goldens"] = {}
    for mode in MODES:
        output = run(options.nowcast, "verify", "--goldens", options.goldens, "--device", "cuda", "--mode", mode, "--json")
        report = json.loads(output.stdout)
        results["goldens"][mode] = {
            "passed": report["passed"],
            "failed": report["failed"],
            "checks": sum(len(case["checks"]) for case in report["cases"]),
        }
    print(json.dumps({key: results[key] for key in ("tests", "goldens")}, indent=1))


def apart(options, results, model):
    """Mean paths and sampled paths in every mode against the CPU's, in units of the series' scale."""
    results["apart"] = []
    for settings in (["--decode", "mean", "--horizon", 200], ["--samples", 64, "--paths", "--horizon", 200]):
        answers = {}
        for mode, device in [*((mode, "cuda") for mode in MODES), ("default", "cpu")]:
            output = run(options.nowcast, "forecast", options.csv, "--columns", options.column, "--model", model,
                         "--context", 512, *settings, "--device", device, "--mode", mode, "--output", "json")
            if output.returncode:
                sys.exit(output.stderr)
            answers[device, mode] = list(numbers(json.loads(output.stdout)["series"]))
        expected = answers["cpu", "default"]
        scale = statistics.pstdev(expected)
        for (device, mode), values in answers.items():
            if device == "cuda":
                errors = [abs(x - y) / scale for x, y in zip(expected, values)]
                row = dict(settings=[str(part) for part in settings], mode=mode, mean=statistics.mean(errors), most=max(errors))
                results["apart"].append(row)
                print(json.dumps(row))


HOLD = """
import sys, torch
held = torch.empty(torch.cuda.mem_get_info()[0] - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.readline()
"""


def difference(one, other):
    """The first lines in which two texts differ."""
    pairs = zip(one.splitlines(), other.splitlines())
    return next(([a.strip()[:120], b.strip()[:120]] for a, b in pairs if a != b), None)


def crowded(options, results, model):
    """The same forecast on a free device and on one that another process has almost filled."""
    shape = ["--context", 512, "--horizon", 336, "--samples", 8192]
    command = [options.nowcast, "forecast", options.csv, "--columns", options.column, "--model", model, "--device", "cuda",
               *shape, "--output", "json"]
    alone = run(*command)
    report = json.loads(run(options.nowcast, "bench", "--model", model, "--device", "cuda", *shape, "--runs", 1, "--json").stdout)
    room = results["context_bytes"] + report["weight_bytes"] + report["planned_bytes"] // 3
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(room)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = holder.stdout.readline().strip()
    crowd = run(*command)
    holder.communicate("\n")
    series = lambda output: json.loads(output.stdout)["series"] if output.returncode == 0 else output.stderr[-300:]
    results["crowded"] = dict(plan_bytes=report["planned_bytes"], room_bytes=room, holder=said,
                              exit_codes=[alone.returncode, crowd.returncode], same_digits=series(alone) == series(crowd),
                              same_bytes=alone.stdout == crowd.stdout, differs=difference(alone.stdout, crowd.stdout))
    print(json.dumps(results["crowded"]))


def refused(options, results):
    """A forecast with four entries of the kernels' cache that hold their digest and nonsense."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    entries = sorted((Path(base) / "nowcast" / "kernels").glob("*.cubin"))[:4]
    nonsense = b"\x7fELF" + b"nonsense" * 64
    command = [options.nowcast, "forecast", options.csv, "--columns", options.column, "--horizon", 8, "--device", "cuda",
               "--output", "json"]
    before = run(*command)
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:8] + hashlib.sha256(nonsense).digest() + nonsense)
    after = run(*command)
    mended = sum(nonsense not in entry.read_bytes() for entry in entries)
    results["refused"] = dict(entries=len(entries), mended=mended, exit_codes=[before.returncode, after.returncode],
                              same_bytes=before.stdout == after.stdout)
    print(json.dumps(results["refused"]))


def failures(results):
    """What did not do what it should."""
    yield from (name for name, summary in results["tests"].items() if not summary.startswith("test result: ok."))
    yield from (f"goldens in {mode}" for mode, report in results["goldens"].items() if report["failed"] or not report["passed"])
    for name, same in (("crowded", "same_digits"), ("refused", "same_bytes")):
        if any(results[name]["exit_codes"]) or not results[name][same]:
            yield name
    if results["refused"]["mended"] < results["refused"]["entries"]:
        yield "mending of the kernels' cache"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nowcast", required=True)
    parser.add_argument("--goldens", required=True)
    parser.add_argument("--csv", default="examples/vix_daily.csv")
    parser.add_argument("--column", default="CLOSE")
    parser.add_argument("--tests", nargs="*", default=[])
    parser.add_argument("--kronos")
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--reference-seconds", type=float, default=150)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    query = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    results = dict(date=datetime.date.today().isoformat(), command=" ".join(sys.argv), gpu=query.stdout.strip(),
                   torch=torch.__version__)
    save = lambda: Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    checks(options, results)

    models = {"toto": folder / "toto"}
    print(run(sys.executable, HERE / "make_weights.py", models["toto"]).stdout.strip())
    if options.kronos:
        for shape in ("small", "base"):
            models[shape] = folder / shape / "model"
            run(sys.executable, HERE.parent / "make_fullsize_kronos.py", options.kronos, folder / shape, shape)
    apart(options, results, models["toto"])
    save()

    start = time.perf_counter()
    run(options.nowcast, "forecast", options.csv, "--columns", options.column, "--model", models["toto"], "--context", 512,
        "--horizon", 8, "--device", "cuda", "--output", "json", "--out", folder / "first.json")
    results["new_process_ms"] = (time.perf_counter() - start) * 1e3
    results["copy_tb_per_s"] = bandwidth()
    # What a process has on the device before it has a model: a tiny one stands in for none.
    _, results["context_bytes"] = with_memory(options.nowcast, "bench", "--model", "nano", "--context", 64, "--horizon", 8,
                                              "--samples", 1, "--runs", 1, "--device", "cuda")
    print({key: results[key] for key in ("new_process_ms", "copy_tb_per_s", "context_bytes")})
    crowded(options, results, models["toto"])
    refused(options, results)
    results["timings"] = []
    for dtype in DTYPES:
        for workload in WORKLOADS:
            if workload["model"] not in models:
                continue
            command = [options.nowcast, "bench", "--model", models[workload["model"]], "--device", "cuda", "--dtype", dtype,
                       "--json"]
            output = run(*command, *flags(workload))
            if output.returncode:
                sys.exit(output.stderr)
            _, memory = with_memory(*command, *flags({**workload, "runs": 1, "warm_up": 0}))
            timing = json.loads(output.stdout)
            # The most a whole process had, its context and kernels included; what model and plan took is `device_bytes`.
            row = dict(workload=workload, dtype=dtype, process_bytes=memory, **{key: timing[key] for key in KEPT})
            results["timings"].append(row)
            print(dtype, workload, {key: round(timing[key], 4) for key in ["first_ms", "median_ms", "p99_ms", "sigma_ms"]},
                  "beyond the plan by", timing["device_bytes"] - timing["planned_bytes"] - timing["weight_bytes"],
                  flush=True)
    save()

    results["references"] = []
    for workload in WORKLOADS if options.references else []:
        if workload["model"] not in models:
            continue
        family = "toto" if workload["model"] == "toto" else "kronos"
        checkpoint = models["toto"] if family == "toto" else models[workload["model"]].parent
        main_ones = (workload["model"], workload["horizon"], workload.get("batch")) in (("toto", 8, None), ("base", 7, None))
        for mode in MODES if main_ones else MODES[:1]:
            arguments = [*flags({**workload, "runs": 3}), "--mode", mode, "--checkpoint", checkpoint]
            arguments += ["--source", options.kronos] if family == "kronos" else []
            try:
                output = run(sys.executable, HERE / "references.py", family, *arguments, timeout=options.reference_seconds)
                answer = json.loads(output.stdout.splitlines()[-1]) if output.stdout else {"error": output.stderr[-400:]}
            except subprocess.TimeoutExpired:
                answer = {"error": f"not done after {options.reference_seconds} s"}
            results["references"].append({"workload": workload, "mode": mode, **answer})
            print(mode, workload, {key: value for key, value in answer.items() if key != "runs_ms"}, flush=True)
            save()
    save()
    if failed := list(failures(results)):
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

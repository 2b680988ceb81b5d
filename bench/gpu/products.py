"""Products of a layer of Toto beside cuBLAS (through PyTorch), on one GPU, by the profiler: both sides the same way.

Usage: python3 bench/gpu/products.py --nowcast target/release/nowcast --model FOLDER --out bench/results/DATE-gpu-products.json
           [--rows 8 192 1792] [--dtypes f32 tf32 bf16]

Our products run inside a forecast of as many samples (`ncu` times every kernel by itself; cutting the rows is listed beside
the product). PyTorch multiplies the same shapes in f32 without TF32, in TF32, in bf16, and in f16 three times as wide,
which is what f32 in pairs of f16 costs a library: [near, near, rest] times [near, rest, near]. Medians; the gate's
activation and the residual are part of ours and not of PyTorch's. FOLDER is made by make_weights.py.
"""

import argparse
import csv
import datetime
import io
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

# Inputs and outputs of a layer's products, in the order in which a layer runs them.
SHAPES = {"qkv": (768, 2304), "output": (768, 768), "gated": (768, 6144), "down": (3072, 768)}
LAYERS = 12
REPEATS = 20
PRODUCTS = re.compile(r"^(ring|block|small|stream|cluster)_")
CUTS = re.compile(r"^cut_")
LIBRARY = re.compile(r"gemm|cutlass|nvjet|splitK|gemv", re.IGNORECASE)
CONTESTANTS = ["f32", "tf32", "bf16", "f16 x 3"]


def kernels(*command):
    """Names and microseconds of all kernels that a command runs."""
    profile = ["ncu", "--csv", "--page", "raw", "--metrics", "gpu__time_duration.sum", "--cache-control", "none",
               "--clock-control", "none", *map(str, command)]
    output = subprocess.run(profile, capture_output=True, text=True)
    lines = [line for line in output.stdout.splitlines() if line.startswith('"')]
    if output.returncode or not lines:
        sys.exit(output.stdout[-2000:] + output.stderr[-2000:])
    rows = csv.DictReader(io.StringIO("\n".join(lines)))
    units = next(rows)
    factor = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[units["gpu__time_duration.sum"]]
    return [(row["Kernel Name"], float(row["gpu__time_duration.sum"].replace(",", "")) * factor) for row in rows]


def ours(options, rows, dtype):
    """Microseconds of the products of the last step of a forecast, and of cutting their rows."""
    run = kernels(options.nowcast, "bench", "--model", options.model, "--device", "cuda", "--dtype", dtype, "--mode",
                  "default", "--context", 64, "--horizon", 128, "--samples", rows, "--runs", 1)
    found, cut = [], 0.0
    for name, time in run:
        if CUTS.match(name):
            cut = time
        elif PRODUCTS.match(name):
            found.append((name, time, cut))
            cut = 0.0
    # The head follows the layers.
    layers = found[-1 - len(SHAPES) * LAYERS:-1]
    for place, shape in enumerate(SHAPES):
        times = layers[place::len(SHAPES)]
        yield shape, {"kernel": times[0][0], "us": statistics.median(time for _, time, _ in times),
                      "cut_us": statistics.median(cut for _, _, cut in times)}


def multiply():
    """What is profiled: every shape by every contestant, in the order of `questions`."""
    import torch

    for rows, shape, contestant in json.loads(sys.argv[2]):
        inputs, outputs = SHAPES[shape]
        torch.backends.cuda.matmul.allow_tf32 = contestant == "tf32"
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        dtype = {"bf16": torch.bfloat16, "f16 x 3": torch.float16}.get(contestant, torch.float32)
        width = inputs * 3 if contestant == "f16 x 3" else inputs
        x = torch.randn(rows, width, device="cuda").to(dtype)
        weight = (torch.randn(outputs, width, device="cuda") / width**0.5).to(dtype)
        for _ in range(REPEATS):
            torch.nn.functional.linear(x, weight)
    torch.cuda.synchronize()


def theirs(questions):
    """Microseconds of each question; kernels that split a product and add the pieces count together."""
    run = [(name, time) for name, time in kernels(sys.executable, __file__, "--multiply", json.dumps(questions))
           if LIBRARY.search(name)]
    place = 0
    for question in questions:
        # A product is one kernel, or the same few over and over.
        rest = [name for name, _ in run[place:]]
        each = next(count for count in (1, 2, 3) if rest[:count] * REPEATS == rest[:count * REPEATS])
        times = [sum(time for _, time in run[place + start:place + start + each]) for start in range(0, each * REPEATS, each)]
        place += each * REPEATS
        yield question, {"kernel": run[place - each][0][:120], "us": statistics.median(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nowcast", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=int, nargs="*", default=[8, 192, 1792])
    parser.add_argument("--dtypes", nargs="*", default=["f32", "tf32", "bf16"])
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    results = dict(date=datetime.date.today().isoformat(), command=" ".join(sys.argv), products=[],
                   gpu=subprocess.run(query, capture_output=True, text=True).stdout.strip())
    questions = [(rows, shape, contestant) for rows in options.rows for shape in SHAPES for contestant in CONTESTANTS]
    table = {(rows, shape): {} for rows in options.rows for shape in SHAPES}
    for (rows, shape, contestant), answer in theirs(questions):
        table[rows, shape]["cuBLAS " + contestant] = answer
    for rows in options.rows:
        for dtype in options.dtypes:
            for shape, answer in ours(options, rows, dtype):
                table[rows, shape]["nowcast " + dtype] = answer
    for (rows, shape), answers in table.items():
        inputs, outputs = SHAPES[shape]
        results["products"].append(dict(rows=rows, product=shape, inputs=inputs, outputs=outputs, **answers))
        times = "  ".join(f"{name} {answer['us']:.1f}" + (f"+{answer['cut_us']:.1f}" if "cut_us" in answer else "")
                          for name, answer in answers.items())
        print(f"{rows} x {inputs} x {outputs} us: {times}", flush=True)
    Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    multiply() if sys.argv[1:2] == ["--multiply"] else main()

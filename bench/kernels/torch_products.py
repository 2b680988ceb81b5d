"""Products of PyTorch, MKL and oneDNN for the kernel lab: one JSON question a line in, one JSON answer a line out."""

import json
import sys
import time

import numpy
import torch

INPUT_START = 0x4000_0000


def values(count, start=0):
    """As `value` in src/problem.rs: a multiplicative hash of the place, 24 bits in -1..1."""
    place = numpy.arange(count, dtype=numpy.uint32) ^ numpy.uint32(start)
    with numpy.errstate(over="ignore"):
        place *= numpy.uint32(0x9E37_79B1)
        place ^= place >> numpy.uint32(15)
        place *= numpy.uint32(0x85EB_CA77)
        place ^= place >> numpy.uint32(13)
    return (place >> numpy.uint32(8)).astype(numpy.float32) / numpy.float32(1 << 23) - numpy.float32(1)


class Lab:
    def __init__(self):
        self.contestants = {}

    def prepare(self, problem, copies):
        rows, inputs, outputs = problem["rows"], problem["inputs"], problem["outputs"]
        self.contestants.clear()
        source = torch.from_numpy(values(outputs * inputs)).reshape(outputs, inputs)
        rows_of_input = torch.from_numpy(values(rows * inputs, INPUT_START)).reshape(rows, inputs)
        for dtype, name in [(torch.float32, "f32"), (torch.bfloat16, "bf16")]:
            x = rows_of_input.to(dtype)
            weights = [source.to(dtype).clone() for _ in range(copies)]
            self.add("PyTorch", name, x, weights, torch.nn.functional.linear)
            packed = [torch.ops.mkldnn._reorder_linear_weight(weight, rows) for weight in weights]
            one_dnn = torch.ops.mkldnn._linear_pointwise.default
            self.add("oneDNN, packed", name, x, packed, lambda x, w: one_dnn(x, w, None, "none", [], ""))
            if name == "f32" and torch.backends.mkl.is_available():
                packed = [torch.ops.mkl._mkl_reorder_linear_weight(weight, rows) for weight in weights]
                self.add("MKL, packed", name, x, packed, lambda x, w: torch.ops.mkl._mkl_linear(x, w, source, None, rows))
        return list(self.contestants)

    def add(self, name, dtype, x, weights, product):
        self.contestants[name, dtype] = {"x": x, "weights": weights, "product": product, "next": 0}

    def rows(self, name, dtype, rows):
        chosen = self.contestants[name, dtype]
        result = chosen["product"](chosen["x"], chosen["weights"][0])
        return result[rows].float().tolist()

    def time(self, name, dtype, calls):
        chosen = self.contestants[name, dtype]
        x, weights, product, first = (chosen[key] for key in ("x", "weights", "product", "next"))
        begun = time.perf_counter()
        for call in range(calls):
            product(x, weights[(first + call) % len(weights)])
        elapsed = time.perf_counter() - begun
        chosen["next"] = (first + calls) % len(weights)
        return elapsed

    def versions(self):
        wanted = {"MKL-DNN": "oneDNN", "oneAPI Math Kernel Library": "MKL"}
        lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
        found = {name: line for line in lines for text, name in wanted.items() if text in line}
        return {"PyTorch": torch.__version__, **found}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    lab = Lab()
    with torch.inference_mode(False), torch.no_grad():
        for line in sys.stdin:
            question = json.loads(line)
            answer = getattr(lab, question.pop("question"))(**question)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

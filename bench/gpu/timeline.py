"""What every kernel adds to a forecast's way through its graph, as it runs: kernels that start before the ones ahead have
ended included, which `ncu` runs one after the other.

Usage: python3 bench/gpu/timeline.py [--each] [--cuda /usr/local/cuda] -- nowcast bench --model FOLDER --device cuda ...

Needs a C compiler and the toolkit's CUPTI. A kernel adds what lies between the end of all kernels before it and its own.
The first forecasts are left out, the last ones averaged; `--each` lists the launches of a forecast in order.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

Kernel = collections.namedtuple("Kernel", "start end name grid threads")
# Between two forecasts, in nanoseconds.
GAP = 60_000
MOST_FORECASTS = 6


def build(cuda, folder):
    """The library that the driver loads."""
    places = [cuda, *cuda.glob("extras/CUPTI"), *cuda.glob("targets/*")]
    headers = [place / "include" for place in places if (place / "include").is_dir()]
    libraries = [library for place in places for name in ("lib64", "lib") for library in (place / name).glob("libcupti.so*")]
    if not libraries:
        sys.exit(f"no libcupti.so below {cuda}: name the toolkit with --cuda")
    library = folder / "timeline.so"
    source = pathlib.Path(__file__).with_name("timeline.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", source, "-o", library, *(f"-I{header}" for header in headers),
                    libraries[0], f"-Wl,-rpath,{libraries[0].parent}"], check=True)
    return library


def read(path):
    kernels = []
    for line in path.read_text().splitlines():
        start, end, name, x, y, z, threads = line.split()
        kernels.append(Kernel(int(start), int(end), name, f"{x}x{y}x{z}", threads))
    return sorted(kernels)


def forecasts(kernels):
    """The last forecasts with as many launches as most have."""
    runs, end = [], None
    for kernel in kernels:
        if end is None or kernel.start > end + GAP:
            runs.append([])
        runs[-1].append(kernel)
        end = max(end or 0, kernel.end)
    usual = collections.Counter(map(len, runs)).most_common(1)[0][0]
    return [run for run in runs if len(run) == usual][-MOST_FORECASTS:]


def added(run):
    """Microseconds that each launch adds."""
    end, result = run[0].start, []
    for kernel in run:
        result.append(max(0, kernel.end - end) / 1000)
        end = max(end, kernel.end)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true", help="list every launch of a forecast")
    parser.add_argument("--cuda", type=pathlib.Path, default=pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")))
    parser.add_argument("command", nargs="+", help="the program and its arguments, behind --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = folder / "kernels.txt"
        environment = dict(os.environ, CUDA_INJECTION64_PATH=str(build(options.cuda, folder)), TIMELINE=str(path))
        subprocess.run(options.command, env=environment, stdout=subprocess.DEVNULL, check=True)
        if not path.exists() or not path.stat().st_size:
            sys.exit("no kernel ran: is there a GPU, and --device cuda?")
        runs = forecasts(read(path))
    means = [sum(values) / len(runs) for values in zip(*map(added, runs))]
    print(f"{len(runs)} forecasts of {len(means)} launches, {sum(means):.1f} us each")
    if options.each:
        for kernel, mean in zip(runs[-1], means):
            print(f"{(kernel.start - runs[-1][0].start) / 1000:9.1f} us +{mean:6.2f}  {kernel.name} {kernel.grid} {kernel.threads}")
        return
    kinds = collections.defaultdict(list)
    for kernel, mean in zip(runs[-1], means):
        kinds[kernel.name, kernel.grid, kernel.threads].append(mean)
    for kind, values in sorted(kinds.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(values):9.1f} us = {len(values):5d} x {sum(values) / len(values):6.2f}  {' '.join(kind)}")


main()

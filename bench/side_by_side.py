"""What both comparisons share: running a program, describing the machine, keeping the raw rows."""

import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def run(command):
    """Milliseconds of a whole process, and what it printed; ends this one if it failed."""
    started = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True)
    elapsed = 1e3 * (time.perf_counter() - started)
    if finished.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {finished.stderr.strip()}")
    return elapsed, finished.stdout


def answer(command):
    """What a program printed as JSON."""
    return json.loads(run(command)[1])


def dtypes(nowcast, model):
    """The dtypes in which this program multiplies on this machine."""
    names = ["f32", "bf16", "int8"]
    probe = [nowcast, "inspect", model, "--device", "cpu", "--json", "--dtype"]
    return [name for name in names if subprocess.run([*probe, name], capture_output=True).returncode == 0]


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def versions(nowcast, *packages):
    """Of the program, of Python and of packages."""
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"nowcast": run([nowcast, "--version"])[1].split()[-1], "python": platform.python_version(), **found}


def medians(rows, names):
    """Of every named column that the rows have."""
    present = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: statistics.median(values) for name, values in present.items() if values}


def write(name, out, versions, **more):
    """Prints a result and keeps it in a dated file."""
    today = datetime.date.today().isoformat()
    result = {
        "date": today,
        "command": shlex.join(["python3", *sys.argv]),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
        **more,
    }
    text = json.dumps(result, indent=1) + "\n"
    path = Path(out) if out else RESULTS / f"{today}-{name}.json"
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text)
    unfinished.rename(path)
    print(text)
    print(f"written to {path}", file=sys.stderr)

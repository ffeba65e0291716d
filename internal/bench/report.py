"""What the programs beside this one share: they say what they measured in lines of JSON.

A line is about a GPU, a pair of GPUs, or all of them. Each goes to stdout and to the file from
which Kubernetes takes a container's last words, of which it keeps 4096 bytes.
"""
import json
import os
import subprocess
import sys

MOST = 4096
LOG = os.environ.get("BENCH_LOG", "/dev/termination-log")

# CUDA numbers GPUs as nvidia-smi does, by PCI address, and not the fastest first.
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

FULL = "the GPU's memory is full: another program uses it, and nvidia-smi on the node names it"
# NVIDIA's plugin sets this in pods that share a GPU by MPS, where one program's fault ends all.
SHARED = "CUDA_MPS_PIPE_DIRECTORY" in os.environ

lines = []


def say(**line):
    """Keeps a line for finish. Numbers have four digits, so that many GPUs have room."""
    values = line.get("values")
    if values:
        line["values"] = {name: float("%.4g" % value) for name, value in values.items()}
    if SHARED and line.get("error", FULL) != FULL and "gpu" in line:
        line["error"] += "; the GPU is shared by MPS, so that it may be the fault of another pod's program: verify again while nobody else computes"
    lines.append(json.dumps(line, separators=(",", ":"), allow_nan=False))


def why(problem):
    """The first line of what a library says: the rest is advice for programmers."""
    text = str(problem).strip() or type(problem).__name__
    if "out of memory" in text:
        return FULL
    return text.splitlines()[0][:200]


def fail(text):
    """Says what went wrong, and ends."""
    say(error=str(text)[:300])
    finish()
    sys.exit(1)


def finish():
    """Writes the lines, and leaves out the last ones if they are too many."""
    room = MOST
    with open(LOG, "a", encoding="utf-8") as log:
        for line in lines:
            room -= len(line.encode()) + 1
            if room < 0:
                break
            print(line, flush=True)
            log.write(line + "\n")
    lines.clear()


def smi(fields):
    """Asks nvidia-smi for fields of every GPU, in the order of their PCI addresses."""
    out = subprocess.run(
        ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits"],
        capture_output=True, text=True, timeout=60, check=False)
    if out.returncode != 0:
        raise RuntimeError("nvidia-smi: " + (out.stdout + out.stderr).strip())
    return [[word.strip() for word in row.split(",")] for row in out.stdout.splitlines() if row.strip()]


def number(text):
    """The number in a field of nvidia-smi; 0 for those that a card does not have."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def gpus(expected):
    """What every GPU is, as the start of its line. Fails if there are not as many as expected."""
    try:
        found = [
            {"gpu": i, "uuid": uuid, "model": name, "driver": driver, "memory": int(number(memory))}
            for i, (uuid, name, driver, memory) in enumerate(smi("uuid,name,driver_version,memory.total"))]
    except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as problem:
        fail(problem)
    if len(found) != expected:
        fail("nvidia-smi sees %d GPUs, expected %d" % (len(found), expected))
    return found

# ===- rounds.py - Programs that are timed in turn -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the benchmarks share: programs that run one round when asked, so that
several can be timed in turn in one sitting, and how figures are printed."""

import concurrent.futures
import json
import math
import mmap
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fail(message):
    sys.exit(f"bench/{pathlib.Path(sys.argv[0]).name}: error: {message}")


class Served:
    """A program that runs as many rounds as a line on its input says, and
    answers each with a line of JSON; `about` is what it said beforehand."""

    def __init__(self, command, environment=None):
        command = [str(part) for part in command]
        self._name = " ".join(command[:2])
        self._errors = tempfile.TemporaryFile(mode="w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self.about = {}
        while "ready" not in self.about:
            self.about.update(self._read())

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            sys.stderr.write(self._errors.read())
            fail(f"{self._name} ended early")
        return json.loads(line)

    def round(self):
        self._process.stdin.write("1\n")
        self._process.stdin.flush()
        return self._read()

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def ours_environment():
    """As optimus-run sets it; programs that link OpenMP read it at once."""
    environment = dict(os.environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "500")
    return environment


def run(command, **arguments):
    """Standard output of a program that must succeed."""
    command = [str(part) for part in command]
    result = subprocess.run(command, capture_output=True, text=True, **arguments)
    if result.returncode != 0:
        fail(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def build_model(path, tree=ROOT, **sizes):
    """Writes the text IR of a GPT-2 with these --layers, --hidden, ..., as the
    builder of a tree does."""
    command = [sys.executable, "-m", "optimus.models", "gpt2", "-o", path]
    for name, value in sizes.items():
        command += [f"--{name}", value]
    run(command, env=dict(os.environ, PYTHONPATH=str(tree / "python")))


def scratch_rates(folder, direct=getattr(os, "O_DIRECT", 0), rounds=5):
    """Bytes a second that one thread reads from a file of a folder while another one
    writes to it, past the cache and from huge pages, as a step does both: the
    medians of rounds."""

    piece, count = 8 << 20, 32
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        descriptor = os.open(file.name, os.O_RDWR | direct)
        os.posix_fallocate(descriptor, 0, 2 * piece * count)

        def rate(move, first, memory):
            begin = time.monotonic()
            for number in range(count):
                move(descriptor, [memory], (first + number) * piece)
            return piece * count / (time.monotonic() - begin)

        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        memories = [mmap.mmap(-1, piece, flags=private) for _ in range(2)]
        for memory in memories:
            memory.madvise(mmap.MADV_HUGEPAGE)
            memory.write(os.urandom(piece))
        # What was never written reads as zeros, and is written more slowly.
        for first in (0, count):
            rate(os.pwritev, first, memories[0])
        measured = []
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            for _ in range(rounds):
                sides = zip((os.preadv, os.pwritev), (0, count), memories)
                begun = [threads.submit(rate, *side) for side in sides]
                measured.append([each.result() for each in begun])
        os.close(descriptor)
    read, written = (statistics.median(each) for each in zip(*measured))
    return read, written


def spread(values, digits=1):
    values = sorted(values)
    return (
        f"{statistics.median(values):.{digits}f} "
        f"({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
    )


def interval(values, confidence=0.95):
    """The narrowest symmetric pair of order statistics around the median."""
    values, count = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < count // 2:
        tail += math.comb(count, below) / 2**count
        if 2 * tail > 1 - confidence:
            break
        below += 1
    below = max(below - 1, 0)
    return values[below], values[count - 1 - below]


def machine():
    """What of this machine the figures depend on."""
    model, flags = platform.machine(), ""
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                model = value.strip()
            elif key.strip() == "flags":
                flags = value.split()
    known = ["avx2", "avx512f", "avx512_bf16", "amx_bf16"]
    return (
        f"{model}, {os.cpu_count()} cores, "
        f"{' '.join(flag for flag in known if flag in flags)}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def replace_block(path, name, text):
    """Replaces what stands between the comments <!-- NAME --> and
    <!-- /NAME --> of a page."""
    page = pathlib.Path(path).read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        fail(f"{path}: expected the lines {begin} and {end}")
    page = f"{before}{begin}\n{text}\n{end}{after}"
    pathlib.Path(path).write_text(page, encoding="utf-8")

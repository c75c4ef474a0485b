# ===- harness.py - What the benchmarks share ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the benchmarks of suite/ share: models and programs, runs that take
turns, and how figures are printed and kept."""

import concurrent.futures
import contextlib
import itertools
import json
import math
import mmap
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Nothing is measured for a report's times beside what is timed.
os.environ.setdefault("OPTIMUS_MACHINE_CACHE", "none")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def fail(message):
    script = os.path.relpath(sys.argv[0], ROOT)
    raise SystemExit(f"{script}: error: {message}")


# ---------------------------------------------------------------------- programs


def run(command, check=True, **arguments):
    """Standard output of a program that must succeed; without `check` how it
    ended."""
    command = [str(part) for part in command]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, **arguments)
    if not check:
        return result
    if result.returncode != 0:
        fail(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def processor_seconds(work):
    """The processor time of a piece of work, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Tools:
    """The programs of a build tree."""

    def __init__(self, build=ROOT / "build", tree=ROOT):
        self.binaries, self.tree = pathlib.Path(build) / "bin", tree

    def path(self, name):
        return self.binaries / f"optimus-{name}"

    def build_model(self, path, *arguments, **sizes):
        """Writes the text IR of a model: a GPT-2 with these --layers, --hidden,
        ..., or the one that the builder's arguments name."""
        command = [sys.executable, "-m", "optimus.models", *(arguments or ["gpt2"])]
        for name, value in sizes.items():
            command += [f"--{name}", value]
        environment = dict(os.environ, PYTHONPATH=str(self.tree / "python"))
        run([*command, "-o", path], env=environment)
        return path

    def compile(self, source, output, *flags, **arguments):
        """What optimus-compile prints, or how it ended without `check`."""
        return run([self.path("compile"), source, *flags, "-o", output], **arguments)

    def train(self, library, data, log, *flags, launch=(), **arguments):
        """Trains, and returns the steps of the log."""
        log.unlink(missing_ok=True)
        run([*launch, self.path("run"), "train", library, "--data", data,
             "--log-json", log, *flags], **arguments)
        return read_log(log)

    def bench(self, library, *flags):
        """What `optimus-run bench` says of a library's steps."""
        return json.loads(run([self.path("run"), "bench", library, "--json", *flags]))

    def inspect(self, library):
        return json.loads(run([self.path("run"), "inspect", library, "--json"]))


def read_log(path):
    """The lines of a training run's log, one for each step."""
    lines = map(json.loads, path.read_text().splitlines())
    return [line for line in lines if "loss" in line]


def write_text(path, size=20_000):
    """Tokens to train on: no two windows of them are alike."""
    path.write_bytes(bytes(i * i % 251 for i in range(size)))
    return path


def write_license(path):
    """The same as a text that people wrote."""
    path.write_bytes((ROOT / "LICENSE").read_bytes())
    return path


def known_strategy(result, left_out):
    """Whether a compiler that ended knows the strategy; says once of each message
    that it does not."""
    if result.returncode == 0:
        return True
    message = result.stderr.strip()
    if "unknown strategy" not in message:
        fail(message)
    if message not in left_out:
        print(f"left out: {message}", file=sys.stderr)
    left_out.add(message)
    return False


def peer_python(python=None):
    """A Python with the peers' packages, which are installed where none is named."""
    return python or run([ROOT / "bench/peers/setup"]).split()[-1]


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            fail(f"{program} is not installed (Debian: openmpi-bin, libopenmpi-dev, "
                 "iproute2)")


# ------------------------------------------------------------------------ layouts

# Small models with dimensions divided or padded by meshes, and the flags for all of
# them.
SMALL = "--layers 2 --hidden 24 --heads 6 --seq 16 --batch 6"
SMALL_MODELS = {
    "gpt2": f"gpt2 {SMALL} --dropout 0.1",
    "bert": f"bert {SMALL} --ffn 50 --dropout 0.1",
    "llama": f"llama {SMALL} --kv-heads 3 --ffn 50",
}
STRATEGIES = ("summa", "summa-paper", "megatron", "megatron-sp")


def layouts(shapes):
    """(mesh, strategy) of every strategy on shapes of (rows, columns), and of those
    with an axis of data."""
    meshes = [f"row:{rows},col:{columns}" for rows, columns in shapes]
    meshes.append("data:2,row:2,col:2")
    return [*itertools.product(meshes, STRATEGIES), ("data:4", "data")]


# ------------------------------------------------------------------------- rounds


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


def serve_steps(tools, library, *flags):
    """Our training steps as a program that is served. The environment is what
    optimus-run sets where a pause takes 40 ns; programs that link OpenMP read it at once."""
    environment = dict(os.environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "500")
    return Served([tools.path("bench-step"), library, *flags], environment)


def take_turns(jobs, rounds, warmup=0):
    """Calls every job of a dictionary once a round, and yields the number of the
    round, from 1, with what each returned, by name. Every other round begins with
    the last: what comes late in one is early in the next. Those up to the warm-up
    are not yielded."""
    for number in range(1 - warmup, rounds + 1):
        order = list(jobs)[:: -1 if number % 2 else 1]
        found = {name: jobs[name]() for name in order}
        if number > 0:
            yield number, {name: found[name] for name in jobs}


class Ratios:
    """How many times as long something takes, from pairs of the same rounds."""

    def __init__(self, pairs):
        self.values = [after / before for before, after in pairs]
        self.median = statistics.median(self.values)
        self.low, self.high = interval(self.values)

    def __str__(self):
        return f"{self.median:.4f} times as long ({self.low:.4f} to {self.high:.4f})"


def interval(values, confidence=0.95):
    """The narrowest symmetric pair of order statistics around the median. It covers
    the true median with that probability, whatever the distribution."""
    values, count = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < count // 2:
        tail += math.comb(count, below) / 2**count
        if 2 * tail > 1 - confidence:
            break
        below += 1
    below = max(below - 1, 0)
    return values[below], values[count - 1 - below]


# -------------------------------------------------------------------- the machine


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


# ------------------------------------------------------------------------ results


def spread(values, digits=1):
    values = sorted(values)
    return (
        f"{statistics.median(values):.{digits}f} "
        f"({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
    )


def table(header, rows):
    """In Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


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


# ------------------------------------------------------------------ command lines


def words(text):
    return text.split(",")


def integers(text):
    return [int(part) for part in text.split(",") if part != "none"]


def one_of(known):
    """Names of some, with commas between; or none."""

    def read(text):
        names = [] if text == "none" else text.split(",")
        for name in names:
            if name not in known:
                fail(f"expected some of {', '.join(known)}, found {name}")
        return names

    return read


@contextlib.contextmanager
def scratch_folder(path=None):
    """A folder: a temporary one, or a permanent one at `path`."""
    with tempfile.TemporaryDirectory(prefix="optimus-bench-") as name:
        folder = pathlib.Path(path or name)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder

# ===- stall - What a slow disk costs a step --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A GPT-2 trains from a disk with throttled reading, beside the prediction of `optimus-run
bench --data`. The throttle is Linux's (cgroup v1, the controller blkio), and nothing of
the store is in memory. Without a throttle it trains in turns with the data in memory:

    bench/run stall                              # as root
    bench/run stall --rates 2 8 --write docs/optimus-run.md

A step's time under a throttle is the mean, without one the median. It fails where a
step takes 10 % more or less than predicted, or where the disk without a throttle
costs 1 % by all of the interval (95 %) around the median of the pairs.
"""

import json
import os
import pathlib
import statistics
import sys

from harness import ROOT, Ratios, fail, run, table, take_turns

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(megabytes=256, steps=60, rounds=9)
MODELS = {"short": dict(layers=1, hidden=32, heads=2), "long": dict(layers=2, hidden=64, heads=4)}
"""A short step waits for a throttled disk, a long one does not wait for the disk as it is."""
DATA = dict(seq=128, vocab=256, batch=32)
MOST_ERROR, MOST_STALL = 0.1, 0.01
BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")
FIRST = 5
"""Steps that are not counted: the first ones find their programs cold."""


def options(parser):
    parser.add_argument("--rates", nargs="+", type=float, default=[0.5, 1, 2],
                        help="of reading, in MB/s")


class Throttle:
    """A control group whose programs read from a folder's disk at a rate."""

    def __init__(self, folder):
        device = folder.stat().st_dev
        block = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        # Throttles are of whole disks.
        disk = block.parent if (block / "partition").exists() else block
        if not (disk / "dev").exists() or not os.access(BLKIO, os.W_OK):
            fail("stall needs a disk, and to be root with the controller blkio of cgroup v1")
        self._disk = (disk / "dev").read_text().strip()
        self._group = BLKIO / f"optimus-bench-{os.getpid()}"

    def __enter__(self):
        self._group.mkdir()
        return self

    def __exit__(self, *_):
        self._group.rmdir()

    def set(self, rate):
        """In MB/s."""
        limit = self._group / "blkio.throttle.read_bps_device"
        limit.write_text(f"{self._disk} {int(rate * 1e6)}")

    @property
    def launch(self):
        """Before a command that is to run in the group."""
        enter = f'echo $$ >{self._group}/cgroup.procs && exec "$@"'
        return ["sh", "-c", enter, "sh"]


def forget(store):
    """Has the system keep nothing of a store in memory."""
    os.sync()
    for path in store.rglob("*.*"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_store(folder, megabytes):
    text, store = folder / "text.bin", folder / "store"
    with open(text, "wb") as file:
        for _ in range(megabytes):
            file.write(os.urandom(1_000_000))
    run([sys.executable, "-m", "optimus.data", "prepare", text, "--tokenizer", "bytes",
         "--held-out", 0, "-o", store], env=dict(os.environ, PYTHONPATH=str(ROOT / "python")))
    text.unlink()
    return store


def main(options, tools, folder):
    libraries = {name: folder / f"{name}.so" for name in MODELS}
    for name, library in libraries.items():
        program = tools.build_model(folder / f"{name}.mlir", **MODELS[name], **DATA)
        tools.compile(program, library)
    store = make_store(folder, options.megabytes)

    def steps(name, launch=()):
        """The milliseconds of each step of training."""
        log = tools.train(libraries[name], store, folder / "log", "--threads-per-rank", 1,
                          "--steps", FIRST + options.steps, launch=launch)
        return [line["ms"] for line in log[FIRST:]]

    def cold():
        forget(store)
        return statistics.median(steps("long"))

    rows, mistakes = [], []
    with Throttle(folder) as throttle:
        for rate in options.rates:
            throttle.set(rate)
            command = [*throttle.launch, tools.path("run"), "bench", libraries["short"],
                       "--data", store]
            bench = json.loads(run([*command, "--threads-per-rank", 1, "--json"]))
            data = bench["data"]
            predicted = data["predicted"][0]
            forget(store)
            measured = statistics.mean(steps("short", throttle.launch))
            error = measured / predicted["step_ms"] - 1
            rows.append([f"{rate:g}", f"{bench['ms']['median']:.1f}",
                         f"{data['fetch_cold_ms']:.1f}", f"{100 * predicted['stall']:.0f} %",
                         f"{predicted['step_ms']:.1f}", f"{measured:.1f}", f"{100 * error:+.1f} %"])
            if abs(error) > MOST_ERROR:
                mistakes.append(f"at {rate:g} MB/s a step takes {100 * error:+.1f} % of the "
                                "prediction")
    jobs = {"warm": lambda: statistics.median(steps("long")), "cold": cold}
    pairs = [(found["warm"], found["cold"])
             for _, found in take_turns(jobs, options.rounds, warmup=1)]
    ratios = Ratios(pairs)
    if ratios.low > 1 + MOST_STALL:
        mistakes.append(f"without a throttle, with nothing in memory, a step takes {ratios}")
    header = ["MB/s", "step on random tokens, ms", "a batch from the disk, ms",
              "stall predicted", "step predicted, ms", "step in training, ms", "difference"]
    text = table(header, rows)
    text += (f"\n\nWithout a throttle, with nothing in memory, a step takes {ratios}, in "
             f"{options.rounds} pairs.")
    return {"stall": text}, mistakes

# ===- stall - What a slow disk costs a step --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A GPT-2 trains on a store of English verses from a disk with throttled reading, beside
the prediction of `optimus-run bench --data`. The throttle is Linux's (cgroup v1, the
controller blkio), and nothing of the store is in memory. Without a throttle it trains in
turns with the data on the disk, cold, and in memory, warm:

    bench/run stall                              # as root
    bench/run stall --rates 2 8 --write docs/optimus-run.md

A step's time under a throttle is the mean. Without one, the time that steps wait for data
is known by their log: where a step still runs when its successor's batch is there, it
waits for none; else at most for as long as the batch took. It fails where a step takes
10 % more or less than predicted, or where steps without a throttle wait for 1 % of their
time, cold or warm. Other programs lengthen steps; the wait is of the same steps.
"""

import json
import os
import pathlib
import statistics
import sys

from harness import ROOT, Ratios, fail, machine, run, table, take_turns

from suite.prepare import write_corpus

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(megabytes=256, steps=60, rounds=9, verses=25)
MODELS = {"short": dict(layers=1, hidden=32, heads=2), "long": dict(layers=2, hidden=64, heads=4)}
"""A short step waits for a throttled disk, a long one does not wait for the disk as it is."""
DATA = dict(seq=128, vocab=256, batch=32)
MOST_ERROR, MOST_STALL = 0.1, 0.01
BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")
FIRST = 5
"""Steps that are not counted: the first ones find their programs cold."""
SPARE_MS = 0.05
"""A step that ends later than this after its successor's batch was read waits for none."""


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


def make_store(folder, megabytes, verses):
    text, store = folder / "text.txt", folder / "store"
    write_corpus(text, megabytes, verses)
    run([sys.executable, "-m", "optimus.data", "prepare", text, "--tokenizer", "bytes",
         "--documents", "blank", "-o", store],
        env=dict(os.environ, PYTHONPATH=str(ROOT / "python")))
    text.unlink()
    return store


def waited(steps):
    """The most milliseconds that steps of a log have waited for data."""
    return sum(step["data_ms"] for step in steps if step["data_spare_ms"] < SPARE_MS)


def main(options, tools, folder):
    libraries = {name: folder / f"{name}.so" for name in MODELS}
    for name, library in libraries.items():
        program = tools.build_model(folder / f"{name}.mlir", **MODELS[name], **DATA)
        tools.compile(program, library)
    store = make_store(folder, options.megabytes, options.verses)

    def steps(name, launch=()):
        """The log of each step of training."""
        log = tools.train(libraries[name], store, folder / "log", "--threads-per-rank", 1,
                          "--steps", FIRST + options.steps, launch=launch)
        return log[FIRST:]

    def milliseconds(log):
        return [step["ms"] for step in log]

    def cold():
        forget(store)
        return steps("long")

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
            measured = statistics.mean(milliseconds(steps("short", throttle.launch)))
            error = measured / predicted["step_ms"] - 1
            rows.append([f"{rate:g}", f"{bench['ms']['median']:.1f}",
                         f"{data['fetch_cold_ms']:.1f}", f"{100 * predicted['stall']:.0f} %",
                         f"{predicted['step_ms']:.1f}", f"{measured:.1f}", f"{100 * error:+.1f} %"])
            if abs(error) > MOST_ERROR:
                mistakes.append(f"at {rate:g} MB/s a step takes {100 * error:+.1f} % of the "
                                "prediction")
    jobs = {"warm": lambda: steps("long"), "cold": cold}
    rounds = [found for _, found in take_turns(jobs, options.rounds, warmup=1)]
    ratios = Ratios([(statistics.median(milliseconds(found["warm"])),
                      statistics.median(milliseconds(found["cold"]))) for found in rounds])
    waits = []
    for name in jobs:
        taken = [step for found in rounds for step in found[name]]
        batch = statistics.median(step["data_ms"] for step in taken)
        step = statistics.median(milliseconds(taken))
        stall = waited(taken) / sum(milliseconds(taken))
        waits.append([name, f"{step:.1f}", f"{batch:.2f}", f"{100 * stall:.3f} %"])
        if stall > MOST_STALL:
            mistakes.append(f"without a throttle, {name}, steps wait for data for "
                            f"{100 * stall:.1f} % of their time")
    header = ["MB/s", "step on random tokens, ms", "a batch from the disk, ms",
              "stall predicted", "step predicted, ms", "step in training, ms", "difference"]
    about = f"A store of {options.megabytes} MB of verses, a byte a token; {machine()}."
    alone = table(["without a throttle", "step, ms", "its successor's batch, ms",
                   "waiting for data, at most"], waits)
    text = (f"{about}\n\n{table(header, rows)}\n\n{alone}\n\nA step takes {ratios} with "
            f"nothing in memory, in {options.rounds} pairs.")
    return {"stall": text}, mistakes

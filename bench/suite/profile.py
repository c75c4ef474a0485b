# ===- profile - What it costs to record when commands take place ---------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Times training steps with and without `optimus-run train --profile`.

    bench/run profile
    bench/run profile --rounds 40 --only mesh

A round is one run, of which one half of the steps is recorded: the second half in every
other round, so that a slowing machine counts for neither. Its ratio is that of the two
halves' median steps. Printed are the median over rounds, an interval with 95 %
probability for the true one, and the cost of a command. Exits with 1 where the interval
lies above --within.

How long a step takes depends on what else the machine does; what processors
spend on recording hardly does. So each round has two more runs, of which one
records all steps and the other one a single one: the last figure is the
difference of their processor time, writing included, per command.
"""

import contextlib
import sqlite3
import statistics

from harness import Ratios, machine, processor_seconds, spread, write_text

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(rounds=20)
SIZES = {"layers": 4, "hidden": 256, "heads": 4, "seq": 128, "batch": 8, "vocab": 256}
SMALL = {"layers": 2, "hidden": 64, "heads": 2, "seq": 32, "batch": 4, "vocab": 256}
MESH = ["--mesh=row:2,col:2", "--strategy=summa"]
# What is timed: sizes, flags of the compiler, threads of a rank.
CASES = {
    "serial": (SIZES, [], 2),
    "mesh 2x2": (SIZES, MESH, 1),
    "serial, small": (SMALL, [], 1),
    "mesh 2x2, small": (SMALL, MESH, 1),
}
WARMUP = 3


def options(parser):
    parser.add_argument("--steps", type=int, default=20, help="of a half")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--within", type=float, default=2, help="in %%, default 2")


class Recorded:
    """A compiled model that is trained with a profile."""

    def __init__(self, tools, folder, sizes, flags, threads):
        self._tools, self._folder, self._threads = tools, folder, threads
        self._library, self._profile = folder / "gpt.so", folder / "run.profile"
        tools.compile(tools.build_model(folder / "gpt.mlir", **sizes), self._library, *flags)
        self._data = write_text(folder / "text.txt")

    def _train(self, steps, threads, first, last):
        return self._tools.train(
            self._library, self._data, self._folder / "log", "--steps", steps,
            "--threads-per-rank", threads, "--profile", self._profile,
            "--profile-steps", f"{first}:{last}")

    def measure(self, steps, first_half):
        """The milliseconds of steps without and with, and commands of a step."""
        first = WARMUP + 1 if first_half else WARMUP + steps + 1
        recorded = range(first, first + steps)
        lines = self._train(WARMUP + 2 * steps, self._threads, recorded[0], recorded[-1])
        halves = [[line["ms"] for line in lines[WARMUP:]
                   if (line["step"] in recorded) == half] for half in (False, True)]
        with contextlib.closing(sqlite3.connect(self._profile)) as database:
            [(commands,)] = database.execute("SELECT count(*) FROM times")
        return *map(statistics.median, halves), commands / steps

    def measure_processor(self, steps, commands, first_recorded):
        """The microseconds of processor time that recording a command takes."""
        seconds = {}
        for records in (first_recorded, not first_recorded):
            seconds[records] = processor_seconds(
                lambda: self._train(steps, 1, 1, steps if records else 1))
        return 1e6 * (seconds[True] - seconds[False]) / (commands * (steps - 1))


def main(options, tools, folder):
    print(machine())
    bad = []
    for case, (sizes, flags, threads) in CASES.items():
        if options.only not in case:
            continue
        model = Recorded(tools, folder, sizes, flags, threads)
        times, costs, processor = [], [], []
        for number in range(options.rounds):
            off, on, commands = model.measure(options.steps, number % 2 == 0)
            times.append((off, on))
            costs.append(1e3 * (on - off) / commands)
            processor.append(model.measure_processor(
                10 * options.steps, commands, number % 2 == 0))
        ratios = Ratios(times)
        good = ratios.low <= 1 + options.within / 100
        if not good:
            bad.append(f"{case}: not within {options.within:g} %")
        without, recorded = zip(*times)
        print(f"{case}: without {spread(without, 2)} ms, recorded "
              f"{spread(recorded, 2)} ms; {len(times)} rounds, {ratios}"
              f"{'' if good else ': NOT within'}; {commands:.0f} commands a step, "
              f"{statistics.median(costs):.2f} us each, "
              f"{statistics.median(processor):.2f} us of processor time", flush=True)
    return None, bad

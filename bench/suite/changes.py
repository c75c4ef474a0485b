# ===- changes - Predicted changes beside real ones ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Predicts by how much a change makes a step longer or shorter, then makes the change.

    bench/run changes
    bench/run changes --folder /tmp/changes --rounds 1
    bench/run changes --folder /tmp/changes --rounds 0

In a round the machine is measured first; then the programs before and after each change
are trained one after the other, so that a slow moment of the machine counts for both. A
change is predicted by the ratio of two simulations with what was measured of the machine,
the real one is the median of the rounds' ratios. With --folder measurements and libraries
stay, and the next call adds its rounds to them. The changes are listed here and none is
left out. It fails where more than a sixth of them are beyond --points from the real
change, or where one has the wrong sign: of those larger than the spread of the rounds.
"""

import functools
import statistics
import typing

from harness import fail, table
from suite import simulate
from suite.simulate import CASES, DEEP, MESHES, WIDE, Case, Sitting

TARGETS = simulate.TARGETS
NUMBERS = dict(rounds=3, steps=5, points=5.0)
options = simulate.options

MORE = {
    "serial, wide, state offloaded": Case(WIDE, flags="--offload state"),
    "summa 2×2, wide, moved whole": Case(WIDE, *MESHES["summa 2×2"], "--move whole"),
    "serial, deep, 2 microbatches": Case(DEEP, microbatches=2),
}


class Change(typing.NamedTuple):
    before: str
    after: str


CHANGES = {
    "no overlap": Change("summa 2×2, wide", "summa 2×2, wide, no overlap"),
    "no overlap, data": Change("data 4, wide", "data 4, wide, no overlap"),
    "products moved whole": Change("summa 2×2, wide", "summa 2×2, wide, moved whole"),
    "recompute": Change("serial, deep", "serial, deep, recomputed"),
    "bf16": Change("serial, wide", "serial, wide, bf16"),
    "bf16, four ranks": Change("summa 2×2, wide", "summa 2×2, wide, bf16"),
    "4 microbatches": Change("serial, wide", "serial, wide, 4 microbatches"),
    "4 microbatches, four ranks": Change(
        "summa 2×2, wide", "summa 2×2, wide, 4 microbatches"),
    "2 microbatches": Change("serial, deep", "serial, deep, 2 microbatches"),
    "another mesh": Change("summa 2×2, wide", "megatron 1×4, wide"),
    "data in place of summa": Change("summa 2×2, wide", "data 4, wide"),
    "summa in place of summa-paper": Change("summa-paper 2×2, wide", "summa 2×2, wide"),
    "two ranks in place of two threads": Change("serial, long", "data 2, long"),
    "state offloaded": Change("serial, wide", "serial, wide, state offloaded"),
    "TCP in place of threads": Change("summa 2×2, wide", "summa 2×2, wide, tcp"),
    "MPI in place of threads": Change("data 4, wide", "data 4, wide, mpi"),
    "MPI in place of TCP": Change("data 2, deep, tcp", "data 2, deep, mpi"),
    "gathers behind the next step": Change("data 4, wide", "data 4, wide, sync(next)"),
}


class Pairs(Sitting):
    """Measures the programs of changes in turn."""

    def __init__(self, tools, folder, steps, changes):
        names = {name for change in changes.values() for name in change}
        super().__init__(tools, folder, steps, {
            name: case for name, case in {**CASES, **MORE}.items() if name in names})
        self.changes = changes

    def programs(self):
        return {f"{change}: {program}": functools.partial(self.measure, program)
                for change, pair in self.changes.items() for program in pair}

    def ratios(self, change):
        """Of each round."""
        before, after = (self.rounds.programs[f"{change}: {program}"]
                         for program in self.changes[change])
        return [late / early for early, late in zip(before, after)]


def percent(ratio):
    return 100 * (ratio - 1)


def main(options, tools, folder):
    changes = {name: change for name, change in CHANGES.items() if options.only in name}
    if not changes:
        fail(f"no change's name contains {options.only!r}")
    pairs = Pairs(tools, folder, options.steps, changes)
    pairs.measure_rounds(options.rounds)
    simulated = {name: pairs.simulate(name)["step_ms"] for name in pairs.cases}
    rows, off, wrong = [], [], []
    for name, (before, after) in changes.items():
        ratios = pairs.ratios(name)
        real = percent(statistics.median(ratios))
        predicted = percent(simulated[after] / simulated[before])
        spread = 100 * statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        off.append(abs(predicted - real))
        if abs(real) > spread and real * predicted < 0:
            wrong.append(f"{name}: expected the sign of the real change, {real:+.1f} %, "
                         f"found {predicted:+.1f} %")
        rows.append([name, f"{real:+.1f} ± {spread:.1f} %", f"{predicted:+.1f} %",
                     f"{off[-1]:.1f}"])
    within = sum(one <= options.points for one in off)
    text = (f"{pairs.rounds.describe()}; {within} of {len(rows)} changes within "
            f"{options.points:g} points of the real one, the median "
            f"{statistics.median(off):.1f} off, {len(wrong)} of the wrong sign\n\n"
            + table(["change", "real", "predicted", "points off"], rows))
    if 6 * within < 5 * len(rows):
        wrong.append(f"expected five sixths of the changes within {options.points:g} "
                     f"points, found {within} of {len(rows)}")
    return {"changes": text}, wrong

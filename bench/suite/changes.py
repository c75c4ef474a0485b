# ===- changes - Predicted changes beside real ones ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Predicts by how much a change makes a step longer or shorter, then makes the change.

    bench/run changes                             # as root; needs iproute2, OpenMPI
    bench/run changes --folder /tmp/changes --rounds 1
    bench/run changes --folder /tmp/changes --rounds 0

In a round the machine is measured first; then the programs before and after each change
are trained one after the other, so that a slow moment of the machine counts for both, and
each program from before once more with --profile. The real change is the median of the
rounds' ratios. It is predicted by the ratio of two simulations: by the profile from before
(--run) where this meets the program before to two per cent and knows nine tenths of the
time of the changed one, else by measurements of the machine. Both are shown, and
which one counts follows from simulations alone. With --folder measurements and libraries
stay, and the next call adds its rounds to them. The changes are listed here and none is
left out. It fails where more than a sixth of them are beyond --points from the real
change, or where one has the wrong sign: of those larger than the spread of the rounds.

A second table has the programs from before, unchanged, simulated by their own profiles.
"""

import contextlib
import functools
import os
import pathlib
import statistics
import typing

from harness import fail, table
from measured import run_ranks
from ranks import start_ranks
from suite import simulate
from suite.simulate import CASES, DEEP, MESHES, WIDE, Case, Sitting

TARGETS = [*simulate.TARGETS, "optimus_ccl_mpi"]
NUMBERS = dict(rounds=3, steps=5, points=5.0)
options = simulate.options

CPU = pathlib.Path("/sys/fs/cgroup/cpu")
# Of a changed program's time a run must know so much, and meet the program before.
LEAST_KNOWN = 0.9
MOST_ERROR = 2.0
# Its ranks have no precedence, and of a core so much by a quota, by rank.
QUOTAS = {"data 2, deep, tcp, as others": {},
          "data 2, deep, tcp, half a core for rank 1": {1: 0.5}}
MORE = {
    "serial, wide, state offloaded": Case(WIDE, flags="--offload state"),
    "summa 2×2, wide, moved whole": Case(WIDE, *MESHES["summa 2×2"], "--move whole"),
    "serial, deep, 2 microbatches": Case(DEEP, microbatches=2),
    "summa 2×2, wide, hosts": Case(WIDE, *MESHES["summa 2×2"], backend="hosts 2000"),
    "summa 2×2, wide, hosts of half the rate": Case(
        WIDE, *MESHES["summa 2×2"], backend="hosts 1000"),
    **{name: Case(DEEP, "data:2", "data", backend="tcp") for name in QUOTAS},
}


class Change(typing.NamedTuple):
    before: str
    after: str
    # Of a simulation of before, in place of one of after.
    flags: typing.Sequence[str] = ()


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
    "half the rate of links": Change(
        "summa 2×2, wide, hosts", "summa 2×2, wide, hosts of half the rate",
        ("--network", "bandwidth=0.5")),
    "a rank slowed by quota": Change(*QUOTAS, ("--straggler", "1=2")),
}


@contextlib.contextmanager
def quotas(shares):
    """Control groups by rank, whose programs have a share of a core."""
    groups = {rank: CPU / f"optimus-bench-{os.getpid()}-{rank}" for rank in shares}
    try:
        for rank, group in groups.items():
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text("10000")
            (group / "cpu.cfs_quota_us").write_text(str(int(10_000 * shares[rank])))
        yield groups
    finally:
        for group in groups.values():
            group.rmdir()


class Pairs(Sitting):
    """Measures the programs of changes in turn."""

    def __init__(self, tools, folder, steps, changes):
        names = {name for change in changes.values() for name in change[:2]}
        super().__init__(tools, folder, steps, {
            name: case for name, case in {**CASES, **MORE}.items() if name in names})
        self.changes = changes

    def programs(self):
        programs = {f"{change}: {program}": functools.partial(self.measure, program)
                    for change, pair in self.changes.items() for program in pair[:2]}
        for name in self.befores():
            programs[f"profile: {name}"] = functools.partial(self.write_profile, name)
        return programs

    def befores(self):
        return list(dict.fromkeys(change.before for change in self.changes.values()))

    def measure(self, name):
        if name not in QUOTAS:
            return super().measure(name)
        with quotas(QUOTAS[name]) as groups:
            cases = "".join(f"{rank}) echo $$ >{group}/cgroup.procs;; "
                            for rank, group in groups.items())
            enter = f"case $OPTIMUS_RANK in {cases}esac; exec \"$@\""
            return self.measure_with(name, lambda _, ranks, command: [
                process.wait() and fail(f"a rank failed: {command}")
                for process in start_ranks(ranks, ["sh", "-c", enter, "sh", *command])])

    def profile(self, name):
        return self.library(name).with_suffix(".profile")

    def write_profile(self, name):
        """What is written once more: nothing."""
        for old in self.folder.glob(self.profile(name).name + "*"):
            old.unlink()
        return self.measure_with(
            name, run_ranks, "--profile", self.profile(name), "--profile-steps",
            f"3:{self.steps + 2}")

    def ask_run(self, name, before, *flags):
        return self.simulate(name, "--run", self.profile(before), *flags)

    def predict(self, change):
        """The ratio."""
        before, after, flags = change
        return (self.simulate(before if flags else after, *flags)["step_ms"]
                / self.simulate(before)["step_ms"])

    def predict_by_run(self, change):
        """The ratio, or None where the run knows too little."""
        before, after, flags = change
        case, other = self.cases[before], self.cases[after]
        if not flags and (case.mesh, case.backend) != (other.mesh, other.backend):
            return None
        found = self.ask_run(before if flags else after, before, *flags)
        unchanged = self.ask_run(before, before)
        if (found["run"]["measured_ms"] < LEAST_KNOWN * found["run"]["all_ms"]
                or abs(error_of(unchanged["run"])) > MOST_ERROR):
            return None
        return found["step_ms"] / unchanged["step_ms"]

    def ratios(self, change):
        """Of each round."""
        before, after = (self.rounds.programs[f"{change}: {program}"]
                         for program in self.changes[change][:2])
        return [late / early for early, late in zip(before, after)]


def percent(ratio):
    return 100 * (ratio - 1)


def error_of(run):
    """In percent, of the unchanged program by its own profile."""
    return percent(run["unchanged_ms"] / run["step_ms"])


def describe_unchanged(pairs):
    """By its own profile."""
    rows, errors = [], []
    for name in pairs.befores():
        answer = pairs.ask_run(name, name)["run"]
        errors.append(error_of(answer))
        rows.append([name, f"{answer['unchanged_ms']:.1f}", f"{answer['step_ms']:.1f}",
                     f"{errors[-1]:+.1f} %"])
    within = sum(abs(error) <= MOST_ERROR for error in errors)
    return (f"{within} of {len(rows)} within 2 %, of which the answer of each other "
            "begins with its error\n\n"
            + table(["program", "simulated by its run, ms", "its run, ms", "error"], rows))


def main(options, tools, folder):
    changes = {name: change for name, change in CHANGES.items() if options.only in name}
    if not changes:
        fail(f"no change's name contains {options.only!r}")
    pairs = Pairs(tools, folder, options.steps, changes)
    pairs.measure_rounds(options.rounds)
    rows, off, wrong = [], [], []
    for name, change in changes.items():
        ratios = pairs.ratios(name)
        real = percent(statistics.median(ratios))
        by_machine, by_run = pairs.predict(change), pairs.predict_by_run(change)
        predicted = percent(by_run or by_machine)
        spread = 100 * statistics.stdev(ratios) if len(ratios) > 1 else 0.0
        off.append(abs(predicted - real))
        if abs(real) > spread and real * predicted < 0:
            wrong.append(f"{name}: expected the sign of the real change, {real:+.1f} %, "
                         f"found {predicted:+.1f} %")
        rows.append([name, f"{real:+.1f} ± {spread:.1f} %", f"{predicted:+.1f} %",
                     f"{off[-1]:.1f}",
                     f"{percent(by_machine):+.1f} %",
                     f"{percent(by_run):+.1f} %" if by_run else ""])
    within = sum(one <= options.points for one in off)
    text = (f"{pairs.rounds.describe()}; {within} of {len(rows)} changes within "
            f"{options.points:g} points of the real one, the median "
            f"{statistics.median(off):.1f} off, {len(wrong)} of the wrong sign\n\n"
            + table(["change", "real", "predicted", "points off", "by the machine",
                     "by its run"], rows))
    if 6 * within < 5 * len(rows):
        wrong.append(f"expected five sixths of the changes within {options.points:g} "
                     f"points, found {within} of {len(rows)}")
    return {"changes": text, "unchanged": describe_unchanged(pairs)}, wrong

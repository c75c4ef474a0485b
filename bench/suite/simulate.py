# ===- simulate - Simulated steps beside real ones -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Measures this machine, then trains each of a list of programs and simulates the
same library with what was measured, in one sitting.

    bench/run simulate
    bench/run simulate --rounds 1 --only tcp
    bench/run simulate --folder /tmp/simulate --rounds 1
    bench/run simulate --folder /tmp/simulate --rounds 0 --write docs/what-if.md

The cases are listed here and none is left out: threads, TCP and MPI, 1 to 16 ranks,
serial, `data`, `megatron`, `megatron-sp`, `summa` and `summa-paper`, overlap on and off,
f32 and bf16, microbatches, gathers behind the next step. Of a case's steps in a round the
fastest counts, and of those the median; the machine is measured once a round, before the
steps. With --folder measurements and libraries stay, and the next call adds its rounds
to them. It fails where the median error is beyond --median or one beyond --most. Other
work on the machine counts, too: the load stands above the table, and how long the
reference job of scripts/ledger.py took before and after each round.
"""

import functools
import json
import pathlib
import re
import shutil
import statistics
import typing

from harness import fail, read_log, run, table, write_text
from measured import Rounds, run_ranks
from suite.predict import SIZES

TARGETS = ["optimus-compile", "optimus-run", "optimus-simulate"]
NUMBERS = dict(rounds=3, steps=5, median=5.0, most=15.0)


class Case(typing.NamedTuple):
    sizes: str
    mesh: str = "row:1,col:1"
    strategy: str = "serial"
    flags: str = ""
    microbatches: int = 1
    backend: str = "local"

    @property
    def ranks(self):
        count = 1
        for axis in self.mesh.split(","):
            count *= int(axis.split(":")[1])
        return count

    @property
    def threads(self):
        """Of a rank."""
        return 2 if self.ranks == 1 else 1


WIDE, DEEP, LONG = "2 640 10 128 256 8", "8 192 6 128 256 8", "3 256 4 512 256 4"
MESHES = {
    "summa 2×2": ("row:2,col:2", "summa"),
    "summa-paper 2×2": ("row:2,col:2", "summa-paper"),
    "megatron 1×4": ("row:1,col:4", "megatron"),
    "megatron-sp 1×4": ("row:1,col:4", "megatron-sp"),
    "data 4": ("data:4", "data"),
}
CASES = {
    "serial, wide": Case(WIDE),
    "serial, deep": Case(DEEP),
    "serial, long": Case(LONG),
    "serial, wide, bf16": Case(WIDE, flags="--precision bf16"),
    "serial, wide, 4 microbatches": Case(WIDE, microbatches=4),
    "serial, deep, recomputed": Case(DEEP, flags="--recompute layer"),
    **{f"{name}, wide": Case(WIDE, *layout) for name, layout in MESHES.items()},
    **{f"{name}, wide, no overlap": Case(WIDE, *layout, "--schedule none")
       for name, layout in MESHES.items()},
    "summa 2×2, deep": Case(DEEP, *MESHES["summa 2×2"]),
    "summa 2×2, wide, bf16": Case(WIDE, *MESHES["summa 2×2"], "--precision bf16"),
    "summa 2×2, wide, 4 microbatches": Case(WIDE, *MESHES["summa 2×2"], "", 4),
    "data 2, long": Case(LONG, "data:2", "data"),
    "megatron-sp 1×2, long": Case(LONG, "row:1,col:2", "megatron-sp"),
    "summa 4×4, wide": Case("2 640 16 128 256 16", "row:4,col:4", "summa"),
    **{f"{name}, wide, tcp": Case(WIDE, *layout, backend="tcp")
       for name, layout in MESHES.items()},
    "data 2, deep, tcp": Case(DEEP, "data:2", "data", backend="tcp"),
    "summa 3×3, wide": Case("2 576 12 96 252 9", "row:3,col:3", "summa"),
    "data 4, wide, sync(next)": Case(WIDE, *MESHES["data 4"], "--sync sync(next)"),
    "data 2, deep, sync(next), tcp": Case(
        DEEP, "data:2", "data", "--sync sync(next)", backend="tcp"),
    **{f"{name}, wide, mpi": Case(WIDE, *MESHES[name], backend="mpi")
       for name in ("summa 2×2", "data 4")},
    "data 2, deep, mpi": Case(DEEP, "data:2", "data", backend="mpi"),
}


def options(parser):
    parser.add_argument("--only", default="", help="those with this in their names")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps measurements")


class Sitting:
    """Cases by name, of which so many steps are measured in a round."""

    def __init__(self, tools, folder, steps, cases):
        self.tools, self.folder = tools, folder
        self.steps, self.cases = steps, cases
        self.data = write_text(folder / "text.txt", 100_000)
        self.rounds = Rounds(tools, folder)

    def library(self, name):
        return self.folder / (re.sub(r"\W+", "-", name) + ".so")

    def is_compiled(self, name):
        """By this compiler."""
        library, compiler = self.library(name), self.tools.path("compile")
        return library.exists() and library.stat().st_mtime > compiler.stat().st_mtime

    def compile(self, name, *flags):
        case = self.cases[name]
        program = self.folder / "program.mlir"
        sizes = dict(zip(SIZES, case.sizes.split()))
        sizes["batch"] = int(sizes["batch"]) // case.microbatches
        self.tools.build_model(program, **sizes)
        self.tools.compile(
            program, self.library(name), "--mesh", case.mesh, "--strategy", case.strategy,
            "--accumulate", *case.flags.split(), *flags)

    def measure(self, name):
        """The fastest of some steps, in milliseconds."""
        return self.measure_with(name, run_ranks)

    def measure_with(self, name, start, *flags):
        """The same with ranks that `start` starts, as run_ranks() does."""
        case, log = self.cases[name], self.folder / "steps.json"
        log.unlink(missing_ok=True)
        start(case.backend, case.ranks, [
            self.tools.path("run"), "train", self.library(name), "--data", self.data,
            "--steps", self.steps + 2, "--microbatches", case.microbatches,
            "--threads-per-rank", case.threads, "--log-json", log, *flags])
        return min(line["ms"] for line in read_log(log)[2:])

    def measure_rounds(self, count):
        for name in self.cases:
            if not self.is_compiled(name):
                self.compile(name)
        jobs = {(case.backend, case.ranks) for case in self.cases.values()}
        for _ in range(count):
            self.rounds.add(jobs, self.programs())

    def programs(self):
        """By name what measures one in a round."""
        return {name: functools.partial(self.measure, name) for name in self.cases}

    def simulate(self, name, *flags):
        """The answer for the same library, by the measured profile."""
        case = self.cases[name]
        profile = self.rounds.profile(
            self.folder / "of-ranks.json", case.threads, case.backend)
        return json.loads(run(
            [self.tools.path("simulate"), self.library(name), "--machine-profile",
             profile, "--microbatches", case.microbatches, *flags, "--json", "-"]))


def choose(cases, only):
    if shutil.which("chrt") is None:
        print("without chrt: other programs count, too")
    chosen = {name: case for name, case in cases.items() if only in name}
    if not chosen:
        fail(f"no case's name contains {only!r}")
    return chosen


class Comparison(typing.NamedTuple):
    """Errors in percent and milliseconds by the names of cases."""
    errors: dict
    simulated: dict
    measured: dict
    text: str

    def mistakes(self, median, most):
        sizes = [abs(error) for error in self.errors.values()]
        middle, largest = statistics.median(sizes), max(sizes)
        if middle <= median and largest <= most:
            return []
        return [f"expected a median error of {median:g} % and none above {most:g} %, "
                f"found {middle:.1f} % and {largest:.1f} %"]


def compare(sitting):
    rows, widths, inside = [], [], 0
    errors, milliseconds, real = {}, {}, {}
    for name, case in sitting.cases.items():
        measured = statistics.median(sitting.rounds.programs[name])
        answer = sitting.simulate(name, "--interval")
        simulated, interval = answer["step_ms"], answer["interval"]
        low, high = interval["low_ms"], interval["high_ms"]
        milliseconds[name], real[name] = simulated, measured
        errors[name] = 100 * (simulated / measured - 1)
        widths.append(100 * (high - low) / 2 / simulated)
        inside += low <= measured <= high
        rows.append([name, case.ranks, f"{simulated:.1f}", f"{low:.1f} to {high:.1f}",
                     f"{measured:.1f}", f"{errors[name]:+.1f} %"])
    sizes = [abs(error) for error in errors.values()]
    text = (f"{sitting.rounds.describe()}; median error {statistics.median(sizes):.1f} %, "
            f"largest {max(sizes):.1f} %; {inside} of {len(rows)} within their interval, "
            f"of ± {statistics.median(widths):.1f} % in the median\n\n"
            + table(["program", "ranks", "simulated, ms", "90 %, ms", "measured, ms",
                     "error"], rows))
    return Comparison(errors, milliseconds, real, text)


def main(options, tools, folder):
    sitting = Sitting(tools, folder, options.steps, choose(CASES, options.only))
    sitting.measure_rounds(options.rounds)
    found = compare(sitting)
    return {"simulated": found.text}, found.mistakes(options.median, options.most)

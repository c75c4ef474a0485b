# ===- simulate_speed - How long simulations take ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles plans of a GPT-2 with 24 layers for 64 to 16,384 ranks and simulates them on a
cluster of h100.

    bench/run simulate-speed
    bench/run simulate-speed --only "64 ranks"   # every message, too
    bench/run simulate-speed --write docs/what-if.md

A simulation is the whole command, from reading the plan to the answer, on one core; its
time is that of a processor. Ranks that do the same are simulated once, unless each
computes at a speed of its own. Events are the commands of simulated ranks, their
meetings and changes of the rates of flows. It fails where a plan or a simulation takes
longer than it may, or more memory, or where there are too few events a second on the
case with most of them.
"""

import json
import math
import os
import subprocess
import typing

from harness import fail, machine, processor_seconds, table

TARGETS = ["optimus-compile", "optimus-simulate"]
NUMBERS = dict(million_events=1.0)


class Case(typing.NamedTuple):
    mesh: str
    most: float  # seconds of a processor for the simulation
    plan: float = 0  # the same for the plan; 0: any
    mib: float = 0
    unfolded: bool = False
    flags: typing.Sequence[str] = ()


SIZES = dict(layers=24, hidden=8192, heads=128, seq=2048, vocab=51200)
GPUS = "--strategy summa --precision bf16 --target cuda --gpu-arch sm_90"
CASES = {
    "64 ranks": Case("row:8,col:8", 1),
    "1,024 ranks": Case("row:32,col:32", 5),
    "16,384 ranks": Case("row:128,col:128", 20, plan=60, mib=2048),
    "64 ranks, every message": Case("row:8,col:8", 60, flags=("--messages", "every")),
    "256 ranks, each of another speed": Case("row:16,col:16", 30, unfolded=True),
}


def options(parser):
    parser.add_argument("--only", default="", help="cases whose names contain this")


def measured(command):
    """Seconds of a processor and MiB at most of a command, and its output."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        fail(f"exit code {process.returncode} from {' '.join(map(str, command))}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def extents_of(case):
    return [int(axis.split(":")[1]) for axis in case.mesh.split(",")]


def simulate(tools, plan, case, folder):
    command = [tools.path("simulate"), plan, "--cluster", "h100", "--json", "-", *case.flags]
    if case.unfolded:
        speeds = folder / "speeds"
        speeds.write_text("".join(
            f"straggler {rank}={1 + rank / 1e4}\n"
            for rank in range(math.prod(extents_of(case)))))
        command += ["--what-if", speeds]
    seconds, mib, text = measured(command)
    return seconds, mib, json.loads(text)


def main(options, tools, folder):
    cases = {name: case for name, case in CASES.items() if options.only in name}
    if not cases:
        fail(f"no case's name contains {options.only!r}")
    rows, wrong, rates = [], [], []

    def check(name, what, found, most, unit):
        if most and found > most:
            wrong.append(f"{name}: expected {what} of at most {most:g} {unit}, found {found:.2f}")

    for name, case in cases.items():
        program, plan = folder / "program.mlir", folder / "program.plan"
        tools.build_model(program, batch=8 * extents_of(case)[0], **SIZES)
        planned = processor_seconds(lambda: tools.compile(
            program, plan, "--mesh", case.mesh, *GPUS.split(), "--plan"))
        seconds, mib, answer = simulate(tools, plan, case, folder)
        check(name, "a plan", planned, case.plan, "s")
        check(name, "a simulation", seconds, case.most, "s")
        check(name, "a simulation", mib, case.mib, "MiB")
        rates.append((answer["events"], answer["events"] / seconds / 1e6))
        rows.append([
            name, f"{planned:.1f}", f"{seconds:.2f}", f"{case.most:g}", f"{mib:.0f}",
            f"{answer['simulated_ranks']:,}", f"{answer['events']:,}", f"{rates[-1][1]:.2f}"])
    events, rate = max(rates)
    # Of few events, most of the time is not theirs.
    if events >= 1e6 and rate < options.million_events:
        wrong.append(f"expected {options.million_events:g} million events a second with "
                     f"{events:,} of them, found {rate:.2f}")
    header = ["plan of", "made in, s", "simulated in, s", "goal", "MiB", "simulated ranks",
              "events", "million a second"]
    return {"speed": f"{machine()}\n\n" + table(header, rows)}, wrong

# ===- minimalloc - The planner on MiniMalloc's instances -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Plans the eleven "challenging" instances of MiniMalloc, first without the
exact search and then with it, into the capacity of each.

    bench/run minimalloc

Prints a table: lower bound, arena without search, arena, nodes and processor
time on one thread. Exits with 1 when one does not fit, or when all together
take longer than the limit.
"""

import re

from harness import ROOT, fail, processor_seconds, run, table

TARGETS = ["optimus-plan"]
DATA = ROOT / "unittests" / "MemoryPlanning" / "data"
CAPACITY = 1048576


def options(parser):
    parser.add_argument("--limit", type=float, default=60,
                        help="seconds; default: %(default)s")


def plan(tools, instance, *flags):
    """The numbers of the report, the exit code and the processor seconds."""
    command = [tools.path("plan"), instance, "--capacity", CAPACITY, "--report", *flags]
    ended = []
    seconds = processor_seconds(lambda: ended.append(run(command, check=False)))
    [result] = ended
    report = dict(re.findall(r"^(\S.*?) +(\d+)", result.stdout, re.MULTILINE))
    if "arena" not in report:
        fail(result.stderr)
    return report, result.returncode, seconds


def main(options, tools, folder):
    rows, total, mistakes = [], 0.0, []
    for path in sorted(DATA.glob("*.csv")):
        greedy, _, _ = plan(tools, path, "--node-limit=0")
        found, code, seconds = plan(tools, path)
        total += seconds
        if code != 0:
            mistakes.append(f"{path.name} did not fit")
        rows.append([path.name[0], found["buffers"], found["lower bound"],
                     f"{int(greedy['arena']) / CAPACITY:.3f}",
                     f"{int(found['arena']) / CAPACITY:.3f}",
                     found["search nodes"], f"{seconds:.2f}"])
    if total > options.limit:
        mistakes.append(f"slower than {options.limit:g} s")
    header = ["instance", "buffers", "bound", "without search", "arena", "nodes", "seconds"]
    return {"instances": f"{table(header, rows)}\n\n{total:.1f} s together; arenas are "
            "multiples of the capacity."}, mistakes

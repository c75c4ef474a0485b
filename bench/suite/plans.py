# ===- plans - The planner on large training graphs -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Plans graphs of 8,000 to 20,000 buffers, first by the portfolio alone and then
with the time that is given.

    bench/run plans
    bench/run plans --timeout 30 --only chain

Graphs are made from a seed: steps of GPT-3 2.7B and 13B with accumulated
gradients and parallel branches, some layers recomputed, and chains of short
lives, in which no time is much fuller than another. Prints buffers, the arena
beside its bound before and after, the method and the seconds. Exits with 1 where
an arena is above --within times its bound, or larger than before.
"""

import random
import re
import sys
import time

from harness import fail, run, table

TARGETS = ["optimus-plan"]
NUMBERS = dict(timeout=10.0, within=1.01)
WIDTHS = (1, 1, 3, 1, 1, 1, 4, 4, 1)


class Graph:
    """Live ranges (lower, upper, bytes) of a training step."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.ranges = []
        self.time = 0

    def add(self, lower, upper, size):
        self.ranges.append((max(lower, 0), upper, max(64, int(size))))

    def forward(self, hidden, branches, kept, saved):
        """A layer of parallel branches; what `saved` holds lives on."""
        dice, stream = self.random, 2048 * hidden
        for _ in range(branches):
            for width in WIDTHS:
                size = stream * width * dice.choice((2, 2, 4)) // branches
                if dice.random() < 0.15:
                    size = 2048 * 4
                if kept and dice.random() < 0.6:
                    saved.append((self.time, size))
                else:
                    self.add(self.time, self.time + dice.randint(1, 4), size)
                if dice.random() < 0.5:
                    workspace = dice.randint(1, stream // 2)
                    self.add(self.time - 1, self.time + 1, workspace)
                self.time += 1
        saved.append((self.time, stream * 2))
        self.time += 1

    def backward(self, hidden, saved, gradients):
        """A layer's, last value first; gradients of the first microbatch stay."""
        dice, stream = self.random, 2048 * hidden
        for lower, size in reversed(saved):
            self.add(lower, self.time + dice.randint(1, 2), size)
            self.add(self.time, self.time + dice.randint(2, 6), size)
            if dice.random() < 0.6:
                workspace = dice.randint(1, stream)
                self.add(self.time - 1, self.time + dice.randint(1, 3), workspace)
            self.time += 2
        for width in (3, 1, 4, 4):
            size = hidden * hidden * width * 4 // 16
            if gradients is None:
                self.add(self.time - 3, self.time + 1, size)
            else:
                gradients.append((self.time, size))


def training_step(seed, layers, hidden, microbatches, branches, kept):
    graph, gradients = Graph(seed), []
    for microbatch in range(microbatches):
        saved = [[] for _ in range(layers)]
        for values in saved:
            keep = graph.random.random() < kept
            graph.forward(hidden, branches, keep, values)
        for values in reversed(saved):
            first = gradients if microbatch == 0 else None
            graph.backward(hidden, values, first)
    for lower, size in gradients:
        graph.add(lower, graph.time + graph.random.randint(1, 20), size)
    return graph.ranges


def chain(seed, count, longest):
    dice = random.Random(seed)
    return [
        (time, time + dice.randint(2, longest), dice.randint(1, 100000))
        for time in range(count)
    ]


GRAPHS = {
    "gpt3-2.7b": lambda: training_step(2, 32, 2560, 4, 3, 0.5),
    "gpt3-2.7b, recomputed": lambda: training_step(6, 32, 2560, 6, 3, 0.1),
    "gpt3-13b": lambda: training_step(3, 40, 5120, 4, 2, 1.0),
    "gpt3-13b, recomputed": lambda: training_step(5, 40, 5120, 8, 2, 0.1),
    "chain, lives up to 40": lambda: chain(0, 20000, 40),
    "chain, lives up to 100": lambda: chain(3, 15000, 100),
}


def options(parser):
    parser.add_argument("--only", default="", help="graphs whose name contains this")


def plan(tools, path, *flags):
    """The numbers of the report."""
    result = run([tools.path("plan"), path, "--report", *flags], check=False)
    report = dict(re.findall(r"^(\S.*?)  +(.*)$", result.stdout, re.MULTILINE))
    if "arena" not in report:
        fail(result.stderr)
    return report


def nbytes(report, row):
    return int(report[row].split()[0])


def main(options, tools, folder):
    table_rows, mistakes = [], []
    path = folder / "ranges.csv"
    for name, make in GRAPHS.items():
        if options.only not in name:
            continue
        rows = ("%d,%d,%d,%d\n" % (i, *row) for i, row in enumerate(make()))
        path.write_text("id,lower,upper,size\n" + "".join(rows))
        before = plan(tools, path, "--node-limit=0")
        begin = time.monotonic()
        after = plan(tools, path, f"--timeout={options.timeout}")
        seconds = time.monotonic() - begin
        bound, arena = nbytes(after, "lower bound"), nbytes(after, "arena")
        table_rows.append([
            name, f"{nbytes(after, 'buffers'):,}", f"{nbytes(before, 'arena') / bound:.4f}",
            f"{arena / bound:.4f}", after["order"], f"{seconds:.1f}"])
        print(*table_rows[-1], sep=" | ", file=sys.stderr, flush=True)
        if arena > options.within * bound:
            mistakes.append(
                f"{name}: the arena is {arena / bound:.4f} times its bound, "
                f"expected at most {options.within:g} times"
            )
        if arena > nbytes(before, "arena"):
            mistakes.append(f"{name}: the arena grew with the time given")
    header = ["graph", "buffers", "portfolio", "arena / bound", "method", "seconds"]
    return {"plans": table(header, table_rows)}, mistakes

# ===- volume - What a layer moves, counted and by formula ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles models one layer apart for each strategy and mesh, takes the compiler's
bytes for that layer, forward and with the gradients, and compares them with the
formulas.

    bench/run volume                            # prints the tables
    bench/run volume --write docs/volume.md     # renews those of the page
    bench/run volume --meshes 2x2 --crossovers none

Exits with 1 unless every count equals its formula to the byte. Nothing runs:
counts are the compiler's, which optimus-run compares with its own in every run.
"""

import re

from harness import integers, known_strategy, table, words

TARGETS = ["optimus-compile"]
NUMBERS = dict(least_hidden=192)
F32 = 4
# Multiples of bsh and of h*h that products move. Three products of a linear move
# its input where its result stays; two move its result where its input stays.
PRODUCTS_2D = {"forward": {"summa-paper": 7, "summa": 4},
               "training": {"summa-paper": 21, "summa": 10}}
WEIGHTS = {"forward": 12, "training": 36}
# A one-dimensional layer's collectives over all ranks, in (p-1)*bsh.
FORWARD_1D = {"megatron": 4, "megatron-sp": 4}
TRAINING_1D = {"megatron": 8, "megatron-sp": 10}


def meshes(text):
    return [tuple(int(size) for size in mesh.split("x")) for mesh in text.split(",")]


def options(parser):
    parser.add_argument("--meshes", default="2x2,3x3,4x4,2x4", type=meshes,
                        help="rows x columns; default: %(default)s")
    parser.add_argument("--ratios", default="1,4", type=integers,
                        help="batch times sequence over hidden; default: %(default)s")
    parser.add_argument("--crossovers", default="4,16,36,64", type=integers,
                        help="numbers of ranks of square meshes, or none")
    parser.add_argument("--strategies", type=words,
                        default="megatron,megatron-sp,summa-paper,summa")


class Case:
    """A layer on a mesh: R rows and C columns, or one row of as many ranks."""

    def __init__(self, options, strategy, mesh, ratio):
        self.strategy, self.ratio = strategy, ratio
        self.ranks = mesh[0] * mesh[1]
        self.mesh = (1, self.ranks) if strategy in FORWARD_1D else mesh
        # Nothing needs padding: a head a rank, a hidden size sharded by all, and
        # sequences sharded by as many ranks.
        self.heads = self.ranks
        multiple = max(2, mesh[0]) * self.ranks
        self.hidden = -(-options.least_hidden // multiple) * multiple
        self.batch, self.seq = mesh[0] * ratio, self.hidden // mesh[0]

    def sizes(self, layers):
        return {"layers": layers, "hidden": self.hidden, "heads": self.heads,
                "seq": self.seq, "batch": self.batch, "vocab": 64 * self.mesh[1]}

    def formula(self):
        """Bytes of all ranks, as {"forward", "training"}: (products, the rest)."""
        rows, columns = self.mesh
        tokens, vectors = self.batch * self.seq, 13 * self.hidden
        activation = F32 * tokens * self.hidden
        if self.strategy in FORWARD_1D:
            products = (columns - 1) * activation
            # megatron-sp holds norms and two biases whole and sums their gradients.
            sums = F32 * 2 * (columns - 1) * 6 * self.hidden
            rest = sums if self.strategy == "megatron-sp" else 0
            return {"forward": (FORWARD_1D[self.strategy] * products, 0),
                    "training": (TRAINING_1D[self.strategy] * products, rest)}
        forward, training = (
            (columns - 1) * PRODUCTS_2D[name][self.strategy] * activation
            + (rows - 1) * WEIGHTS[name] * F32 * self.hidden**2
            for name in ("forward", "training")
        )
        # Two norms gather a mean and a sum of squares of every rank for a token;
        # their gradients sum two numbers a token, and those of vectors h each.
        moments = F32 * (columns - 1) * 2 * tokens * 2 * columns
        sums = F32 * 2 * (columns - 1) * 2 * tokens * 2
        sums += F32 * 2 * (rows - 1) * vectors
        return {"forward": (forward, moments), "training": (training, moments + sums)}


class Counter:
    """Compiles each case once."""

    def __init__(self, tools, folder):
        self._tools, self._folder = tools, folder
        self._counted, self._left_out = {}, set()

    def layer(self, case):
        """Bytes that one more layer moves, or None for an unknown strategy."""
        key = (case.strategy, case.mesh, case.ratio)
        if key not in self._counted:
            one = self._bytes(case, 1)
            two = one and self._bytes(case, 2)
            self._counted[key] = one and {name: two[name] - one[name] for name in one}
        return self._counted[key]

    def _bytes(self, case, layers):
        source = self._tools.build_model(self._folder / "gpt.mlir", **case.sizes(layers))
        planned = self._folder / "planned.mlir"
        rows, columns = case.mesh
        # What the manifest says, before code is generated; nothing is moved by
        # moving it at another time.
        result = self._tools.compile(
            source, planned, f"--strategy={case.strategy}",
            f"--mesh=row:{rows},col:{columns}", "--no-pad", "--schedule=none",
            "--compile-to=place", check=False)
        if not known_strategy(result, self._left_out):
            return None
        counted = {}
        with open(planned, encoding="utf-8") as text:
            for line in text:
                if found := re.match(r"  func\.func @(\w+)\(", line):
                    axes = re.search(r"exec\.communication = \[(.*?)\]", line).group(1)
                    counted[found.group(1)] = sum(
                        map(int, re.findall(r"bytes = (\d+)", axes)))
        return {"forward": counted["eval_step"], "training": counted["grad_step"]}


def volume_table(options, counter):
    header = ["mesh", "bs/h", "h", "strategy", "forward, counted", "= products",
              "+ norms", "a rank, in bsh + h²", "training, counted", "= products",
              "+ norms, vectors"]
    rows = []
    wrong = []
    for mesh in options.meshes:
        for ratio in options.ratios:
            for strategy in options.strategies:
                case = Case(options, strategy, mesh, ratio)
                counted = counter.layer(case)
                if counted is None:
                    continue
                cells = [f"{case.mesh[0]}×{case.mesh[1]}", f"{ratio}",
                         f"{case.hidden}", f"`{strategy}`"]
                for name, (products, rest) in case.formula().items():
                    cells += [f"{counted[name]:,}", f"{products:,}", f"{rest:,}"]
                    if name == "forward":
                        unit = F32 * case.hidden**2 * (ratio + 1) * case.ranks
                        cells.append(f"{counted[name] / unit:.2f}")
                    if counted[name] != products + rest:
                        wrong.append(f"{strategy} on {cells[0]} at bs/h = {ratio}, {name}"
                                     f": expected {products} + {rest}, counted "
                                     f"{counted[name]}")
                rows.append(cells)
    return table(header, rows), wrong


def predicted_crossover(strategy, rival, ranks, name):
    """bs/h beyond which products move less, from their volumes alone:
    (q-1)*(a*bsh + w*h*h) < m*(q*q-1)*bsh on q*q ranks."""
    side = round(ranks**0.5)
    multiple = {"forward": FORWARD_1D, "training": TRAINING_1D}[name][rival]
    gain = multiple * (side + 1) - PRODUCTS_2D[name][strategy]
    return WEIGHTS[name] / gain if gain > 0 else float("inf")


def counted_crossover(options, counter, strategy, rival, ranks, name):
    """The same from counts at bs/h = 1 and 4, which are linear in bs."""
    side = round(ranks**0.5)
    distance = []
    for ratio in (1, 4):
        counted = [
            counter.layer(Case(options, which, (side, side), ratio))
            for which in (strategy, rival)
        ]
        if None in counted:
            return None
        distance.append(counted[0][name] - counted[1][name])
    slope = (distance[1] - distance[0]) / 3
    return 1 - distance[0] / slope if slope < 0 else float("inf")


def crossover_table(options, counter):
    names = [f"p = {ranks}" for ranks in options.crossovers]
    rows = []
    for rival in FORWARD_1D:
        for strategy in PRODUCTS_2D["forward"]:
            if {rival, strategy} - set(options.strategies):
                continue
            for name in ("forward", "training"):
                cells = []
                for ranks in options.crossovers:
                    counted = counted_crossover(
                        options, counter, strategy, rival, ranks, name)
                    if counted is None:
                        break
                    formula = predicted_crossover(strategy, rival, ranks, name)
                    cells.append(f"{counted:.2f} ({formula:.2f})")
                else:
                    rows.append([f"`{rival}`", f"`{strategy}`, {name}", *cells])
    return table(["moves less than", "", *names], rows)


def main(options, tools, folder):
    counter = Counter(tools, folder)
    text, wrong = volume_table(options, counter)
    blocks = {"volume": text}
    if options.crossovers:
        blocks["crossovers"] = crossover_table(options, counter)
    return blocks, wrong

# ===- arenas - Arenas of real models beside their lower bounds -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles GPT-2 (124 M and 1.5 B parameters), BERT-large and a Llama of 1 B as
far as buffers are placed, serially and on meshes, with and without
recomputation, in f32 and bf16, each twice.

    bench/run arenas
    bench/run arenas --only "bert-large | 2×2" --write bench/results/arenas.md

Prints a row for each: buffers and arena of the function with the largest one, its
excess over the bytes alive at once, the same of the function with the largest excess,
and seconds of placing all of them. Exits with 1 where an arena is above --within times
its bound, or where the second compilation gives another program. Nothing is allocated:
40 GB of a rank are numbers here.
"""

import itertools
import re
import sys

from harness import fail, machine, table

TARGETS = ["optimus-compile"]
NUMBERS = dict(batch=8, within=1.005)
MODELS = {
    "gpt2-124m": "gpt2 --layers 12 --hidden 768 --heads 12 --seq 1024 --vocab 50257",
    "gpt2-1.5b": "gpt2 --layers 48 --hidden 1600 --heads 25 --seq 1024 --vocab 50257",
    "bert-large": "bert --layers 24 --hidden 1024 --heads 16 --seq 512 --vocab 30522",
    "llama-1b": "llama --layers 16 --hidden 2048 --heads 32 --kv-heads 8 --ffn 8192 "
    "--seq 2048 --vocab 128256",
}
MESHES = {
    "serial": [],
    "2×2": ["--mesh=row:2,col:2", "--strategy=summa"],
    "4×4": ["--mesh=row:4,col:4", "--strategy=summa"],
}
HEADER = ["model", "mesh", "recompute", "precision", "buffers", "arena, MB",
          "arena / bound", "worst function", "seconds"]


def options(parser):
    parser.add_argument("--only", default="",
                        help="cases whose first four columns contain this")


class Arena:
    """Of one function, from its text."""

    def __init__(self, text):
        head, _, body = text.partition("\n")
        self.function = re.search(r"@(\w+)", head).group(1)
        self.bytes = int(re.search(r"exec\.arena_bytes = (\d+)", head).group(1))
        self.bound = int(re.search(r"exec\.lower_bound_bytes = (\d+)", head).group(1))
        self.buffers = body.count("exec.arena_slot")

    @property
    def ratio(self):
        return self.bytes / self.bound if self.bound else 1.0


def arenas(program):
    parts = re.split(r"^  func\.func ", program, flags=re.MULTILINE)[1:]
    return [Arena(part) for part in parts if "exec.arena_bytes" in part]


def place(tools, source, flags, output):
    """The program, and the seconds in which its buffers were placed."""
    result = tools.compile(source, output, *flags, "--compile-to=place", "--mlir-timing",
                           check=False)
    times = re.findall(r"^ +([\d.]+) .*PlaceBuffers", result.stderr, re.MULTILINE)
    if result.returncode != 0 or not times:
        fail(f"expected the time of PlaceBuffers, found {result.stderr}")
    return output.read_text(), sum(map(float, times))


def check(options, tools, case, source, flags, folder):
    """The row of a case, and what is wrong with it."""
    first, seconds = place(tools, source, flags, folder / "out.mlir")
    second, again = place(tools, source, flags, folder / "out.mlir")
    found = arenas(first)
    largest = max(found, key=lambda arena: arena.bytes)
    worst = max(found, key=lambda arena: arena.ratio)
    name, mistakes = " | ".join(case), []
    if first != second:
        mistakes.append(f"{name}: the second compilation gave another program")
    if worst.ratio > options.within:
        mistakes.append(
            f"{name}: the arena of {worst.function} is {worst.ratio:.4f} times its "
            f"bound, expected at most {options.within:g} times"
        )
    row = [*case, f"{largest.buffers:,}", f"{largest.bytes / 1e6:,.1f}",
           f"{largest.ratio:.4f}", f"{worst.ratio:.4f}", f"{min(seconds, again):.2f}"]
    return row, mistakes


def main(options, tools, folder):
    rows, mistakes = [], []
    for case in itertools.product(MODELS, MESHES, ("none", "layer"), ("f32", "bf16")):
        model, mesh, recompute, precision = case
        if options.only not in " | ".join(case):
            continue
        source = folder / f"{model}.mlir"
        if not source.exists():
            tools.build_model(source, *MODELS[model].split(), batch=options.batch)
        flags = [*MESHES[mesh], f"--recompute={recompute}", f"--precision={precision}"]
        row, wrong = check(options, tools, case, source, flags, folder)
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        rows.append(row)
        mistakes += wrong
    if not rows:
        fail(f"no case contains '{options.only}'")
    return {"arenas": f"{machine()}.\n\n{table(HEADER, rows)}"}, mistakes

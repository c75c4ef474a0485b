# ===- predict - Predicted steps beside measured ones ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiles models with `--machine-profile`, trains them with `--profile`, and compares
the time of each kind of command and of each step with the prediction of `--report`.

    bench/run predict
    bench/run predict --folder /tmp/predict --rounds 1
    bench/run predict --folder /tmp/predict --rounds 0 --write docs/cost-model.md

In a round the machine is measured first, then a few steps of each model: a
moment in which it is slow counts for both. Predictions come from the median of
each figure of all rounds' profiles. Of a model's steps in a round the fastest
counts, and of those the median: Linux takes 50 ms of each second from threads with
precedence and without sleep, a tenth of a step or none of it. With --folder
measurements stay, and the next call adds its rounds to them.

Models are split in two: those used for the formulas of the cost model, and those kept
unseen. It fails where the median error of the latter is beyond --median or one of them
beyond --most.
"""

import contextlib
import functools
import pathlib
import re
import sqlite3
import statistics
import typing

from harness import run, table, write_text
from measured import Rounds, first

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(rounds=3)


class Case(typing.NamedTuple):
    family: str
    sizes: str
    mesh: str
    threads: int  # of a rank
    precision: str = "f32"


FIT = {
    "gpt2 4×256": Case("gpt2", "4 256 8 128 256 16", "1x1", 1),
    "gpt2 4×256, mesh": Case("gpt2", "4 256 8 128 256 16", "2x2", 1),
    "gpt2 6×384": Case("gpt2", "6 384 8 256 256 4", "1x1", 2),
    "gpt2 6×384, two ranks": Case("gpt2", "6 384 8 256 256 4", "1x2", 1),
}
HELD_OUT = {
    "gpt2 3×192": Case("gpt2", "3 192 6 64 256 16", "1x1", 1),
    "gpt2 2×512": Case("gpt2", "2 512 8 128 1024 8", "1x1", 1),
    "gpt2 2×768": Case("gpt2", "2 768 12 128 256 4", "1x1", 2),
    "gpt2 8×128": Case("gpt2", "8 128 4 128 512 16", "1x1", 2),
    "gpt2 3×320": Case("gpt2", "3 320 4 192 256 6", "1x2", 1),
    "gpt2 4×256, long": Case("gpt2", "4 256 4 512 256 4", "2x1", 1),
    "gpt2 2×640": Case("gpt2", "2 640 10 128 256 8", "2x2", 1),
    "gpt2 6×192": Case("gpt2", "6 192 6 128 256 16", "2x2", 1),
    "gpt2 3×384, six ranks": Case("gpt2", "3 384 6 128 256 12", "2x3", 1),
    "llama 3×256": Case("llama", "3 256 8 128 256 12 688", "1x1", 1),
    "llama 3×384": Case("llama", "3 384 6 128 256 8 1024", "1x2", 1),
    "bert 3×320": Case("bert", "3 320 5 128 512 8", "1x1", 1),
    "gpt2 3×384, bf16": Case("gpt2", "3 384 6 128 256 8", "1x1", 2, "bf16"),
    "gpt2 2×512, bf16": Case("gpt2", "2 512 8 128 1024 8", "1x2", 1, "bf16"),
    "llama 3×256, bf16": Case("llama", "3 256 8 128 256 12 688", "1x1", 1, "bf16"),
}
SIZES = ("layers", "hidden", "heads", "seq", "vocab", "batch", "ffn")
KINDS = ("gemm", "attention", "attention_grad", "launch", "pack", "copy", "waits")


def options(parser):
    parser.add_argument("--steps", type=int, default=5, help="of a model in a round")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps measurements")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--median", type=float, default=5, help="in %%, default 5")
    parser.add_argument("--most", type=float, default=12, help="in %%, default 12")
    parser.add_argument("--kinds", action="store_true",
                        help="also compare kinds of commands")


class Bench:
    def __init__(self, options, tools, folder):
        self.options, self.tools, self.folder = options, tools, folder
        self.cases = {name: case for name, case in {**FIT, **HELD_OUT}.items()
                      if options.only in name}
        self.rounds = Rounds(tools, folder)
        self.data = write_text(folder / "text.txt", 100_000)

    def path(self, name, suffix):
        return self.folder / (re.sub(r"\W+", "-", name) + suffix)

    def compile(self, name, *flags):
        """The report."""
        case = self.cases[name]
        program = self.path(name, ".mlir")
        if not program.exists():
            self.tools.build_model(program, case.family,
                                   **dict(zip(SIZES, case.sizes.split())))
        rows, cols = case.mesh.split("x")
        return self.tools.compile(
            program, self.path(name, ".so"), "--report", f"--mesh=row:{rows},col:{cols}",
            f"--precision={case.precision}", "--schedule=none", "--tune-products=false",
            *flags)

    def measure_steps(self, name):
        """Milliseconds: of steps, and of kinds of commands in the fastest."""
        profile = self.path(name, ".profile")
        steps = self.options.steps
        run(first([self.tools.path("run"), "train", self.path(name, ".so"),
                   "--data", self.data, "--steps", steps + 2,
                   "--threads-per-rank", self.cases[name].threads,
                   "--profile", profile, "--profile-steps", f"3:{steps + 2}"]))
        with contextlib.closing(sqlite3.connect(profile)) as database:
            spans = dict(database.execute(
                "SELECT step, max(end) - min(begin) FROM calls GROUP BY step"))
            kinds = database.execute(
                "SELECT kind, sum(times.end - times.begin) / 1e6 FROM times "
                "JOIN calls USING (call) JOIN commands USING (function, command) "
                "WHERE step = ? GROUP BY kind", (min(spans, key=spans.get),))
            (ranks,) = database.execute("SELECT count(*) FROM ranks").fetchone()
            of_kinds = {kind: all / ranks for kind, all in kinds}
        waits = [kind for kind in of_kinds if kind not in KINDS]
        of_kinds["waits"] = sum(of_kinds.pop(kind) for kind in waits)
        milliseconds = [span / 1e6 for span in spans.values()]
        return {"steps": milliseconds, "kinds": of_kinds}

    def round(self):
        jobs = {("local", eval(case.mesh.replace("x", "*")))
                for case in self.cases.values()}
        self.rounds.add(jobs, {
            name: functools.partial(self.measure_steps, name) for name in self.cases})

    def predict(self, name):
        path = self.rounds.profile(self.path(name, ".json"), self.cases[name].threads)
        report = self.compile(name, "--machine-profile", path)
        step = report[report.index("train_step"):]
        to_ms = lambda number, unit: float(number) * (1e3 if unit == "s" else 1)
        number = r"([\d.]+) (ms|s)"
        found = re.search(rf"predicted +{number}: {number} computing, {number}", step)
        parts = re.search(r"computing    (.*)", step)[1].split(", ")
        kinds = dict(reversed(part.split(" of ")) for part in parts)
        kinds = {kind: to_ms(*text.split()) for kind, text in kinds.items()}
        kinds["waits"] = to_ms(*found.groups()[4:])
        return to_ms(*found.groups()[:2]), kinds


def print_kinds(name, predicted, rounds):
    measured = {kind: statistics.median(one["kinds"].get(kind, 0) for one in rounds)
                for kind in KINDS}
    for kind in KINDS:
        ours, theirs = predicted.get(kind, 0), measured[kind]
        if max(ours, theirs) > 0.05:
            print(f"    {kind:16} {ours:9.2f} {theirs:9.2f} "
                  f"{100 * (ours / theirs - 1) if theirs else 0:+6.1f} %")


def main(options, tools, folder):
    bench = Bench(options, tools, folder)
    if options.rounds:
        for name in bench.cases:
            bench.compile(name)
    for _ in range(options.rounds):
        bench.round()
    rows, errors = [], []
    for name, case in bench.cases.items():
        rounds = bench.rounds.programs[name]
        measured = statistics.median(min(one["steps"]) for one in rounds)
        predicted, kinds = bench.predict(name)
        error = 100 * (predicted / measured - 1)
        if name in HELD_OUT:
            errors.append(abs(error))
        rows.append([name, case.mesh.replace("x", "×"), case.threads,
                     "yes" if name in FIT else "no", f"{predicted:.1f}",
                     f"{measured:.1f}", f"{error:+.1f} %"])
        if options.kinds:
            print(*rows[-1], sep=" | ")
            print_kinds(name, kinds, rounds)
    print(bench.rounds.describe())
    blocks = {"predicted": table(["model", "mesh", "threads", "used to fit", "predicted, ms",
                                  "measured, ms", "error"], rows)}
    if not errors:
        return blocks
    middle, most = statistics.median(errors), max(errors)
    print(f"not used to fit: median error {middle:.1f} %, largest {most:.1f} %\n")
    if middle > options.median or most > options.most:
        return blocks, [f"expected a median error of {options.median:g} % and none above "
                        f"{options.most:g} %, found {middle:.1f} % and {most:.1f} %"]
    return blocks

# ===- loop - Plans from profiles against plans without -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The loop closed: a GPT-2, a BERT and a Llama train a few steps with --profile,
are planned again by what was measured (`optimus-compile --profile`), and run
again. For memory budgets between the least of a rank and its memory without
recomputation, the step planned without a profile and the one planned with it are timed
in turn, a round each, and the ratios of a round count.

    bench/run loop
    bench/run loop --rounds 15 --write bench/results/loop.md

It fails where a plan exceeds its budget, or where the two do not train to the
same losses, to the bit.

With --links, the models train on a 2 x 2 mesh of four hosts, network namespaces
of this machine as in `cluster`, whose links the compiler is told nothing
of but by the profile. How products move may change then, and how their sums
round with it: losses agree within 1e-5.

    bench/run loop --links 670 --layers 2 --hidden 512        # Mbit/s; as root
"""

import re
import statistics

from harness import Ratios, fail, machine, table, take_turns
from namespaces import Cluster

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(layers=4, hidden=256, seq=128, batch=8, rounds=9, threads=1)
MEBI = 2**20
SHAPE = "--hidden {hidden} --heads 8 --seq {seq} --vocab 256 --batch {batch}"
MODELS = {
    "gpt2": "gpt2 --layers {layers} " + SHAPE,
    "bert": "bert --layers {layers} " + SHAPE,
    "llama": "llama --layers {layers} --kv-heads 4 --ffn 688 " + SHAPE,
}
CHOSEN = re.compile(r"^\* \S+:\d\S* +\S+ +[a-z]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)",
                    re.MULTILINE)
LISTED = re.compile(r"^[* ] \S+:\d\S* +\S+ +[a-z]+ +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)",
                    re.MULTILINE)
MEASURED = re.compile(r"^  measured +(\d+) of (\d+) commands", re.MULTILINE)
PREDICTED = re.compile(r"^train_step (?:.*\n)+?  predicted +([\d.]+) ms", re.MULTILINE)
SAVES = re.compile(r"^  which saves .* for (\S+ \S+) more in a step", re.MULTILINE)


def options(parser):
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3, 0.6],
                        help="budgets, from 0, the least, to 1, what none needs")
    parser.add_argument("--links", metavar="MBIT", type=float,
                        help="four hosts with links of this rate, instead of budgets")
    parser.add_argument("--steps", type=int, default=4, help="of each in a round")
    parser.add_argument("--machine-profile", help="what both are planned with too")


class Model:
    """One model, as a program and text to train on."""

    def __init__(self, options, tools, folder, model):
        self.options, self.tools, self.folder, self.model = options, tools, folder, model
        arguments = MODELS[model].format(**vars(options)).split()
        self.program = tools.build_model(folder / f"{model}.mlir", *arguments)
        self.data = folder / "data.txt"
        self.data.write_text("".join(f"{number} and so on, " for number in range(20000)))


class Budgets(Model):
    """Its programs within budgets, and their times."""

    HEADER = [
        "model", "budget, MiB", "a rank without, MiB", "with a profile, MiB",
        "measured commands", "predicted for recomputation", "a step without, ms",
        "with, ms", "ratio (95 %)"]

    def compile(self, name, budget, profile=None):
        """The report, and the library where that is within the budget."""
        library = self.folder / f"{self.model}-{name}.so"
        flags = ["--recompute", "budget", "--memory-budget", budget, "--report"]
        if self.options.machine_profile:
            flags += ["--machine-profile", self.options.machine_profile]
        if profile:
            flags += ["--profile", profile]
        result = self.tools.compile(self.program, library, *flags, check=False)
        return library, result.stdout, result.stderr

    def plan(self, name, budget, profile=None):
        library, report, errors = self.compile(name, budget, profile)
        chosen = CHOSEN.search(report)
        if not chosen:
            fail(f"{self.model} within {budget / MEBI:.1f} MiB:\n{report}{errors}")
        # What the table prints is rounded.
        mib = float(chosen[1])
        if mib > budget / MEBI + 0.06:
            fail(f"{library.name} needs {mib} MiB, over its budget")
        return dict(library=library, mib=mib, report=report)

    def train(self, library, *flags, steps=4):
        lines = self.tools.train(
            library, self.data, self.folder / "log.jsonl", "--steps", steps,
            "--threads-per-rank", self.options.threads, *flags)
        return [line["loss"] for line in lines]

    def measure(self, plan):
        report = self.tools.bench(plan["library"], "--warmup", 1, "--steps",
                                  self.options.steps, "--threads-per-rank",
                                  self.options.threads)
        return report["ms"]["median"]

    def rows(self):
        """A row of the table for each budget."""
        options = self.options
        whole = self.plan("none", 2**40)
        _, report, _ = self.compile("least", MEBI)
        least = min(float(mib) for mib in LISTED.findall(report))
        profile = self.folder / f"{self.model}.profile"
        losses = self.train(whole["library"], "--profile", profile, steps=8)[:4]
        for share in options.shares:
            budget = int((least + share * (whole["mib"] - least) + 0.06) * MEBI)
            without = self.plan(f"without{share}", budget)
            planned = self.plan(f"with{share}", budget, profile)
            for plan in (without, planned):
                if self.train(plan["library"]) != losses:
                    fail(f"{plan['library'].name} does not train as without recomputation")
            jobs = {"without": lambda: self.measure(without),
                    "with": lambda: self.measure(planned)}
            times = [tuple(found.values())
                     for _, found in take_turns(jobs, options.rounds)]
            known, commands = MEASURED.search(planned["report"]).groups()
            saves = [SAVES.search(plan["report"]) for plan in (without, planned)]
            yield [
                self.model, f"{budget / MEBI:.1f} of {whole['mib']:.1f}",
                f"{without['mib']:.1f}", f"{planned['mib']:.1f}",
                f"{known} of {commands}",
                " → ".join(found[1] if found else "none" for found in saves),
                *compared(times)]


def compared(times):
    """The medians of (before, after), and of the ratios of a round."""
    ratios = Ratios(times)
    before, after = (statistics.median(column) for column in zip(*times))
    return [f"{before:.1f}", f"{after:.1f}",
            f"{ratios.median:.3f} ({ratios.low:.3f} to {ratios.high:.3f})"]


class Links(Model):
    """Its programs for hosts of a cluster, and their times."""

    HEADER = [
        "model", "predicted without, ms", "with a profile, ms", "measured commands",
        "a step without, ms", "with, ms", "ratio (95 %)"]

    def __init__(self, options, tools, folder, model, cluster):
        super().__init__(options, tools, folder, model)
        self.cluster = cluster

    def plan(self, name, *flags):
        library = self.folder / f"{self.model}-{name}.so"
        report = self.tools.compile(self.program, library, "--mesh=row:2,col:2",
                                    "--strategy=summa", "--report", *flags)
        return dict(library=library, report=report)

    def step(self, plan, *flags):
        """Milliseconds of the steps after the first, and the last loss."""
        steps = self.cluster.train(
            self.tools, plan["library"], self.data, self.folder / "log.jsonl",
            "--steps", self.options.steps, *flags)
        return statistics.mean(step["ms"] for step in steps[1:]), steps[-1]["loss"]

    def rows(self):
        profile = self.folder / f"{self.model}.profile"
        without = self.plan("without")
        self.step(without, "--profile", profile)
        planned = self.plan("with", "--profile", profile)
        times = []
        jobs = {"without": lambda: self.step(without), "with": lambda: self.step(planned)}
        for _, found in take_turns(jobs, self.options.rounds):
            (before, loss), (after, other) = found["without"], found["with"]
            if not abs(loss - other) <= 1e-5 * abs(loss):
                fail(f"{self.model} trains to {other} instead of {loss}")
            times.append((before, after))
        known, commands = MEASURED.search(planned["report"]).groups()
        predicted = [PREDICTED.search(plan["report"])[1] for plan in (without, planned)]
        yield [self.model, *predicted, f"{known} of {commands}", *compared(times)]


def describe(options, header, about, loops):
    rows = [row for loop in loops for row in loop.rows()]
    return f"{machine()}, {about}, {options.rounds} rounds\n\n{table(header, rows)}"


def main(options, tools, folder):
    if options.links:
        with Cluster(4) as cluster:
            cluster.shape(1e6 * options.links)
            return {"links": describe(
                options, Links.HEADER, f"links of {options.links:g} Mbit/s",
                [Links(options, tools, folder, model, cluster)
                 for model in options.models])}
    return {"loop": describe(
        options, Budgets.HEADER, f"{options.threads} thread a rank",
        [Budgets(options, tools, folder, model) for model in options.models])}

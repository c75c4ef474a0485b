# ===- search_rungs - Early stops beside whole trials -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""How much sooner a real search of optimus-tune with rungs reaches what random search of
whole trials ends with.

    bench/run search-rungs --write bench/results/search.md
    bench/run search-rungs --methods asha --seeds 2 --folder /tmp/rungs
    bench/run search-rungs --ranks --methods none --first-seed 100 --seeds 2

Trials are small GPT-2 on this repository's documentation, in six dimensions. The budget is
named here, before any run: random search has 27 trials of 2187 steps, on one worker with
one thread, and its result is the least held-out loss. DEHB, ASHA or Hyperband with rungs
at 81, 243, 729 and 2187 steps have a third of the device time that random search took. A search has
reached the result once a trial of it has such a loss on any rung. Five seeds, each with
other points, initial values and orders of the data. Trials take subnormal numbers for zero:
else those with rates above 0.01 take five to fifty times as long, and random search with
them.

Device time is that of all attempts, with starts, compilation and evaluation; steps of all
attempts stand beside, which no other load changes. With --folder the studies stay, and the
same command goes on. With --ranks random search evaluates on all rungs, in time of its
own; printed is how well the order of its trials on each rung tells the order of their ends.
It fails where the median over seeds is below 3 times.
"""

import math
import pathlib
import statistics
import sys

from harness import ROOT, one_of, run, spread, table

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import journal, outcome, rungs  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(seeds=5, first_seed=0, trials=27, steps=2187, least=81)
FACTOR = 3
SOONER = 3.0
HELD_OUT = 8192
SPEC = """\
[study]
trials = {trials}
seed = {seed}
objectives = ["eval_loss"]
{study}

[model]
name = "gpt2"
layers = 1
hidden = {{ choice = [32, 64, 96] }}
heads = 4
seq = 64
vocab = 256
batch = 4

[train]
data = "text.txt"
eval-data = "heldout.txt"
steps = {steps}
seed = {seed}
lr = {{ log-uniform = [1e-5, 1.0] }}
weight-decay = {{ log-uniform = [1e-3, 1.0] }}
warmup = {{ choice = [0, 9, 27] }}
beta2 = {{ choice = [0.9, 0.95, 0.99, 0.999] }}
clip = {{ log-uniform = [0.1, 10.0] }}
threads-per-rank = 1
flush-subnormals = true
{train}"""
METHODS = ("dehb", "asha", "hyperband")


def options(parser):
    parser.add_argument("--methods", type=one_of(METHODS), default=["dehb", "asha"],
                        metavar="NAMES",
                        help="of dehb, asha, hyperband, or none; default: dehb,asha")
    parser.add_argument("--ranks", action="store_true",
                        help="prints the correlation of ranks on rungs and at the end")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the studies")


def write_texts(folder):
    """The documentation; its end is held out."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    data = b"".join(page.read_bytes() for page in pages)
    (folder / "text.txt").write_bytes(data[:-HELD_OUT])
    (folder / "heldout.txt").write_bytes(data[-HELD_OUT:])


class Curve:
    """Of a study: device seconds and steps spent by the end of each attempt, and its
    loss."""

    def __init__(self, records):
        self.points, seconds, steps = [], 0.0, 0
        for record in records:
            measured = record.get("measured")
            if not measured:
                continue
            seconds += measured["seconds"]
            steps += measured.get("steps", 0)
            if record["kind"] == "rung":
                loss = record["objective"]
            else:
                loss = (record.get("objectives") or [None])[0]
            self.points.append((seconds, steps, math.inf if loss is None else loss))

    @property
    def best(self):
        return min(loss for _, _, loss in self.points)

    @property
    def spent(self):
        return self.points[-1][:2]

    def reached(self, target):
        """Seconds and steps until a loss; infinity without it."""
        return next(((seconds, steps) for seconds, steps, loss in self.points
                     if loss <= target), (math.inf, math.inf))


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0] * len(values)
    for rank, place in enumerate(order):
        found[place] = rank
    return found


def correlation(values, others):
    """Of ranks, as Spearman has it."""
    return statistics.correlation(ranks_of(values), ranks_of(others))


def correlations(study, options):
    """By rung, of held-out losses there with those of the end; and the rank there, from 1
    on, of the best trial of all."""
    curves = []
    for trial in sorted((study / "trials").iterdir()):
        log = outcome.read_log(str(trial))
        found = {each["step"]: each["eval_loss"] for each in log.steps if "eval_loss" in each}
        if options.steps in found:
            curves.append(found)
    ends = [curve[options.steps] for curve in curves]
    best = ends.index(min(ends))
    found = {}
    for step in rungs.budgets(options.least, options.steps, FACTOR)[:-1]:
        here = [curve[step] for curve in curves]
        found[step] = correlation(here, ends), 1 + ranks_of(here)[best]
    return found


def play(tools, folder, name, **more):
    path = folder / f"{name}.toml"
    path.write_text(SPEC.format(**more))
    program = tools.path("run").parent / "optimus-tune"
    run([program, "run", path, "-o", folder / name, "--workers", 1, "--no-cache"])
    return Curve(journal.read(str(folder / name)))


def main(options, tools, folder):
    if options.folder:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "text.txt").exists():
        write_texts(folder)
    whole, found, tables = {}, {}, {}
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    train = f"eval-every = {options.least}\n" if options.ranks else ""
    for seed in seeds:
        whole[seed] = play(tools, folder, f"random-{seed}", trials=options.trials,
                           seed=seed, steps=options.steps, study="", train=train)
        seconds = whole[seed].spent[0]
        for method in options.methods:
            study = (f"device_seconds = {seconds / SOONER:.3f}\n"
                     f'rungs = {{ method = "{method}", least = {options.least}, '
                     f"factor = {FACTOR} }}")
            found[method, seed] = play(tools, folder, f"{method}-{seed}", trials=10_000,
                                       seed=seed, steps=options.steps, study=study, train="")
    if options.ranks:
        its = [correlations(folder / f"random-{seed}", options) for seed in seeds]
        tables["rung-ranks"] = table(
            ["after step", "rank correlation with the end", "rank of the best there"],
            [[step, spread([each[step][0] for each in its], 2),
              ", ".join(str(each[step][1]) for each in its)] for step in its[0]])
    rows, mistakes = [], []
    losses = [curve.best for curve in whole.values()]
    rows.append(["random, whole trials", spread(losses, 3),
                 spread([curve.spent[0] for curve in whole.values()], 0), "1", "1",
                 f"{options.seeds} of {options.seeds}"])
    for method in options.methods:
        curves = [found[method, seed] for seed in seeds]
        reached = [curve.reached(whole[seed].best) for seed, curve in zip(seeds, curves)]
        sooner = [whole[seed].spent[0] / each[0] for seed, each in zip(seeds, reached)]
        fewer = [whole[seed].spent[1] / each[1] for seed, each in zip(seeds, reached)]
        count = sum(each[0] < math.inf for each in reached)
        rows.append([method, spread([curve.best for curve in curves], 3),
                     spread([curve.spent[0] for curve in curves], 0), spread(sooner),
                     spread(fewer), f"{count} of {options.seeds}"])
        if statistics.median(sooner) < SOONER:
            mistakes.append(f"{method}: expected {SOONER} times sooner, found "
                            f"{statistics.median(sooner):.1f}")
    text = table(["search", "least held-out loss", "device seconds",
                  "times sooner to random search's loss", "times fewer steps", "reached"], rows)
    tables["rungs"] = (f"{options.trials} trials of {options.steps} steps at random; rungs from "
                       f"step {options.least} on have a third of the time.\n\n{text}")
    return tables, mistakes

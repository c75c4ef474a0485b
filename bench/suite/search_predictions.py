# ===- search_predictions - Trials that were never measured ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Predictions of optimus-tune beside measurements, on programs that were never measured:
the memory of a process, and the time of a step before and after correction.

    bench/run search-predictions --write bench/results/search.md
    bench/run search-predictions --folder /tmp/predictions --seconds 200   # in pieces

A random search over GPT-2, Llama and BERT of many sizes, in f32 and bf16, with all its
programs different, on a worker for each core, as root before all else on this machine.
One of them measures the class before its first trial (`optimus-tune run --measure`); the
other's few trials meanwhile are predicted by prices that no machine has, and count too. A
step counts as it was predicted before its trial began: by the class's profile alone, and by
what trials on its class had taken so far. Of memory the compiler says what a plan takes;
the process's own is the median of the first ten.

With --folder a study stays, and after --seconds it stops; the same command goes on. It
fails where a trial is lost or refused for memory, where the median error of a step is
beyond 8 % before correction or 5 % after ten trials, or where a process is both 2 % and
16 MiB away from what was predicted.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

from harness import ROOT, fail, machine, table, write_license
from measured import first

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import costs, journal  # noqa: E402
from optimus.tune.study import Study  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(trials=48, steps=16, seed=11)
FIRST = 10
BEFORE, AFTER, SHARE, MIB = 0.08, 0.05, 0.02, 16
SPEC = """\
[study]
trials = {trials}
seed = {seed}
objectives = ["loss"]

[model]
layers = {{ randint = [1, 5] }}
hidden = {{ randint = [96, 448], step = 32 }}
heads = {{ choice = [2, 4, 8] }}
seq = {{ choice = [32, 64, 128, 192] }}
vocab = {{ choice = [256, 384, 1000] }}
batch = {{ choice = [4, 6, 8, 16] }}

[compile]
precision = {{ choice = ["f32", "bf16"] }}
optimizer = {{ choice = ["adamw", "lion", "lamb"] }}
recompute = {{ choice = ["none", "layer"] }}

[train]
data = "text.txt"
steps = {steps}
lr = 0.0003

[exclusive.family.gpt2]
model.name = "gpt2"
model.dropout = {{ choice = [0.0, 0.1] }}

[exclusive.family.llama]
model.name = "llama"
model.ffn = {{ randint = [128, 1024], step = 64 }}

[exclusive.family.bert]
model.name = "bert"
model.ffn = {{ randint = [128, 1024], step = 64 }}
"""


def options(parser):
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the study")
    parser.add_argument("--seconds", type=float, help="then stops")


class Prediction:
    """Of a trial that was measured: its class and kind of model, a step measured over
    predicted, the same over what was corrected by then, if ten trials of the class had
    been measured, and the bytes of the process and of its plan."""

    def __init__(self, key, model, ratio, corrected, held, planned):
        self.key, self.model, self.ratio, self.corrected = key, model, ratio, corrected
        self.held, self.planned = held, planned


def predictions_of(records):
    """Of a study, in the order in which trials began."""
    study, corrections, found, known, counts = Study(), costs.Corrections(), [], {}, {}
    for record in records:
        study.apply(record)
        if "taken" in record:
            corrections.recall(record["class"], record["taken"])
            counts[record["class"]] = FIRST
        if record["kind"] == "started":
            trial = study.trials[record["trial"]]
            of_class = counts.get(record["class"], 0) >= FIRST
            known[trial.number] = (
                corrections.ratio(record["class"], trial.model, trial.prediction)
                if of_class else None)
        if record["kind"] != "ended" or "step_ms" not in record.get("measured", {}):
            continue
        trial, measured = study.trials[record["trial"]], record["measured"]
        key, prediction = record["class"], trial.prediction
        ratio = measured["step_ms"] / costs.step_ms(prediction, key)
        before = known[trial.number]
        found.append(Prediction(key, trial.model, ratio, before and ratio / before,
                                measured["max_rss"],
                                prediction["rank_bytes"] * prediction["ranks"]))
        corrections.observe(key, trial.model, prediction, measured)
        counts[key] = counts.get(key, 0) + 1
    return found


def error(ratios):
    """The median; none without ratios."""
    return statistics.median(abs(ratio - 1) for ratio in ratios) if ratios else None


def percent(share):
    return "-" if share is None else f"{100 * share:.1f} %"


def rows_of(predictions):
    """By class and kind of model, and all together."""
    groups = {}
    for each in predictions:
        groups.setdefault((each.key.split("Processor-")[-1], each.model), []).append(each)
    lines = []
    for name, its in [*sorted(groups.items()), (("all", ""), predictions)]:
        ratios = [each.ratio for each in its]
        corrected = [each.corrected for each in its if each.corrected]
        lines.append([*name, len(its), f"{statistics.median(ratios):.2f}",
                      percent(error(ratios)), percent(error(corrected))])
    return table(["class", "model", "trials", "measured / predicted step", "median error",
                  "corrected, after ten of a class"], lines)


def memory_of(predictions):
    """A line on the memory of processes beyond the plan and the own bytes of the first ten,
    and mistakes, processes too far away."""
    own = statistics.median(each.held - each.planned for each in predictions[:FIRST])
    far = [(each.held - each.planned - own) / 2**20 for each in predictions]
    wrong = [f"{each.model}: expected {(each.planned + own) / 2**20:.0f} MiB, found "
             f"{each.held / 2**20:.0f}" for each, away in zip(predictions, far)
             if abs(away) > MIB and abs(away) * 2**20 > SHARE * each.held]
    text = (f"{len(far)} processes of {min(each.held for each in predictions) >> 20} to "
            f"{max(each.held for each in predictions) >> 20} MiB; {own / 2**20:.0f} MiB are a "
            f"process's own, as the first ten say. The others were {min(far):+.1f} to "
            f"{max(far):+.1f} MiB away, {statistics.median(map(abs, far)):.1f} in the median.")
    return text, wrong


def play(options, tools, folder):
    """The records of the study, as far as it went."""
    write_license(folder / "text.txt")
    (folder / "search.toml").write_text(
        SPEC.format(trials=options.trials, steps=options.steps, seed=options.seed))
    cores = sorted(os.sched_getaffinity(0))
    (folder / "pool.toml").write_text("".join(
        f'[[worker]]\nname = "core{core}-"\n'
        f"prefix = {json.dumps(first(['taskset', '-c', str(core)]))}\n" for core in cores))
    program = tools.path("run").parent / "optimus-tune"
    process = subprocess.Popen(
        [program, "run", folder / "search.toml", "-o", folder / "study", "--pool",
         folder / "pool.toml", "--no-cache", "--measure"], stdout=subprocess.DEVNULL)
    try:
        process.wait(options.seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait()
    if process.returncode not in (0, 128 + signal.SIGTERM):
        fail(f"optimus-tune ended with exit code {process.returncode}")
    return journal.read(str(folder / "study"))


def main(options, tools, folder):
    if options.folder:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    records = play(options, tools, folder)
    ends = [record for record in records if record["kind"] == "ended"]
    predictions = predictions_of(records)
    if len(predictions) <= FIRST:
        fail(f"expected more than {FIRST} measured trials, found {len(predictions)}; "
             "the same command with --folder goes on")
    memory, wrong = memory_of(predictions)
    wrong += [f"{record['trial']}: {record['message']}" for record in records
              if record["kind"] == "lost" and record["why"] != "scheduler"]
    wrong += [f"{record['trial']}: {record['outcome']}: {record['message']}"
              for record in ends if record["outcome"] != "done"]
    if len(ends) != options.trials:
        wrong.append(f"{len(ends)} of {options.trials} trials ended; go on with --folder")
    for name, ratios, most in (
            ("before", [each.ratio for each in predictions], BEFORE),
            ("after", [each.corrected for each in predictions if each.corrected], AFTER)):
        found = error(ratios)
        if found is not None and found > most:
            wrong.append(f"expected an error of {percent(most)} {name} correction, found "
                         f"{percent(found)}")
    return {"never-measured": f"{machine()}. {memory}\n\n{rows_of(predictions)}"}, wrong

# ===- search - A search on a mixed pool ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A search of optimus-tune on workers of four classes of this machine, by the order
`placed` and first come, first served.

    bench/run search
    bench/run search --trials 120 --rounds 5 --write bench/results/search.md

Classes are control groups with parts of a core, 0.1 to 0.8, and 512 MiB to 8 GiB; one
has AVX2 alone for products. Trials are GPT-2 of many sizes in f32 and bf16, the same for
each order, and orders take turns. Beside the seconds stands a bound that no schedule is
below: the linear relaxation for unrelated machines, by the steps as they were measured.
Then predictions beside measurements. It needs root, and fails where a trial is lost or
does not end.
"""

import contextlib
import json
import os
import pathlib
import statistics
import sys

from harness import ROOT, fail, run, table, write_license

sys.path.insert(0, str(ROOT / "python"))

from optimus.tune import costs, journal  # noqa: E402
from optimus.tune.machine import Class  # noqa: E402
from optimus.tune.simulated import least_seconds  # noqa: E402
from optimus.tune.study import Study  # noqa: E402
from suite.search_predictions import predictions_of, rows_of  # noqa: E402

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(trials=40, rounds=1, steps=40)
ORDERS = ("fcfs", "placed")
CLASSES = [("large", 0.8, 8192, {}), ("old", 0.4, 2048, {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
           ("small", 0.2, 1024, {}), ("tiny", 0.1, 512, {})]
SPEC = """\
[study]
trials = {trials}
seed = 5
objectives = ["loss"]

[model]
name = "gpt2"
layers = {{ randint = [1, 4] }}
hidden = {{ choice = [32, 64, 128, 192, 256] }}
heads = 4
seq = 64
vocab = 256
batch = {{ choice = [4, 8, 16, 32] }}

[compile]
precision = {{ choice = ["f32", "bf16"] }}

[train]
data = "text.txt"
steps = {steps}
lr = {{ log-uniform = [1e-4, 1e-2] }}
"""
CGROUPS = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A control group with a part of a core and a limit of memory, of version 1."""

    def __init__(self, name, cores, mebibytes):
        self.folders = [CGROUPS / controller / f"optimus-search-{os.getpid()}-{name}"
                        for controller in ("cpu", "memory")]
        for folder in self.folders:
            folder.mkdir()
        cpu, memory = self.folders
        (cpu / "cpu.cfs_quota_us").write_text(str(int(cores * 100_000)))
        (memory / "memory.limit_in_bytes").write_text(str(mebibytes << 20))

    def prefix(self):
        """A command that starts another one in it."""
        enter = " && ".join(f"echo $$ >{folder}/cgroup.procs" for folder in self.folders)
        return ["sh", "-c", f'{enter} && exec "$@"', "sh"]

    def remove(self):
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def write_pool(path, groups):
    rows = []
    for (name, _, _, environment), group in zip(CLASSES, groups):
        pairs = ", ".join(f'{key} = "{value}"' for key, value in environment.items())
        rows.append(f'[[worker]]\nname = "{name}"\nprefix = {json.dumps(group.prefix())}\n'
                    f"environment = {{ {pairs} }}\n")
    path.write_text("\n".join(rows))


def play(tools, folder, order, number):
    """The records of a study."""
    study = folder / f"{order}-{number}"
    program = tools.path("run").parent / "optimus-tune"
    run([program, "run", folder / "search.toml", "-o", study, "--pool", folder / "pool.toml",
         "--order", order])
    return journal.read(str(study))


def study_of(records):
    study = Study()
    for record in records:
        study.apply(record)
    return study, costs.corrections_of(records, study.trials)


def seconds_of(records):
    return max(record["time"] for record in records if record["kind"] == "ended")


def bound_of(records):
    study, corrections = study_of(records)
    classes = {Class(**found).key: found for found in study.classes.values()}
    durations = {}
    for trial in study.trials:
        if trial.outcome == "done":
            durations[trial.number] = {
                key: costs.cost(trial.prediction, corrections, key, found, trial.model,
                                trial.values["train.steps"]).weight
                for key, found in classes.items()}
    return least_seconds(durations, dict.fromkeys(classes, 1))


def mistakes_of(records, trials, order):
    ended = [record["trial"] for record in records if record["kind"] == "ended"]
    lost = [record for record in records if record["kind"] == "lost"]
    found = [f"{order}: a trial was lost: {record['message']}" for record in lost]
    if sorted(ended) != list(range(trials)):
        found.append(f"{order}: {len(ended)} of {trials} trials ended")
    return found


def main(options, tools, folder):
    if os.geteuid() != 0 or not (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists():
        fail("control groups of version 1 need root, and a machine that has them")
    write_license(folder / "text.txt")
    (folder / "search.toml").write_text(SPEC.format(trials=options.trials, steps=options.steps))
    groups = [Group(*found[:3]) for found in CLASSES]
    try:
        write_pool(folder / "pool.toml", groups)
        found = {order: [] for order in ORDERS}
        for number in range(options.rounds):
            for order in ORDERS[:: 1 if number % 2 else -1]:
                found[order].append(play(tools, folder, order, number))
    finally:
        for group in groups:
            group.remove()
    mistakes = [each for order in ORDERS for records in found[order]
                for each in mistakes_of(records, options.trials, order)]
    bound = statistics.median(bound_of(records) for records in found["placed"])
    seconds = {order: statistics.median(map(seconds_of, found[order])) for order in ORDERS}
    gap = seconds["fcfs"] - bound
    closed = f"{100 * (seconds['fcfs'] - seconds['placed']) / gap:.0f} %" if gap > 0 else "-"
    rows = [[order, f"{seconds[order]:.1f}", closed if order == "placed" else ""] for order in ORDERS]
    rows.append(["bound", f"{bound:.1f}", "100 %"])
    predictions = [each for records in found["placed"] + found["fcfs"]
                   for each in predictions_of(records)]
    memory = [(each.held - each.planned) / 2**20 for each in predictions]
    text = (f"{options.trials} trials, {options.rounds} rounds in turn; a process held "
            f"{min(memory):.0f} to {max(memory):.0f} MiB beyond its plan.")
    return {
        "orders": table(["order", "seconds", "of the gap closed"], rows),
        "predictions": f"{text}\n\n{rows_of(predictions)}",
    }, mistakes

# ===- search_size - A search of many workers and trials ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What a decision of optimus-tune takes with many workers and trials, under a virtual
clock.

    bench/run search-size --workers 10000 --trials 40000 --write bench/results/search.md

Four classes: one with six times slower bf16, one with little memory, one with wall times;
a hundredth of the jobs is lost, the sampler is `random`. Seconds are those of a processor,
beside what the machine is slower by than the ledger's: it fails where a decision takes
more than 0.5 ms in the mean or 10 ms at most on the ledger's machine, or the whole more
than 2 GiB.

`--asks N` also asks Optuna's TPE for N trials of the same space, and tells each a loss at
once. It prints the milliseconds of both, the mean of the last 50, and the number of
workers that trials of a minute keep busy then. It needs `scripts/setup --tune`.
"""

import gc
import resource
import sys
import time

from harness import ROOT, table

sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "scripts"))

from ledger import slowness  # noqa: E402
from optimus.tune.domains import parse  # noqa: E402
from optimus.tune.machine import Class  # noqa: E402
from optimus.tune.policies import make_policy  # noqa: E402
from optimus.tune.samplers import RandomSampler, make_sampler  # noqa: E402
from optimus.tune.search import Search  # noqa: E402
from optimus.tune.simulate import Simulation  # noqa: E402
from optimus.tune.spaces import Leaf, Space  # noqa: E402
from optimus.tune.spec import Spec, Study  # noqa: E402
from optimus.tune.study import Trial  # noqa: E402
from optimus.tune.virtual_pool import Kind, Pool  # noqa: E402

TARGETS = []
NUMBERS = dict(workers=10_000, trials=40_000, asks=0)
MEAN_OF = 50
MEAN_MS, WORST_MS, MIB = 0.5, 10.0, 2048
SPACE = Space((Leaf("model.name", parse("gpt2"), 1),
               Leaf("model.hidden", parse({"log-uniform": [16, 512]}), 2),
               Leaf("compile.precision", parse({"choice": ["f32", "bf16"]}), 3),
               Leaf("train.steps", parse(81), 4)))


def predict(values):
    """As a transformer's: bytes and seconds go with the square of its width."""
    width = values["model.hidden"]
    if width > 400:
        return {"refusal": "too wide"}
    return {"rank_bytes": int(1000 * width**2), "ranks": 1, "step_ms": width**2 / 500,
            "tokens": 100}


def pool_of(workers):
    def kind(name, cores, mebibytes, bf16=1.0, wall=None):
        its_class = Class(cores, mebibytes << 20, "avx2", name)
        return Kind(name, workers // 4, its_class, {"": 1 / cores, "bf16": bf16 / cores},
                    0.5, wall)

    return Pool([kind("a", 0.8, 8192), kind("b", 0.4, 2048, bf16=6.0), kind("c", 0.1, 300),
                 kind("d", 1.0, 8192, wall=20_000.0)], noise=0.1, losses=0.01)


class Timed(Search):
    """Notes what each decision takes of the processor."""

    calls, total, worst = 0, 0.0, 0.0

    def decide(self, now):
        begin = time.thread_time()
        found = super().decide(now)
        took = time.thread_time() - begin
        self.calls, self.total = self.calls + 1, self.total + took
        self.worst = max(self.worst, took)
        return found


def asks(count):
    """Rows of how long TPE takes after so many trials."""
    study = Study(trials=count, objectives=("loss",), sampler="tpe")
    sampler = make_sampler(Spec("spec.toml", ".", "", study, SPACE))
    took, rows = [], []
    for number in range(count):
        begin, more = time.thread_time(), {}
        drawn = sampler.ask(number, more)
        trial = Trial(number, drawn.values, drawn.space, more)
        trial.end = {"outcome": "done", "objectives": [1 / trial.values["model.hidden"]]}
        sampler.tell(trial)
        took.append(time.thread_time() - begin)
        if number + 1 in (100, 300, 1000, 3000, 10_000, 30_000) or number + 1 == count:
            mean = sum(took[-MEAN_OF:]) / MEAN_OF
            rows.append([f"{number + 1:,}", f"{1e3 * mean:.1f}", f"{60 / mean:,.0f}"])
    return rows


def main(options, _tools, _folder):
    gc.disable()  # as optimus-tune does
    study = Study(trials=options.trials, objectives=("loss",))
    spec = Spec("spec.toml", ".", "", study, SPACE)
    search = Timed(spec, RandomSampler(SPACE, 0), make_policy(spec))
    slower, begin = [slowness()], time.process_time()
    result = Simulation(search, pool_of(options.workers), predict).run()
    seconds = time.process_time() - begin
    slower.append(slowness())
    mean, worst = 1e3 * search.total / result.decisions, 1e3 * search.worst
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    factor = sum(slower) / 2
    text = table(
        ["workers", "trials", "ms a decision, mean", "worst", "processor s in all", "MiB",
         "slower than the ledger's"],
        [[f"{options.workers:,}", f"{options.trials:,}", f"{mean:.2f}", f"{worst:.1f}",
          f"{seconds:.0f}", f"{mib:,}", f"{factor:.2f}"]])
    wrong = []
    if sum(result.outcomes.values()) != options.trials or not all(
            trial.end for trial in search.study.trials):
        wrong.append("a trial did not end")
    for found, most, what in ((mean, MEAN_MS * factor, "ms a decision"),
                              (worst, WORST_MS * factor, "ms at most"), (mib, MIB, "MiB")):
        if found > most:
            wrong.append(f"expected {most:.3g} {what}, found {found:.3g}")
    tables = {f"size-{options.trials}": text}
    if options.asks:
        tables["asks"] = table(
            ["trials before", "ms of a processor", "workers kept busy, trials of a minute"],
            asks(options.asks))
    return tables, wrong

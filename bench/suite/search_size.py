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
"""

import gc
import resource
import sys
import time

from harness import ROOT, table

sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "scripts"))

from ledger import slowness  # noqa: E402
from optimus.tune import COLLECTIONS  # noqa: E402
from optimus.tune.domains import parse  # noqa: E402
from optimus.tune.machine import Class  # noqa: E402
from optimus.tune.policies import make_policy  # noqa: E402
from optimus.tune.samplers import RandomSampler  # noqa: E402
from optimus.tune.search import Search  # noqa: E402
from optimus.tune.simulate import Simulation  # noqa: E402
from optimus.tune.spaces import Leaf, Space  # noqa: E402
from optimus.tune.spec import Spec, Study  # noqa: E402
from optimus.tune.virtual_pool import Kind, Pool  # noqa: E402

TARGETS = []
NUMBERS = dict(workers=10_000, trials=40_000)
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


def main(options, _tools, _folder):
    gc.set_threshold(*COLLECTIONS)
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
    return {f"size-{options.trials}": text}, wrong

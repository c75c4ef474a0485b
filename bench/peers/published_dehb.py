#!/usr/bin/env python3
# ===- published_dehb.py - DEHB beside the package of its authors -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The rungs `dehb` of optimus-tune and PyPI's package dehb on standard functions with
fidelities from 1 to 81, evaluation by evaluation, and whether their regrets can be told
from each other, at the 5 % level. It fails where they can.

    python3 -m venv v && v/bin/pip install dehb==0.1.2 scipy
    v/bin/python bench/peers/published_dehb.py --write bench/results/dehb.md

An evaluation costs its fidelity; both have the same budget, in rounds of the five
brackets. The regret is that of the best evaluation with the whole fidelity.
"""

import argparse
import logging
import math
import pathlib
import sys
import tempfile
import time
import warnings

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "python"))
from optimus.tune.dehb import Dehb, dehb_sizes  # noqa: E402
from optimus.tune.domains import parse  # noqa: E402
from optimus.tune.samplers import UnitSampler  # noqa: E402
from optimus.tune.spaces import Leaf, Space  # noqa: E402
from optimus.tune.spec import Rungs, Spec, Study as Chosen  # noqa: E402
from optimus.tune.study import Study  # noqa: E402

LEAST, MOST, FACTOR = 1, 81, 3
HARTMANN_3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
PLACES_3 = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
HARTMANN_6 = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
PLACES_6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x, share):
    """As «Multi-fidelity Bayesian Optimisation with Continuous Approximations»,
    arXiv 1703.06240, makes fidelities of it, and of Hartmann's functions."""
    one, two = 15 * x[0] - 5, 15 * x[1]
    lack = 1 - share
    b, c, t = 5.1 / (4 * math.pi**2) - 0.01 * lack, 5 / math.pi - 0.1 * lack, 1 / (8 * math.pi)
    t += 0.05 * lack
    return (two - b * one**2 + c * one - 6) ** 2 + 10 * (1 - t) * math.cos(one) + 10


def hartmann(weights, places):
    def value(x, share):
        heights = np.array([1.0, 1.2, 3.0, 3.2]) - 0.1 * (1 - share)
        return -float(heights @ np.exp(-(weights * (x - places) ** 2).sum(axis=1)))

    return value


def currin(x, share):
    """Currin's exponential function, with the low fidelity of Xiong, Qian and Wu (2013)
    to the part that is missing."""

    def high(one, two):
        first = 1 - math.exp(-1 / (2 * two)) if two > 0 else 1.0
        upper = 2300 * one**3 + 1900 * one**2 + 2092 * one + 60
        return first * upper / (100 * one**3 + 500 * one**2 + 4 * one + 20)

    one, two = x
    below, above = max(0.0, two - 0.05), two + 0.05
    low = sum(high(one + side, each) for side in (0.05, -0.05) for each in (above, below)) / 4
    # It is to be maximized.
    return -(share * high(one, two) + (1 - share) * low)


FUNCTIONS = {
    "Branin": (2, branin, 0.39788736),
    "Currin": (2, currin, -13.79872217),
    "Hartmann 3": (3, hartmann(HARTMANN_3, PLACES_3), -3.86278215),
    "Hartmann 6": (6, hartmann(HARTMANN_6, PLACES_6), -3.32236801),
}


def round_cost():
    """Of all brackets, once."""
    rungs = round(math.log(MOST / LEAST, FACTOR)) + 1
    return sum(
        size * LEAST * FACTOR ** (rungs - len(sizes) + place)
        for sizes in (dehb_sizes(rungs, FACTOR, bracket) for bracket in range(rungs))
        for place, size in enumerate(sizes)
    )


class Meter:
    """The function, with a note of the budget spent and the best of whole fidelity."""

    def __init__(self, name, budgets):
        self.dimensions, self._function, self._least = FUNCTIONS[name]
        self._budgets = list(budgets)
        self.spent, self._best = 0.0, math.inf
        self.regrets = []  # at each budget

    def __call__(self, x, fidelity):
        while self._budgets and self.spent + fidelity > self._budgets[0]:
            self.regrets.append(self._best - self._least)
            self._budgets.pop(0)
        self.spent += fidelity
        value = float(self._function(np.asarray(x, float), fidelity / MOST))
        if fidelity == MOST:
            self._best = min(self._best, value)
        return value

    @property
    def is_spent(self):
        return not self._budgets


def ours(meter, seed):
    """A trial at a time, as records of a journal."""
    names = ["x%d" % each for each in range(meter.dimensions)]
    space = Space(
        tuple(Leaf(name, parse({"uniform": [0, 1]}), 1) for name in names)
    )
    chosen = Chosen(
        trials=10**9,
        seed=seed,
        objectives=("loss",),
        rungs=Rungs("dehb", LEAST, FACTOR, None),
    )
    spec = Spec("spec.toml", ".", "", chosen, space)
    policy, sampler, study = Dehb(spec, MOST), UnitSampler(space, seed), Study()

    def apply(record):
        study.apply(record)
        policy.apply(record, study)

    while not meter.is_spent:
        wanted = policy.next(study, 0.0)
        if "trial" in wanted:
            apply({"kind": "promoted", **wanted})
            number, until = wanted["trial"], wanted["until"]
        else:
            number = len(study.trials)
            drawn = sampler.ask(number, wanted["more"])
            given = {"kind": "given", "trial": number, "values": drawn.values}
            apply({**given, "space": "", "more": wanted["more"]})
            until = policy.first_rung(study.trials[number])
        started = {"kind": "started", "trial": number, "worker": "w", "time": 0.0}
        apply({**started, "until": until})
        values = study.trials[number].values
        value = meter([values[name] for name in names], until or MOST)
        if until:
            apply({"kind": "rung", "trial": number, "step": until, "objective": value})
        else:
            end = {"kind": "ended", "trial": number, "outcome": "done"}
            apply({**end, "objectives": [value]})


def published(meter, seed):
    from dehb import DEHB

    with tempfile.TemporaryDirectory() as folder:
        optimizer = DEHB(
            f=lambda *_: None,
            dimensions=meter.dimensions,
            min_fidelity=LEAST,
            max_fidelity=MOST,
            eta=FACTOR,
            n_workers=1,
            output_path=folder,
            seed=seed,
            save_freq="end",
            log_level="ERROR",
        )
        while not meter.is_spent:
            job = optimizer.ask()
            fidelity = round(job["fidelity"])
            value = meter(job["config"], fidelity)
            optimizer.tell(job, {"fitness": value, "cost": fidelity})


def main():
    parser = argparse.ArgumentParser(description="DEHB beside the published package")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4, help="of all five brackets")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    import dehb
    from scipy.stats import mannwhitneyu

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    halves = [options.rounds / 4, options.rounds / 2, options.rounds]
    budgets = [round(each * round_cost()) for each in halves]
    rows, told = [], []
    for name in FUNCTIONS:
        regrets, seconds = [], []
        for run in (ours, published):
            began = time.process_time()
            found = []
            for seed in range(options.seeds):
                meter = Meter(name, budgets)
                run(meter, seed)
                found.append(meter.regrets)
            regrets.append(np.array(found))
            seconds.append(time.process_time() - began)
        for place, budget in enumerate(budgets):
            one, other = (each[:, place] for each in regrets)
            p = mannwhitneyu(one, other).pvalue
            quartiles = [
                "%.2g (%.2g to %.2g)" % tuple(np.quantile(each, [0.5, 0.25, 0.75]))
                for each in (one, other)
            ]
            rows.append([name, format(budget, ","), *quartiles, "%.2f" % p])
            print(" | ".join(rows[-1]), flush=True)
            # One of so many tests may be below 0.05 by chance.
            if budget == budgets[-1] and p < 0.05 / len(FUNCTIONS):
                told.append(name)
        print("%s: %.1f and %.1f s" % (name, *seconds), flush=True)
    if options.write:
        version = getattr(dehb, "__version__", "0.1.2")
        header = ["function", "budget", "optimus-tune", "dehb " + version, "p"]
        lines = [header, ["---"] * len(header), *rows]
        text = PAGE % (version, options.seeds, MOST)
        table = "\n".join("| %s |" % " | ".join(line) for line in lines)
        options.write.write_text(text + table + "\n")
    if told:
        sys.exit("told from each other at the end: %s" % ", ".join(told))


PAGE = """# DEHB beside the package of its authors

`bench/peers/published_dehb.py`, dehb %s of PyPI, %d seeds.

Both minimize a function whose fidelities go from 1 to %d by a factor of 3; an evaluation costs its fidelity.
The budget is in these units: a round of the five brackets, [81, 27, 9, 3, 1], [27, 9, 3, 1], [9, 3, 1], [6, 2] and [5], takes 1,701.
Figures are the regret of the best evaluation of whole fidelity: median and quartiles over seeds, and p of Mann and Whitney's test of two samples, two-sided.
Four functions are tested at the last budget: at the 5 %% level together, by Bonferroni, the script fails where a p is below 0.0125.

* Branin, Hartmann 3 and Hartmann 6: fidelities of Kandasamy and others, «Multi-fidelity Bayesian Optimisation with Continuous Approximations», arXiv 1703.06240.
* Currin: the exponential function with the low fidelity of Xiong, Qian and Wu (2013).

"""

if __name__ == "__main__":
    main()

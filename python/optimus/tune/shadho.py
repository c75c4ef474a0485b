# ===- shadho.py - SHADHO's deal of spaces -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""How SHADHO gives spaces to classes (Kinnison and others, WACV 2018), to compare with:
sorted by complexity times priority, dealt to classes in proportion to their workers, with
one neighbour more on each side, and drawn with weights n, n - 1, … 1. The classes are
sorted by their speed; the fastest has the greatest.

Complexity is 2 + the width of a continuous domain, in the scale in which it is drawn,
and 2 - 1/n for a list of n; that of a space is the sum. A normal's width holds 99 %.

The priority is how steep the loss is in a space: its deviation over the length scale of
a squared-exponential kernel, the likeliest of SCALES for the last results there. Spaces
with few results have the mean one.
"""

import math
import random
import statistics
from typing import Any, Dict, List, Tuple

from optimus.tune import TuneError, domains, spaces
from optimus.tune.mix import ByClass, Times
from optimus.tune.spaces import Leaf, Space
from optimus.tune.study import Trial

SCALES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""In parts of a domain."""
NOISE = 0.1
"""Variance of a loss, of that of all in its space."""
FEWEST, MOST = 6, 24
"""Results by which a kernel is fitted."""
MOST_SPACES = 4096
HALF = 2.5758
"""Deviations on each side that hold 99 % of a normal."""


def complexity(domain: Any) -> float:
    if isinstance(domain, domains.Uniform):
        low, high = domain.low, domain.high
        return 2 + (math.log(high / low) if domain.is_log else high - low)
    if isinstance(domain, domains.Normal):
        return 2 + 2 * HALF * domain.deviation
    if isinstance(domain, domains.Whole):
        return 2 - 1 / ((domain.high - domain.low) // domain.step + 1)
    if isinstance(domain, (domains.Choice, domains.Exhaustive)):
        return 2 - 1 / len(domain.options)
    if isinstance(domain, domains.Sequential):
        return sum(map(complexity, domain.parts))
    if isinstance(domain, domains.Repeat):
        lengths = domain.most - domain.least + 1
        return 2 - 1 / lengths + domain.most * complexity(domain.part)
    if isinstance(domain, domains.Dependent):
        return max(map(complexity, (domain.table or {}).values()), default=0.0)
    return 1.0  # a list of one


def _place(leaf: Leaf, value: Any) -> Any:
    """Of a value in its domain, 0 to 1; itself where values have no order."""
    domain = leaf.domain
    if isinstance(domain, domains.Whole):
        return (value - domain.low) / max(1, domain.high - domain.low)
    if isinstance(domain, domains.Uniform):
        low, high = domain.bounds
        if (domain.is_log or domain.base) and low > 0:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / ((high - low) or 1.0)
    return value


def _distance(one: List[Any], other: List[Any]) -> float:
    """Squared."""
    return sum(
        (a - b) ** 2
        if isinstance(a, float) and isinstance(b, float)
        else float(a != b)
        for a, b in zip(one, other)
    )


def _likelihood(distances: List[List[float]], values: List[float], scale: float) -> float:
    """The logarithm, but for a constant, by Cholesky's factors."""
    rows: List[List[float]] = []
    solved: List[float] = []
    total = 0.0
    for place, value in enumerate(values):
        row: List[float] = []
        for other in range(place):
            kernel = math.exp(-distances[place][other] / (2 * scale * scale))
            kernel -= sum(a * b for a, b in zip(row, rows[other]))
            row.append(kernel / rows[other][other])
        row.append(math.sqrt(1 + NOISE - sum(each * each for each in row)))
        rows.append(row)
        solved.append((value - sum(a * b for a, b in zip(row, solved))) / row[place])
        total -= solved[place] ** 2 / 2 + math.log(row[place])
    return total


def steepness(leaves: List[Leaf], trials: List[Trial]) -> float:
    """Of the loss of trials of a space; 0 where all losses are equal."""
    values = [trial.objectives[0] for trial in trials]
    deviation = statistics.pstdev(values)
    if not deviation:
        return 0.0
    mean = statistics.fmean(values)
    values = [(each - mean) / deviation for each in values]
    points = [[_place(leaf, trial.values[leaf.name]) for leaf in leaves] for trial in trials]
    distances = [[_distance(one, other) for other in points] for one in points]
    scale = max(SCALES, key=lambda scale: _likelihood(distances, values, scale))
    return deviation / scale


class Dealt(ByClass):
    def __init__(self, space: Space, seed: int):
        super().__init__(space, seed)
        self._leaves: Dict[str, List[Leaf]] = {}
        for label in spaces.labels(space):
            if len(self._leaves) == MOST_SPACES:
                raise TuneError(
                    "--order shadho: expected at most %d spaces, found more" % MOST_SPACES
                )
            self._leaves[label] = spaces.leaves(space, label)
        self._complexity = {
            label: sum(complexity(leaf.domain) for leaf in its)
            for label, its in self._leaves.items()
        }
        self._results: Dict[str, List[Trial]] = {}
        self._dealt: Dict[str, List[str]] = {}

    def apply(self, record, trial) -> None:
        super().apply(record, trial)
        if trial.outcome == "done" and math.isfinite(trial.objectives[0]):
            its = self._results.setdefault(trial.space, [])
            its.append(trial)
            del its[:-MOST]

    def priorities(self) -> Dict[str, float]:
        found = {
            label: steepness(self._leaves[label], trials)
            for label, trials in self._results.items()
            if len(trials) >= FEWEST
        }
        mean = statistics.fmean(found.values()) if found else 1.0
        return {label: found.get(label, mean) for label in self._leaves}

    def _given(self, times: Times, workers: Dict[str, int]):
        priority = self.priorities()
        ranked = sorted(
            self._leaves, key=lambda label: (-self._complexity[label] * priority[label], label)
        )
        self._dealt = deal(ranked, _fastest_first(times, workers))
        return {kind: set(its) for kind, its in self._dealt.items()}

    def _label(self, kind: str, draws: random.Random) -> str:
        its = self._dealt[kind]
        return draws.choices(its, weights=range(len(its), 0, -1))[0]


def _fastest_first(times: Times, workers: Dict[str, int]) -> List[Tuple[str, int]]:
    def mean(kind: str) -> float:
        known = [row[kind] for row in times.values() if row[kind] < math.inf]
        return statistics.fmean(known) if known else math.inf

    return sorted(workers.items(), key=lambda each: (mean(each[0]), each[0]))


def deal(ranked: List[str], workers: List[Tuple[str, int]]) -> Dict[str, List[str]]:
    """Each class has a part of the list, in the order of classes, and a neighbour on each
    side, of which there is one at least."""
    total, before = sum(count for _, count in workers), 0
    found = {}
    for kind, count in workers:
        first = round(len(ranked) * before / total)
        before += count
        last = round(len(ranked) * before / total)
        found[kind] = ranked[max(0, min(first, len(ranked) - 1) - 1) : last + 1]
    return found

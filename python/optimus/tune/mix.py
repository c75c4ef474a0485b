# ===- mix.py - Which spaces a class draws in ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""With `--draw class` the sampler is asked for a trial of a class, in a space that suits
it. A space suits a class whose time in it, beside the means of both, is short:

    logarithms of seconds        a      b          less both means, plus that of all
    small                        1      2          +1   -1
    large                        4      9          -1   +1

    a draws in large, b in small. Were b a hundred times as slow in both, it stayed so.

Within its spaces a class draws as all would: the shared mix, of those alone.
"""

import math
import random
import statistics
from collections import Counter
from typing import Callable, Dict, List, Optional, Set

from optimus.tune import TuneError, spaces
from optimus.tune.journal import Record
from optimus.tune.scheduler import Cost
from optimus.tune.spaces import Space
from optimus.tune.study import Trial

DRAWS = ("shared", "class")
KEPT = 8
"""Trials that speak for a space."""
GROWTH = 1.25
"""Of the predictions, after which classes are given spaces anew."""
MARGIN = math.log(1.1)
"""Beyond both means, that a time may be by the noise of measurements."""
TRIES = 64
"""Draws from the shared mix."""

CostOf = Callable[[Trial, str], Cost]
Times = Dict[str, Dict[str, float]]
"""Logarithms of seconds by space and class; infinite where most trials cannot run."""


class ByClass:
    """Asks for each class by turns, so that trials wait for all workers alike."""

    def __init__(self, space: Space, seed: int):
        self._space, self._seed = space, seed
        if not space.unions:
            raise TuneError(
                "--draw class: expected alternatives in the specification, exclusive or "
                "optional, found one space"
            )
        self._asked: Dict[int, str] = {}
        """Trials that have not begun, and their classes."""
        self._waiting: Counter = Counter()
        self._seen: Dict[str, List[Trial]] = {}
        """Predicted ones by space."""
        self._predictions = 0
        self._basis = (0, -1, frozenset())
        self._spaces: Dict[str, Set[str]] = {}

    def apply(self, record: Record, trial: Trial) -> None:
        kind = record["kind"]
        if kind == "given" and "class" in trial.more:
            self._asked[trial.number] = trial.more["class"]
            self._waiting[trial.more["class"]] += 1
        elif kind == "predicted":
            self._predictions += 1
            self._seen[trial.space] = [*self._seen.get(trial.space, ()), trial][-KEPT:]
        elif kind in ("started", "ended") and trial.number in self._asked:
            self._waiting[self._asked.pop(trial.number)] -= 1

    def ask(
        self, number: int, workers: Dict[str, int], cost: CostOf, version: int
    ) -> Optional[Record]:
        """The class of the next trial, its space, and the share of that in the shared mix.
        `workers` are those of each class; `version` is that of costs."""
        if not workers:
            return None
        kind = min(sorted(workers), key=lambda kind: self._waiting[kind] / workers[kind])
        self._renew(workers, cost, version)
        label = self._label(kind, random.Random("%d/%d/space" % (self._seed, number)))
        share = spaces.share(self._space, label)
        return {"class": kind, "space": label, "share": round(share, 6)}

    def _renew(self, workers: Dict[str, int], cost: CostOf, version: int) -> None:
        count, its_version, kinds = self._basis
        is_same = version == its_version and kinds == frozenset(workers)
        if is_same and self._predictions < GROWTH * count + 1:
            return
        self._basis = (self._predictions, version, frozenset(workers))
        times = {
            label: log_seconds(trials, sorted(workers), cost)
            for label, trials in self._seen.items()
        }
        self._spaces = self._given(times, workers)

    def _given(self, times: Times, _workers: Dict[str, int]) -> Dict[str, Set[str]]:
        return suited(times)

    def _label(self, kind: str, draws: random.Random) -> str:
        """Of a space that suits a class, or of an unknown one."""
        own = self._spaces.get(kind, set())
        for _ in range(TRIES):
            label = spaces.draw_label(self._space, draws)
            if label in own or label not in self._seen:
                return label
        return draws.choice(sorted(own)) if own else label


def log_seconds(trials: List[Trial], kinds: List[str], cost: CostOf) -> Dict[str, float]:
    """The mean of a space on each class, of trials that the same classes can run."""
    rows = [[cost(trial, kind).weight for kind in kinds] for trial in trials]
    able = [
        sum(row[place] < math.inf for row in rows) * 2 > len(rows)
        for place in range(len(kinds))
    ]
    whole = [
        row
        for row in rows
        if all(row[place] < math.inf for place in range(len(kinds)) if able[place])
    ]
    return {
        kind: (
            statistics.fmean(math.log(max(row[place], 1e-9)) for row in whole)
            if able[place] and whole
            else math.inf
        )
        for place, kind in enumerate(kinds)
    }


def suited(times: Times) -> Dict[str, Set[str]]:
    """The spaces of each class. Each class has one, and each space belongs to a class,
    but for those without a finite time."""
    kinds = sorted({kind for row in times.values() for kind in row})
    finite = {
        label: {kind: value for kind, value in row.items() if value < math.inf}
        for label, row in times.items()
    }
    finite = {label: row for label, row in finite.items() if row}
    of_space = {label: statistics.fmean(row.values()) for label, row in finite.items()}
    beside: Times = {kind: {} for kind in kinds}
    for label, row in finite.items():
        for kind, value in row.items():
            beside[kind][label] = value - of_space[label]
    for row in beside.values():
        mean = statistics.fmean(row.values()) if row else 0.0
        row.update({label: value - mean for label, value in row.items()})
    found = {
        kind: {label for label, value in row.items() if value <= MARGIN}
        for kind, row in beside.items()
    }
    for kind, row in beside.items():
        if row:
            found[kind].add(min(sorted(row), key=row.__getitem__))
    for label, row in finite.items():
        found[min(sorted(row), key=lambda kind: beside[kind][label])].add(label)
    return found

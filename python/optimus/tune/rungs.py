# ===- rungs.py - Trials that stop early and go on -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Rungs: a trial stops after some steps, and goes on from its checkpoint if it is among
the best. With η = 3, rungs of 1, 3, 9, 27 and 81 steps.

    asha       a trial goes on once it is in the best third of its rung
    hyperband  brackets [81, 34, 15, 8, 5] of trials on the lowest rung of each; a rung
               waits for its bracket, and the best third goes on
    dehb       brackets [81,27,9,3,1], [27,9,3,1], [9,3,1], [6,2], [5]; trials are
               promoted in the first round of brackets, later each rung evolves

DEHB is in dehb.py. A policy is pure, as all of a search: records in, `next` says what is
to be done.
"""

import heapq
import math
from typing import Dict, List, Optional, Set, Tuple

from optimus.tune.journal import Record
from optimus.tune.spec import Spec
from optimus.tune.study import Study, Trial

INFINITE = math.inf


def budgets(least: int, most: int, factor: int) -> List[int]:
    """Steps of the rungs, of which the last is `most`."""
    count = 1
    while most >= least * factor**count:
        count += 1
    return [max(1, round(most / factor**power)) for power in reversed(range(count))]


def hyperband_sizes(rungs: int, factor: int, bracket: int) -> List[int]:
    """Trials on each rung of a bracket; later brackets begin higher."""
    above = rungs - 1 - bracket % rungs
    # Rational, since ⌈5 / 5 · 81⌉ is 81 and not 82.
    first = -(-rungs * factor**above // (above + 1))
    return [first // factor**power for power in range(above + 1)]


class Rungs:
    """What all policies with rungs share: where each trial is."""

    def __init__(self, spec: Spec, steps: int):
        self.options = spec.study.rungs
        self.budgets = budgets(self.options.least, steps, self.options.factor)
        self.left = spec.study.trials
        self.seed = spec.study.seed

    def until(self, rung: int) -> Optional[int]:
        """None: the last rung is the end of the trial."""
        return self.budgets[rung] if rung < len(self.budgets) - 1 else None

    def more_to_come(self) -> bool:
        return self.left > 0

    def expired(self, _now: float) -> Optional[int]:
        return None

    @staticmethod
    def result(record: Record, trial: Trial) -> Optional[float]:
        """The value that a record brings; infinity for a trial that failed."""
        if record["kind"] == "rung":
            return trial.rungs[record["step"]]
        if record["kind"] == "ended" and record["outcome"] != "stopped":
            return trial.objectives[0] if trial.objectives else INFINITE
        return None


class Ranking:
    """The results of a rung, of which the best part may go on. Each costs the logarithm
    of their number, as a search of a million trials needs it."""

    def __init__(self, factor: int):
        self._factor = factor
        self._best: List[Tuple[float, int]] = []
        """A heap of negated values and trials, the worst on top."""
        self._others: List[Tuple[float, int]] = []
        self._candidates: List[Tuple[float, int]] = []
        """A heap of those that came to be among the best."""
        self._members: Set[int] = set()
        self._promoted: Set[int] = set()

    def __len__(self) -> int:
        return len(self._best) + len(self._others)

    def add(self, value: float, trial: int) -> None:
        heapq.heappush(self._others, (value, trial))
        if self._best and (-value, -trial) > self._best[0]:
            self._drop()
            self._rise()
        if len(self._best) < len(self) // self._factor:
            self._rise()

    def _rise(self) -> None:
        value, trial = heapq.heappop(self._others)
        heapq.heappush(self._best, (-value, -trial))
        heapq.heappush(self._candidates, (value, trial))
        self._members.add(trial)

    def _drop(self) -> None:
        value, trial = heapq.heappop(self._best)
        heapq.heappush(self._others, (-value, -trial))
        self._members.discard(-trial)

    def promote(self, trial: int) -> None:
        self._promoted.add(trial)

    def next(self, study: Study) -> Optional[int]:
        """The best trial that may go on and has not."""
        while self._candidates:
            value, trial = self._candidates[0]
            if (
                value < INFINITE
                and trial in self._members
                and trial not in self._promoted
                and not study.trials[trial].end
            ):
                return trial
            heapq.heappop(self._candidates)  # it returns where it is among the best again
        return None

    def ranked(self) -> List[Tuple[float, int]]:
        """All, the best first."""
        best = [(-value, -trial) for value, trial in self._best]
        return sorted(best + self._others)


class Asha(Rungs):
    def __init__(self, spec: Spec, steps: int):
        super().__init__(spec, steps)
        self._results = [Ranking(self.options.factor) for _ in self.budgets]
        self._rung: Dict[int, int] = {}
        self._under_way = 0

    def first_rung(self, _trial: Trial) -> Optional[int]:
        return self.until(0)

    def apply(self, record: Record, study: Study) -> None:
        kind = record["kind"]
        self._under_way += (kind in ("given", "promoted")) - (kind in ("rung", "ended"))
        if kind == "given":
            self.left -= 1
            self._rung[record["trial"]] = 0
        elif kind == "promoted":
            self._results[self._rung[record["trial"]]].promote(record["trial"])
            self._rung[record["trial"]] += 1
        elif kind in ("rung", "ended"):
            value = self.result(record, study.trials[record["trial"]])
            if value is not None and record.get("outcome") not in (
                "infeasible",
                "failed",
                "memory",
            ):
                self._results[self._rung[record["trial"]]].add(value, record["trial"])

    def next(self, study: Study, _now: float) -> Optional[Record]:
        for rung in reversed(range(len(self.budgets) - 1)):
            trial = self._results[rung].next(study)
            if trial is not None:
                return {"trial": trial, "until": self.until(rung + 1)}
        return {"more": {}} if self.left > 0 else self._last(study)

    def _last(self, study: Study) -> Optional[Record]:
        """With few trials no third of a rung may be one: the best goes on to the end."""
        if self._under_way or self._results[-1]:
            return None
        for rung in reversed(range(len(self.budgets) - 1)):
            for value, trial in self._results[rung].ranked():
                if value < INFINITE and not study.trials[trial].end:
                    return {"trial": trial, "until": self.until(rung + 1)}
        return None


class Bracket:
    """The trials of a bracket, rung by rung."""

    def __init__(self, sizes: List[int], first_rung: int):
        self.sizes, self.first_rung = sizes, first_rung
        self.place = 0
        """The rung within the bracket."""
        self.begun: List[int] = []
        """Trials on this rung, as they began."""
        self.results: Dict[int, float] = {}
        self.before: List[int] = []
        """Trials of the rung below, the best first."""

    @property
    def rung(self) -> int:
        return self.first_rung + self.place

    @property
    def is_over(self) -> bool:
        return self.place == len(self.sizes)

    @property
    def has_room(self) -> bool:
        return not self.is_over and len(self.begun) < self.sizes[self.place]

    def begin(self, trial: int) -> None:
        self.begun.append(trial)

    def end(self, trial: int, value: float) -> None:
        """A result, the first of a trial on this rung; then perhaps the next rung."""
        if trial not in self.begun or trial in self.results:
            return
        self.results[trial] = value
        self.close_rung()

    def shrink(self) -> None:
        """No trial joins any more; rungs above have their part."""
        if self.has_room and self.place == 0:
            count = len(self.begun)
            factor = max(
                2, self.sizes[0] // max(1, self.sizes[min(1, len(self.sizes) - 1)])
            )
            self.sizes = [
                min(size, max(1, count // factor**power))
                for power, size in enumerate(self.sizes)
            ]
            self.close_rung()

    def close_rung(self) -> None:
        if self.is_over or self.has_room or len(self.results) < len(self.begun):
            return
        self.before = sorted(self.begun, key=lambda trial: (self.results[trial], trial))
        self.place, self.begun, self.results = self.place + 1, [], {}


class Brackets(Rungs):
    """Hyperband, and what DEHB shares with it."""

    sizes = staticmethod(hyperband_sizes)

    def __init__(self, spec: Spec, steps: int):
        super().__init__(spec, steps)
        self._brackets: List[Bracket] = []
        self._of: Dict[int, Bracket] = {}
        self._lowest = 0
        """Brackets below it are over."""
        self._since: Dict[int, float] = {}
        """When a job of a trial began, the earliest first."""

    def first_rung(self, trial: Trial) -> Optional[int]:
        return self.until(trial.more["rung"])

    def _open(self, number: int) -> Bracket:
        while len(self._brackets) <= number:
            sizes = self.sizes(len(self.budgets), self.options.factor, len(self._brackets))
            self._brackets.append(Bracket(sizes, len(self.budgets) - len(sizes)))
        return self._brackets[number]

    def apply(self, record: Record, study: Study) -> None:
        kind, number = record["kind"], record.get("trial")
        if kind == "given":
            self.left -= 1
            bracket = self._open(record["more"]["bracket"])
            self._of[number] = bracket
            self.began(bracket, number, record)
            if self.left <= 0:
                # The last ones are fewer than they should be.
                for each in self._brackets:
                    each.shrink()
        elif kind == "promoted":
            self._of[number] = self._brackets[record["bracket"]]
            self.began(self._of[number], number, record)
        elif kind == "started":
            self._since.pop(number, None)
            self._since[number] = record["time"]
        elif kind in ("rung", "ended"):
            self._since.pop(number, None)
            value = self.result(record, study.trials[number])
            if value is not None:
                self.ended(self._of[number], number, value)
        elif kind == "expired":
            self.ended(self._of[number], number, INFINITE)

    def began(self, bracket: Bracket, trial: int, _record: Record) -> None:
        bracket.begin(trial)

    def ended(self, bracket: Bracket, trial: int, value: float) -> None:
        bracket.end(trial, value)

    def expired(self, now: float) -> Optional[int]:
        """A trial for which its rung waits no longer."""
        limit = self.options.seconds
        for trial, since in self._since.items() if limit else ():
            if now - since <= limit:
                break
            bracket = self._of[trial]
            if trial in bracket.begun and trial not in bracket.results:
                return trial
        return None

    def next(self, study: Study, _now: float) -> Optional[Record]:
        while self._lowest < len(self._brackets) and self._brackets[self._lowest].is_over:
            self._lowest += 1
        for number in range(self._lowest, len(self._brackets)):
            found = self.job(number, self._brackets[number], study)
            if found:
                return found
        if self.left <= 0:
            return None
        number = len(self._brackets)
        sizes = self.sizes(len(self.budgets), self.options.factor, number)
        return self.job(number, Bracket(sizes, len(self.budgets) - len(sizes)), study)

    def job(self, number: int, bracket: Bracket, study: Study) -> Optional[Record]:
        """The next one of a bracket."""
        if not bracket.has_room:
            return None
        if bracket.place == 0:
            return self.new(number, bracket) if self.left > 0 else None
        for trial in bracket.before:
            if trial not in bracket.begun and not study.trials[trial].end:
                return {
                    "trial": trial,
                    "until": self.until(bracket.rung),
                    "bracket": number,
                }
        return None

    def new(self, number: int, bracket: Bracket) -> Record:
        return {"more": {"bracket": number, "rung": bracket.rung}}

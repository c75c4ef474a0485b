# ===- study.py - What is known of all trials ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The state of a study, which follows from its journal alone. Records:

study      the specification's digest, its path and the version
worker     a worker came, with its class
class      what its class takes was measured, or why not
given      a sampler gave a trial: values and space
predicted  what optimus-compile says of a trial
started    a trial began or went on, on a worker, until a step
slow       it takes longer than predicted, and is stopped to go on elsewhere
promoted   it is to go on to the next rung
expired    its rung waits for it no longer
rung       it reached that step and may go on
lost       it ended there without a result, and begins again
ended      it ended, once
"""

import bisect
import math
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError
from optimus.tune.journal import Record

RESULTS = ("done", "diverged", "stopped")
"""Outcomes that samplers learn from; a diverged trial is infinitely bad, a stopped one
ended on a lower rung."""
ENDED = ("outcome", "message", "objectives", "seconds")
"""What is kept of a trial's end."""
OUTCOMES = (*RESULTS, "infeasible", "failed", "memory")


NOTHING: Dict[Any, Any] = {}
"""Of ended trials, which nobody changes any more."""


class Attempt(NamedTuple):
    worker: str
    until: Optional[int]
    time: float
    lanes: Tuple[int, ...] = ()
    """The trials of its process in the order of their lanes, itself included; empty: it
    is alone."""


def model_of(values: Dict[str, Any]) -> str:
    """The kind of model, in its type."""
    return sys.intern(
        "%s %s" % (values.get("model.name", ""), values.get("compile.precision", "f32"))
    )


class Trial:
    """A point and what came of it."""

    __slots__ = (
        *("number", "values", "space", "more", "model", "prediction", "attempts"),
        *("losses", "rungs", "running", "stopped", "end"),
    )

    def __init__(self, number: int, values: Dict[str, Any], space: str, more: Record):
        self.number, self.values, self.space = number, values, space
        self.model = model_of(values)
        self.more = more
        """Whatever the sampler or the rungs keep of it."""
        self.prediction: Optional[Record] = None
        self.attempts: Tuple[Attempt, ...] = ()
        self.losses: Tuple[Record, ...] = ()
        """Attempts without a result."""
        self.rungs: Dict[int, float] = {}
        """The first objective by step."""
        self.running: Optional[Attempt] = None
        self.stopped: Tuple[Attempt, ...] = ()
        """Attempts that were slow."""
        self.end: Optional[Record] = None

    @property
    def outcome(self) -> str:
        if self.end:
            return self.end["outcome"]
        return "running" if self.running else "waiting"

    @property
    def objectives(self) -> List[float]:
        """Empty without a result; null in the journal is infinity."""
        found = (self.end or {}).get("objectives") or []
        return [math.inf if each is None else each for each in found]

    @property
    def seconds(self) -> float:
        """Of its attempts on workers."""
        return (self.end or {}).get("seconds", 0.0)


class Study:
    """Raises TuneError for a record that cannot follow from those before it."""

    def __init__(self) -> None:
        self.header: Record = {}
        self.trials: List[Trial] = []
        self.classes: Dict[str, Record] = {}
        """Of workers by name, also of those that are gone."""
        self.ended = 0
        self._front: List[Tuple[List[float], int, Trial]] = []

    def apply(self, record: Record) -> None:
        kind = record["kind"]
        if kind == "study":
            self.header = record
        elif kind == "worker":
            self.classes[record["worker"]] = record["class"]
        elif kind == "class":
            pass  # of interest to people alone
        elif kind == "given":
            if record["trial"] != len(self.trials):
                raise self._wrong(record, "trial %d is next" % len(self.trials))
            more = record.get("more", {})
            self.trials.append(
                Trial(record["trial"], record["values"], record["space"], more)
            )
        elif kind in (
            "predicted",
            "promoted",
            "expired",
            "started",
            "slow",
            "rung",
            "lost",
            "ended",
        ):
            self._apply(kind, self._trial(record), record)
        else:
            raise self._wrong(record, "no record has this kind")

    def _trial(self, record: Record) -> Trial:
        if not 0 <= record["trial"] < len(self.trials):
            raise self._wrong(record, "there is no such trial")
        return self.trials[record["trial"]]

    def _apply(self, kind: str, trial: Trial, record: Record) -> None:
        if trial.end:
            raise self._wrong(record, "the trial has ended")
        if kind == "predicted":
            trial.prediction = record["prediction"]
        elif kind == "promoted":
            trial.more["until"] = record["until"]
        elif kind == "expired":
            pass  # the rungs' alone
        elif kind == "started":
            lanes = tuple(record.get("lanes", ()))
            trial.running = Attempt(
                record["worker"], record.get("until"), record["time"], lanes
            )
            trial.attempts += (trial.running,)
        elif kind == "slow":
            if not trial.running:
                raise self._wrong(record, "the trial is not running")
            trial.stopped += (trial.running,)
        elif kind == "rung":
            trial.rungs[record["step"]] = _number(record["objective"])
            trial.running = None
        elif kind == "lost":
            trial.losses += (record,)
            trial.running = None
        else:
            # Of a million trials the rest of the record is a third of all memory.
            trial.end = {key: record[key] for key in ENDED if key in record}
            trial.running = None
            trial.rungs, trial.more = trial.rungs or NOTHING, trial.more or NOTHING
            self.ended += 1
            if trial.outcome == "done":
                self._add_to_front(trial)

    @staticmethod
    def _wrong(record: Record, why: str) -> TuneError:
        return TuneError(
            "the journal is not that of a study: '%s' of trial %s: %s"
            % (record.get("kind"), record.get("trial"), why)
        )

    def best(self, place: int = 0) -> Optional[Trial]:
        """The finished trial with the least of an objective."""
        found = [
            trial
            for trial in self.trials
            if trial.outcome == "done" and math.isfinite(trial.objectives[place])
        ]
        return min(found, key=lambda trial: trial.objectives[place], default=None)

    def front(self) -> List[Trial]:
        """The finished trials that no other dominates, by the first objective."""
        return [trial for _, _, trial in self._front]

    def _add_to_front(self, trial: Trial) -> None:
        """As it ends: the front is asked for after each end of a search."""
        front, its = self._front, trial.objectives
        new = (its, trial.number, trial)
        place = end = bisect.bisect(front, new)
        # Only those before can dominate it, and it only those behind. Of two objectives
        # the second falls along the front, so that neighbours tell.
        falls = len(its) == 2
        if any(_dominates(each, its) for each, _, _ in front[falls and max(0, place - 1) : place]):
            return
        if falls:
            while end < len(front) and _dominates(its, front[end][0]):
                end += 1
            front[place:end] = [new]
        else:
            front[place:] = [new, *(each for each in front[place:] if not _dominates(its, each[0]))]


def _dominates(one: List[float], other: List[float]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other))


def _number(value: Optional[float]) -> float:
    return math.inf if value is None else value


def finite(value: float) -> Optional[float]:
    """As the journal has it: JSON knows no infinity."""
    return value if math.isfinite(value) else None

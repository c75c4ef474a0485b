# ===- costs.py - What a trial takes on a class ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Predictions of trials, and how measurements correct them.

A prediction is the same for all trials of a program; learning rates, seeds and the like
share one. On a class it takes

    seconds = r · predicted step · steps + other,  bytes = planned + the process's own

with r the median of measured over predicted steps, by class and kind of model, `other`
the median of the seconds beside steps, and the most bytes that a process was seen to
hold beyond its plan.
"""

import functools
import math
import statistics
from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Optional, Set, Tuple

from optimus.planning import Fault, plan
from optimus.tune import names
from optimus.tune.scheduler import Cost

Values = Dict[str, Any]

PROCESS_BYTES = 96 << 20
"""Of code, libraries and stacks, until a process was measured."""
SHARE = 0.98
"""Of the memory limit, that a trial may be predicted to take."""
KEPT = 32
"""Measurements of a kind."""
PUBLISHED = 0.05
"""Share by which a correction must change."""
ERRORS = 3
"""Standard errors of a difference, by which it must, too, once KEPT are known."""


def ranks_of(mesh: str) -> int:
    """Of "row:2,col:3" 6, of "" 1."""
    count = 1
    for axis in filter(None, mesh.split(",")):
        count *= int(axis.partition(":")[2] or 1)
    return count


class Predictor:
    """Asks the compiler, once for each program."""

    def __init__(self, folder: str, prefix: List[str] = ["nice", "-n", "19"]):
        self._folder, self._prefix = folder, prefix
        self._known: Dict[Tuple[str, ...], Dict[str, Any]] = {}

    def predict(self, values: Values) -> Dict[str, Any]:
        """`rank_bytes`, `ranks`, `step_ms` and the `tokens` of a step, of a trial's
        program, or its `refusal`."""
        model = names.arguments(values, "model")
        flags = names.arguments(values, "compile")
        key = (*model, "--", *flags)
        if key not in self._known:
            self._known[key] = self._plan(model, flags)
        found = dict(self._known[key])
        steps = found.pop("by_kind", {})
        if "refusal" not in found:
            microbatches = int(values.get("train.microbatches", 1))
            found["step_ms"] = _step_ms(steps, microbatches)
            found["tokens"] *= microbatches
        return found

    def _plan(self, model: List[str], flags: List[str]) -> Dict[str, Any]:
        try:
            found = plan(model, flags, self._folder, self._prefix)
        except Fault as fault:
            return {"refusal": str(fault)}
        if not found.report:
            return {"refusal": found.reason}
        kinds = {
            each["kind"]: each["predicted_step_ms"]
            for each in found.report["schedule"].values()
        }
        ranks = ranks_of(found.report.get("mesh") or "")
        sizes = found.report["model"]
        return {
            "rank_bytes": found.report["rank_bytes"],
            "ranks": ranks,
            "tokens": sizes["batch"] * sizes["sequence"],
            "by_kind": kinds,
        }


def _step_ms(kinds: Mapping[str, float], microbatches: int) -> float:
    """Of a step: the accumulation of all microbatches but the last, which updates."""
    return kinds["train"] + (microbatches - 1) * kinds.get("accumulate", kinds["train"])


class Corrections:
    """Measurements beside predictions. A correction is published only
    as it has changed by more than PUBLISHED: orders of jobs last as long."""

    def __init__(self) -> None:
        self._ratios: Dict[Tuple[str, str], Deque[float]] = {}
        self._other: Dict[str, Deque[float]] = {}
        """The key "" is for all classes, and for all models of a class."""
        self._public: Dict[Tuple[str, ...], float] = {}
        self._relied: Set[Tuple[str, ...]] = set()
        """What was asked for, of all models or classes, where nothing closer is known."""
        self._own = 0
        self._rates: Dict[Tuple[str, str], Tuple[Optional[float], float]] = {}
        """What was asked for by class and model, of a version."""
        self._version_of_rates = 0
        self.version = 0
        """Of what is published."""

    def observe(
        self,
        kind: str,
        model: str,
        prediction: Mapping[str, Any],
        measured: Mapping[str, Any],
    ) -> None:
        """`kind` is the class of the worker, `model` that of `model_of`."""
        if measured.get("step_ms") and prediction.get("step_ms"):
            ratio = measured["step_ms"] / prediction["step_ms"]
            for each in (model, ""):
                found = self._ratios.setdefault((kind, each), deque(maxlen=KEPT))
                found.append(ratio)
                self._publish(("ratio", kind, each), found)
        if measured.get("other_seconds") is not None:
            for each in (kind, ""):
                found = self._other.setdefault(each, deque(maxlen=KEPT))
                found.append(measured["other_seconds"])
                self._publish(("other", each), found)
        if measured.get("max_rss") and prediction.get("rank_bytes"):
            planned = prediction["rank_bytes"] * prediction["ranks"]
            if measured["max_rss"] - planned > self._own:
                self._own = measured["max_rss"] - planned
                self.version += 1

    def _publish(self, key: Tuple[str, ...], found: Deque[float]) -> None:
        value, before = statistics.median(found), self._public.get(key)
        if before is None or (
            abs(value - before) > PUBLISHED * abs(before)
            and abs(value - before) > ERRORS * _error(found, value)
        ):
            self._public[key] = value
            self.version += before is None or bool(key[-1]) or key in self._relied

    def ratio(self, kind: str, model: str) -> Optional[float]:
        """None: nothing like it was measured."""
        found = self._public.get(("ratio", kind, model))
        return self._of_all(("ratio", kind, "")) if found is None else found

    def other(self, kind: str) -> float:
        found = self._public.get(("other", kind))
        return (self._of_all(("other", "")) or 0.0) if found is None else found

    def _of_all(self, key: Tuple[str, ...]) -> Optional[float]:
        found = self._public.get(key)
        if found is not None:
            self._relied.add(key)
        return found

    def rates(self, kind: str, model: str) -> Tuple[Optional[float], float]:
        """`ratio` and `other`, which are asked for often."""
        if self._version_of_rates != self.version:
            self._rates, self._version_of_rates = {}, self.version
        found = self._rates.get((kind, model))
        if found is None:
            found = self._rates[kind, model] = self.ratio(kind, model), self.other(kind)
        return found

    @property
    def own_bytes(self) -> int:
        """The process's own."""
        return self._own or PROCESS_BYTES

    def rows(self) -> List[Tuple[str, str, float, int]]:
        """Class, model, ratio and how often it was measured."""
        return [
            (*key, statistics.median(found), len(found))
            for key, found in sorted(self._ratios.items())
            if key[1]
        ]


def corrections_of(records: List[Dict[str, Any]], trials: List[Any]) -> Corrections:
    """Those that the records of a journal lead to."""
    found = Corrections()
    for record in records:
        measured = record.get("measured")
        trial = trials[record["trial"]] if measured else None
        if trial and trial.prediction:
            found.observe(record["class"], trial.model, trial.prediction, measured)
    return found


def _error(found: Deque[float], median: float) -> float:
    """The standard error of the difference of two medians of KEPT such values, normal as
    their median deviation says; 0 for fewer, of which little is known."""
    if len(found) < KEPT:
        return 0.0
    deviation = 1.4826 * statistics.median(abs(each - median) for each in found)
    return math.sqrt(math.pi / 2 / KEPT * 2) * deviation


@functools.lru_cache(maxsize=4096)
def _too_large(needed: int, own: int, kind: str, memory: int) -> Cost:
    return Cost(
        refusal="it needs %d MiB, %d of them the process's own; %s allows %d"
        % (needed, own, kind, int(SHARE * memory) >> 20)
    )


def cost(
    prediction: Mapping[str, Any],
    corrections: Corrections,
    kind: str,
    its_class: Mapping[str, Any],
    model: str,
    steps: float,
    floor: int = 0,
) -> Cost:
    """Of `steps` steps of a trial, of a kind of `model`, on a class. `floor` are bytes
    that did not suffice."""
    if "refusal" in prediction:
        return Cost(refusal=prediction["refusal"])
    memory = its_class["memory"]
    planned = prediction["rank_bytes"] * prediction["ranks"]
    needed = planned + corrections.own_bytes
    if needed > SHARE * memory:
        return _too_large(needed >> 20, corrections.own_bytes >> 20, kind, memory)
    if memory <= floor:
        return Cost(refusal="it was killed for memory within %d MiB" % (floor >> 20))
    ratio, other = corrections.rates(kind, model)
    if ratio is None:
        # Until one was measured, fewer cores take longer in proportion.
        ratio = 1.0 / max(its_class["cores"], 0.01)
    return Cost(ratio * prediction["step_ms"] / 1e3 * steps + other)

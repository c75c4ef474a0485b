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

with r the median of measured over predicted steps, by class and kind of model, and apart
for predictions by a profile of the class, `other` the median of the seconds beside steps,
and the most bytes that a process was seen to hold beyond its plan.

Lanes of one program (docs/lanes.md) start once, and a thread takes one after the other:
n of them on T threads, with n a multiple of T,

    seconds = start + n · (other - start) + l · predicted step · steps · n / T
    bytes = n · a lane's + T · a thread's

with `start` the median of the seconds before the first step, and l that of a thread's
step over the predicted one. Before lanes were measured l is r · T or, if that is less, the
prediction of a thread.
"""

import functools
import math
import os
import statistics
from collections import deque
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from optimus.planning import Fault, plan
from optimus.tune import TuneError, names
from optimus.tune.machine import usual_threads
from optimus.tune.scheduler import Cost

Values = Dict[str, Any]

PROCESS_BYTES = 96 << 20
"""Of code, libraries and stacks, until a process was measured."""
OWN_PRICES = {
    *("compile.machine-profile", "compile.profile", "compile.tune-products"),
    "compile.target",
}
"""Names of programs that are priced as they say."""
LEAST_CORES = 0.01
"""A step on an unmeasured class is divided by its cores, or by this."""
FOR_A_MACHINE = {
    *("compile.machine-profile", "compile.profile", "compile.mcpu", "compile.target"),
}
"""Names without which a program is planned for another machine."""
PROBE = "--layers=1 --hidden=8 --heads=1 --seq=8 --vocab=8 --batch=1"
SHARE = 0.98
"""Of the memory limit, that a trial may be predicted to take."""
STEP, LANE, PROFILED = "step_ms", "lane_ms", " by profile"
KEPT = 32
"""Measurements of a kind."""
PUBLISHED = 0.05
"""Share by which a correction must change."""
ERRORS = 4
"""Standard errors of a difference, by which it must, too, once KEPT are known."""


def ranks_of(mesh: str) -> int:
    """Of "row:2,col:3" 6, of "" 1."""
    count = 1
    for axis in filter(None, mesh.split(",")):
        count *= int(axis.partition(":")[2] or 1)
    return count


class Predictor:
    """Asks the compiler, once for each program."""

    def __init__(
        self,
        folder: str,
        prefix: List[str] = ["nice", "-n", "19"],
        profiles: Callable[[], Mapping[str, str]] = dict,
        objectives: Sequence[str] = (),
    ):
        """`profiles` are the files of measured classes, by their keys. Objectives such as
        step_ms@h100x8 are predicted, too. Raises TuneError for unknown machines."""
        self._folder, self._prefix, self._profiles = folder, prefix, profiles
        self._wanted = [name for name in objectives if "@" in name]
        self._known: Dict[Tuple[str, ...], Dict[str, Any]] = {}
        for name in self._wanted:
            machine = name.partition("@")[2]
            found = plan(["gpt2", *PROBE.split()], flags_for(machine, {}), folder, prefix)
            if not found.report:
                raise TuneError("the objective %s: %s" % (name, found.reason))

    def predict(self, values: Values) -> Dict[str, Any]:
        """`rank_bytes`, `ranks`, `step_ms` and the `tokens` of a step, of a trial's
        program, or its `refusal`; and `by_class` the step on measured classes."""
        model = names.arguments(values, "model")
        flags = names.arguments(values, "compile")
        found = dict(self._known_plan(model, flags))
        steps, _ = found.pop("by_kind", {}), found.pop("needs", "")
        if "refusal" not in found:
            microbatches = int(values.get("train.microbatches", 1))
            found["step_ms"] = _step_ms(steps, microbatches)
            found["tokens"] *= microbatches
            by_class = {
                kind: _step_ms(plan["by_kind"], microbatches)
                for kind, plan in self._plans_by_class(values, model, flags)
            }
            if by_class:
                found["by_class"] = by_class
        for name in self._wanted if "refusal" not in found else ():
            kind, _, machine = name.partition("@")
            there = self._known_plan(model, flags_for(machine, values))
            if "refusal" in there:
                return {"refusal": "%s: %s" % (machine, there["refusal"])}
            if there["needs"]:
                return {"refusal": "%s: %s" % (machine, there["needs"])}
            found[name] = (
                _step_ms(there["by_kind"], int(values.get("train.microbatches", 1)))
                if kind == "step_ms"
                else there[kind]
            )
        return found

    def _plans_by_class(
        self, values: Values, model: List[str], flags: List[str]
    ) -> Iterator[Tuple[str, Dict[str, Any]]]:
        """With the classes' own profiles, unless the program has one."""
        if OWN_PRICES & values.keys():
            return
        for kind, path in sorted(self._profiles().items()):
            # The trained library is compiled without a profile.
            more = ["--machine-profile", path, "--tune-products=false"]
            plan = self._known_plan(model, [*flags, *more])
            if "refusal" not in plan:
                yield kind, plan

    def _known_plan(self, model: List[str], flags: List[str]) -> Dict[str, Any]:
        key = (*model, "--", *flags)
        if key not in self._known:
            self._known[key] = self._plan(model, flags)
        return self._known[key]

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
        limit = found.limit
        needs = "" if found.fits else "a rank needs %d MiB, %s has %d" % (
            found.report["rank_bytes"] >> 20,
            limit["of"],
            limit["bytes"] >> 20,
        )
        return {
            "rank_bytes": found.report["rank_bytes"],
            "needs": needs,
            "ranks": ranks,
            "tokens": sizes["batch"] * sizes["sequence"],
            "by_kind": kinds,
            **(_lane_bytes(found.report["memory"]) if ranks == 1 else {}),
        }


def flags_for(machine: str, values: Values) -> List[str]:
    """Of optimus-compile, to plan a trial for a machine: a GPU's name, or the path of a
    profile of the trial's own target."""
    is_path = os.sep in machine
    out = FOR_A_MACHINE - ({"compile.target", "compile.mcpu"} if is_path else set())
    kept = {name: value for name, value in values.items() if name not in out}
    more = ["--machine-profile=" + machine, "--tune-products=false"]
    return [
        *names.arguments(kept, "compile", leave_out=("tune-products",)),
        *more,
        *([] if is_path else ["--target=cuda"]),
    ]


def _lane_bytes(memory: Mapping[str, Mapping[str, int]]) -> Dict[str, int]:
    """The most that a function holds once a lane, and once a thread whatever lanes it
    has."""
    own = ("arena", "scratch")
    return {
        "lane_bytes": max(
            each["total"] - sum(each[part] for part in own) for each in memory.values()
        ),
        "thread_bytes": max(
            sum(each[part] for part in own) for each in memory.values()
        ),
    }


def bytes_of_lanes(prediction: Mapping[str, Any], lanes: int, threads: int) -> int:
    """Of a process, as the compiler's report of --lanes has them."""
    if lanes == 1:
        return prediction["rank_bytes"] * prediction["ranks"]
    return (
        lanes * prediction["lane_bytes"]
        + min(lanes, threads) * prediction["thread_bytes"]
    )


def is_profiled(prediction: Mapping[str, Any], kind: str) -> bool:
    """Whether a profile of the class made it."""
    return kind in prediction.get("by_class", ())


def step_ms(prediction: Mapping[str, Any], kind: str) -> float:
    """On a class, before correction."""
    own = is_profiled(prediction, kind)
    return prediction["by_class"][kind] if own else prediction["step_ms"]


def _step_ms(kinds: Mapping[str, float], microbatches: int) -> float:
    """Of a step: the accumulation of all microbatches but the last, which updates."""
    return kinds["train"] + (microbatches - 1) * kinds.get("accumulate", kinds["train"])


class Rates(NamedTuple):
    """Of a class and a kind of model."""

    ratio: Optional[float]
    """Of predicted steps; None: nothing like it was measured."""
    other: float
    """Seconds beside steps."""
    start: float
    """Those of them before the first step."""
    lane: Optional[float]
    """Of predicted steps, a lane's on a thread; None: none was measured."""


class Terms(NamedTuple):
    """What `seconds` needs of a class and a kind of model."""

    kind: str
    memory: int
    room: int
    """Bytes that a plan may have."""
    ratio: float
    profiled: float
    """Of steps that a profile of the class predicts."""
    other: float


class Corrections:
    """Measurements beside predictions. A correction is published only
    as it has changed by more than PUBLISHED: orders of jobs last as long."""

    def __init__(self) -> None:
        self._ratios: Dict[Tuple[str, str, str], Deque[float]] = {}
        """By what is measured, class and model. Steps that the class's own profile
        predicted count apart."""
        self._seconds: Dict[str, Dict[str, Deque[float]]] = {
            "other_seconds": {},
            "start_seconds": {},
        }
        """The key "" is for all classes, and for all models of a class."""
        self._public: Dict[Tuple[str, ...], float] = {}
        self._relied: Set[Tuple[str, ...]] = set()
        """What was asked for since, of all models or classes, where nothing closer is
        known."""
        self._own = 0
        self._rates: Dict[Tuple[str, str, bool], Rates] = {}
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
        for name in (STEP, LANE):
            if measured.get(name) and prediction.get("step_ms"):
                ratio = measured[name] / step_ms(prediction, kind)
                what = name + PROFILED * is_profiled(prediction, kind)
                for each in (model, ""):
                    key = what, kind, each
                    found = self._ratios.setdefault(key, deque(maxlen=KEPT))
                    found.append(ratio)
                    self._publish(key, found)
        for name, seconds in self._seconds.items():
            if measured.get(name) is not None:
                for each in (kind, ""):
                    found = seconds.setdefault(each, deque(maxlen=KEPT))
                    found.append(measured[name])
                    self._publish((name, each), found)
        if measured.get("max_rss") and prediction.get("rank_bytes"):
            planned = bytes_of_lanes(
                prediction, measured.get("lanes", 1), measured.get("threads", 1)
            )
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

    def ratio(
        self, kind: str, model: str, prediction: Mapping[str, Any]
    ) -> Optional[float]:
        """None: nothing like it was measured."""
        return self.rates(kind, model, is_profiled(prediction, kind)).ratio

    def _ratio(self, name: str, kind: str, model: str) -> Optional[float]:
        found = self._public.get((name, kind, model))
        return self._of_all((name, kind, "")) if found is None else found

    def _second(self, name: str, kind: str) -> float:
        found = self._public.get((name, kind))
        return (self._of_all((name, "")) or 0.0) if found is None else found

    def _of_all(self, key: Tuple[str, ...]) -> Optional[float]:
        found = self._public.get(key)
        if found is not None:
            self._relied.add(key)
        return found

    def rates(self, kind: str, model: str, profiled: bool = False) -> Rates:
        """Of what the class's own profile predicted, or not. They are asked for often."""
        self._renew()
        found = self._rates.get((kind, model, profiled))
        if found is None:
            found = self._rates[kind, model, profiled] = Rates(
                self._ratio(STEP + PROFILED * profiled, kind, model),
                self._second("other_seconds", kind),
                self._second("start_seconds", kind),
                self._ratio(LANE + PROFILED * profiled, kind, model),
            )
        return found

    def terms(self, kind: str, model: str, its_class: Mapping[str, Any]) -> Terms:
        """Those of this version."""
        memory = its_class["memory"]
        room = math.floor(SHARE * memory) - self.own_bytes
        ratio, profiled = (
            unmeasured if rates.ratio is None else rates.ratio
            for unmeasured, rates in zip(
                _unmeasured(its_class),
                (self.rates(kind, model, False), self.rates(kind, model, True)),
            )
        )
        return Terms(kind, memory, room, ratio, profiled, self._second("other_seconds", kind))

    def _renew(self) -> None:
        if self._version_of_rates != self.version:
            self._rates, self._version_of_rates = {}, self.version
            # Whoever relies on them still asks again.
            self._relied = set()

    @property
    def own_bytes(self) -> int:
        """The process's own."""
        return self._own or PROCESS_BYTES

    def rows(self) -> List[Tuple[str, str, float, int]]:
        """Class, model, ratio and how often it was measured."""
        return [
            (
                kind,
                model + ", by its profile" * (what != STEP),
                statistics.median(found),
                len(found),
            )
            for (what, kind, model), found in sorted(
                self._ratios.items(), key=lambda each: (each[0][1:], each[0])
            )
            if model and not what.startswith(LANE)
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
    terms = corrections.terms(kind, model, its_class)
    (found,) = seconds(prediction, (terms,), steps, floor)
    if found < math.inf:
        return Cost(found)
    if "refusal" in prediction:
        return Cost(refusal=prediction["refusal"])
    planned = bytes_of_lanes(prediction, lanes=1, threads=1)
    return _refused(planned, corrections, kind, its_class, floor)


def seconds(
    prediction: Mapping[str, Any],
    classes: Sequence[Terms],
    steps: float,
    floor: int = 0,
) -> List[float]:
    """Those of `cost` on each class; infinity where it refuses."""
    if "refusal" in prediction:
        return [math.inf] * len(classes)
    planned = prediction["rank_bytes"] * prediction["ranks"]
    step, by_class = prediction["step_ms"], prediction.get("by_class", ())
    found = []
    for kind, memory, room, ratio, profiled, other in classes:
        if planned > room or memory <= floor:
            found.append(math.inf)
        elif kind in by_class:
            found.append(profiled * by_class[kind] / 1e3 * steps + other)
        else:
            found.append(ratio * step / 1e3 * steps + other)
    return found


def _unmeasured(its_class: Mapping[str, Any]) -> Tuple[float, float]:
    """Ratios on a class of which no trial was measured: without a profile of it, and with
    one. Fewer cores take longer in proportion. A profile is of the processor while it runs:
    what it times is shorter than a part of a core is granted at a time."""
    cores = max(its_class["cores"], LEAST_CORES)
    return 1.0 / cores, 1.0 / min(1.0, cores)


def _refused(
    planned: int,
    corrections: Corrections,
    kind: str,
    its_class: Mapping[str, Any],
    floor: int = 0,
) -> Optional[Cost]:
    memory, own = its_class["memory"], corrections.own_bytes
    if planned + own > SHARE * memory:
        return _too_large(planned + own >> 20, own >> 20, kind, memory)
    if memory <= floor:
        return Cost(refusal="it was killed for memory within %d MiB" % (floor >> 20))
    return None


def threads_of(its_class: Mapping[str, Any], values: Values) -> int:
    """That a run has there, or share its lanes: a GPU has one after the other."""
    if values.get("compile.target") == "cuda":
        return 1
    own = usual_threads(its_class["cores"])
    return int(values.get("train.threads-per-rank", own))


def cost_of_lanes(
    prediction: Mapping[str, Any],
    corrections: Corrections,
    kind: str,
    its_class: Mapping[str, Any],
    model: str,
    steps: Sequence[float],
    threads: int,
) -> Cost:
    """Of several trials of a program together, each with steps of its own."""
    planned = bytes_of_lanes(prediction, len(steps), threads)
    refused = _refused(planned, corrections, kind, its_class)
    if refused:
        return refused
    own = is_profiled(prediction, kind)
    rates, unmeasured = corrections.rates(kind, model, own), _unmeasured(its_class)[own]
    lane = rates.lane
    if lane is None and rates.ratio is None:
        lane = threads * unmeasured
    elif lane is None:
        lane = rates.ratio
        if threads > 1:
            lane = threads * min(lane, unmeasured)
    # Steps of each, the shortest first: so many lanes are there until it ends.
    turns, before = 0.0, 0.0
    for ended, each in enumerate(sorted(steps)):
        turns += (each - before) * -(-(len(steps) - ended) // threads)
        before = each
    seconds = lane * step_ms(prediction, kind) / 1e3 * turns + rates.start
    return Cost(seconds + len(steps) * max(0.0, rates.other - rates.start))

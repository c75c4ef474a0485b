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

    seconds = r · predicted step · steps + other + making
    bytes = planned + the process's own

with r the median of measured over predicted steps, by class and kind of model, and apart
for predictions by a profile of the class. By such a one kinds differ little: few
measurements of a kind count beside those of its type, and these beside those of all.
Small models fit into caches: r is bent by the
power of the predicted step by which it grows among trials of a class and kind. `making` is
the median of the seconds of building and compiling, where no worker with its instructions
has compiled its program, and `other` that of the seconds beside both. A trial fills its
memory at first, so `other` is bent by the planned bytes. The process's own are the most bytes
that one was seen to hold beyond its plan.

What was not measured on a class follows from classes with parts of the same cores: it
takes in proportion longer on a smaller part.

Lanes of one program (docs/lanes.md) start once, and a thread takes one after the other:
n of them on T threads, with n a multiple of T,

    seconds = making + start + n · (other - start) + l · predicted step · steps · n / T
    bytes = n · a lane's + T · a thread's

with `start` the median of the seconds before the first step, and l that of a thread's
step over the predicted one. Before lanes were measured l is r · T or, if that is less, the
prediction of a thread.
"""

import functools
import math
import statistics
from collections import deque
from typing import (
    Any,
    Collection,
    Container,
    Deque,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from optimus.tune.machine import cores_of, profile_of, usual_threads
from optimus.tune.scheduler import Cost

Values = Dict[str, Any]

PROCESS_BYTES = 96 << 20
"""Of code, libraries and stacks, until a process was measured."""
MAKING, OTHER, START = "making_seconds", "other_seconds", "start_seconds"
SECONDS = {MAKING: 0.6, OTHER: 0.1, START: 0.0}
"""Of a core, until a trial was measured."""
LEAST_SECONDS = 1e-3
"""A measurement counts for no less."""
PARTLY = 0.25
"""Seconds that steps on a part of a core must take to say how long they take: it is
granted by periods of a tenth."""
LEAST_CORES = 0.01
"""A step on an unmeasured class is divided by its cores, or by this."""
SHARE = 0.98
"""Of the memory limit, that a trial may be predicted to take."""
STEP, LANE, PROFILED = "step_ms", "lane_ms", " by profile"
KEPT = 32
"""Measurements of a kind."""
STIFFNESS = 3.0
"""Of r against bending, as squares of logarithms of predicted steps."""
BY_TYPE, BY_ALL = 3, 2
"""As how many of a kind of model its type counts, and as how many of a type all models
count, where a profile of the class predicted."""
RECALLED = 3
"""Those that the median of an earlier search counts for, at most."""
PUBLISHED, AT_FIRST = 0.05, 0.01
"""Share by which a correction must change, and as long as fewer than KEPT measurements are
known."""
ERRORS = 4
"""Standard errors of a difference, by which it must, too, once KEPT are known."""


def ranks_of(mesh: str) -> int:
    """Of "row:2,col:3" 6, of "" 1."""
    count = 1
    for axis in filter(None, mesh.split(",")):
        count *= int(axis.partition(":")[2] or 1)
    return count


def planned_bytes(prediction: Mapping[str, Any]) -> int:
    """Of all ranks' plans."""
    return prediction["rank_bytes"] * prediction["ranks"]


def bytes_of_lanes(prediction: Mapping[str, Any], lanes: int, threads: int) -> int:
    """Of a process, as the compiler's report of --lanes has them."""
    if lanes == 1:
        return planned_bytes(prediction)
    return (
        lanes * prediction["lane_bytes"]
        + min(lanes, threads) * prediction["thread_bytes"]
    )


def is_profiled(prediction: Mapping[str, Any], kind: str) -> bool:
    """Whether a profile of the class made it."""
    return profile_of(kind) in prediction.get("by_profile", ())


def step_ms(prediction: Mapping[str, Any], kind: str) -> float:
    """On a class, before correction."""
    own = is_profiled(prediction, kind)
    return prediction["by_profile"][profile_of(kind)] if own else prediction["step_ms"]


class Point(NamedTuple):
    """A measurement."""

    step: float
    """Predicted, milliseconds; of seconds beside steps the planned MiB."""
    ratio: float
    """Measured over that; of seconds beside steps these."""


class Bend(NamedTuple):
    """How a ratio follows the predicted step."""

    power: float = 0.0
    reference: float = 1.0
    """Milliseconds of the step that medians are for."""
    low: float = 0.0
    high: float = math.inf
    """Steps that were measured; beyond, the ratio stays."""

    def at(self, step: float) -> float:
        """Of the ratio there to that of the reference."""
        if not self.power:
            return 1.0
        return (min(max(step, self.low), self.high) / self.reference) ** self.power


STRAIGHT = Bend()


class Rates(NamedTuple):
    """Of a class and a kind of model."""

    ratio: Optional[float]
    """Of predicted steps; None: nothing like it was measured."""
    bend: Bend
    other: float
    """Seconds beside steps and the making of programs, at the growth's reference."""
    growth: Bend
    """Of these, by planned MiB."""
    start: float
    """Those of them before the first step, at a reference of their own."""
    start_growth: Bend
    making: float
    """Seconds of building and compiling."""
    lane: Optional[float]
    """Of predicted steps, a lane's on a thread; None: none was measured."""


class Terms(NamedTuple):
    """What `seconds` needs of a class and a kind of model."""

    profile: str
    instructions: str
    memory: int
    room: int
    """Bytes that a plan may have."""
    plain: Tuple[float, Bend]
    profiled: Tuple[float, Bend]
    """Of steps that a profile of the class predicts."""
    other: Tuple[float, Bend]
    """By planned MiB."""
    making: float


class Ratio(NamedTuple):
    """What the ratios of some steps are known by."""

    what: str
    """Is measured; steps that a profile of the class predicted count apart."""
    profile: str
    """Empty: of all, as seconds beside steps."""
    kind: str
    """The class, or "": of all with the profile, as a whole core would take."""
    model: str
    """Its kind, or of all of a type (`_type_of`), or "": of all."""

    @property
    def is_of_kind(self) -> bool:
        return self.model != "" and not self.model.startswith(" ")


class Corrections:
    """Measurements beside predictions. A correction is published only as it has changed
    by more than PUBLISHED: orders of jobs last as long."""

    def __init__(self) -> None:
        self._ratios: Dict[Ratio, Deque[Point]] = {}
        self._bends: Dict[Tuple[str, str], Bend] = {}
        self._powers: Dict[Tuple[str, str], float] = {}
        """Of an earlier search, by what is measured and profile, as bends are."""
        self._sums: Dict[Tuple[str, str], Dict[Ratio, Tuple[float, ...]]] = {}
        self._public: Dict[Tuple[str, ...], float] = {}
        self._relied: Set[Tuple[str, ...]] = set()
        """What was asked for since, of all models or classes, where nothing closer is
        known."""
        self._own = self._own_before = 0
        """Bytes of processes beyond their plans, also of earlier searches."""
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
            if measured.get(name) and prediction.get("step_ms") and _says(kind, measured):
                what = name + PROFILED * is_profiled(prediction, kind)
                step = step_ms(prediction, kind)
                self._note(what, kind, model, Point(step, measured[name] / step))
        for name in SECONDS:
            if measured.get(name) is not None:
                held = 1.0 if name == MAKING else mebibytes(prediction)
                self._note_seconds(name, kind, held, measured[name])
        if measured.get("max_rss") and prediction.get("rank_bytes"):
            planned = bytes_of_lanes(
                prediction, measured.get("lanes", 1), measured.get("threads", 1)
            )
            if measured["max_rss"] - planned > self._own:
                self._own = measured["max_rss"] - planned
                self.version += 1

    def _note(self, what: str, kind: str, model: str, point: Point, times: int = 1) -> None:
        profile = profile_of(kind)
        places = [(kind, model), (kind, ""), ("", model)]
        places += [(kind, _type_of(model))] * what.endswith(PROFILED)
        keys = [Ratio(what, profile, *each) for each in places]
        self._note_at(keys, kind, point, times, bends=what.startswith(STEP))

    def _note_seconds(
        self, name: str, kind: str, held: float, seconds: float, times: int = 1
    ) -> None:
        """`held` are MiB."""
        keys = [Ratio(name, "", kind, ""), Ratio(name, "", "", "")]
        point = Point(held, max(LEAST_SECONDS, seconds))
        self._note_at(keys, kind, point, times, bends=name != MAKING)

    def _note_at(
        self, keys: List[Ratio], kind: str, point: Point, times: int, bends: bool
    ) -> None:
        whole = point._replace(ratio=point.ratio * min(1.0, cores_of(kind)))
        for key in keys:
            found = self._ratios.setdefault(key, deque(maxlen=KEPT))
            found.extend([point if key.kind else whole] * times)
        if bends:
            self._bend(keys[0])
        for key in keys:
            self._publish(key, self._levels(key), is_own=key == keys[0])

    def _levels(self, key: Ratio) -> List[float]:
        """Ratios at the reference."""
        bend = self._bends.get(key[:2], STRAIGHT)
        return [each.ratio / bend.at(each.step) for each in self._ratios[key]]

    def _bend(self, changed: Ratio) -> None:
        """Publishes another power once it matters for steps that were measured. Only what
        one class took of one kind of model says how ratios grow."""
        group = changed[:2]
        sums = self._sums.setdefault(group, {})
        sums[changed] = _sums(self._ratios[changed])
        count, total, squares, products = map(sum, zip(*(each[:4] for each in sums.values())))
        prior = STIFFNESS * self._powers.get(group, 0.0)
        power = (products + prior) / (squares + STIFFNESS)
        before = self._bends.get(group, STRAIGHT)
        steps = [step for each in sums.values() for step in each[4:]]
        steps += [before.low, before.high] if before.power else []
        low, high = min(steps), max(steps)
        least = PUBLISHED if count >= KEPT else AT_FIRST
        if abs(power - before.power) * math.sqrt(squares / count) <= least:
            if before.power:
                self._bends[group] = before._replace(low=low, high=high)
            return
        self._bends[group] = Bend(power, math.exp(total / count), low, high)
        self.version += 1
        for key in self._ratios:
            if key[:2] == group:
                self._public[key] = statistics.median(self._levels(key))

    def taken(self, kind: str) -> Dict[str, Any]:
        """What is known of a class, for `recall` in another search."""
        rates = [
            [key.what, key.model, statistics.median(self._levels(key)), len(points)]
            for key, points in sorted(self._ratios.items())
            if key.kind == kind and key.is_of_kind
        ]
        seconds, bends = {}, {}
        for key in sorted(key for key in self._ratios if key.kind == kind):
            points = self._ratios[key]
            if key.what in SECONDS:
                seconds[key.what] = [statistics.median(self._levels(key)), len(points)]
            if key[:2] in self._bends:
                bends[key.what] = list(self._bends[key[:2]])
            elif key.model == "":
                # The median stands for what was measured.
                bends[key.what] = list(_straight([each.step for each in points]))
        own = self._own or self._own_before
        return {"rates": rates, "bends": bends, "seconds": seconds, "own_bytes": own}

    def recall(self, kind: str, taken: Mapping[str, Any]) -> None:
        """It counts as much as a few measurements of this search."""
        bends = {what: Bend(*bend) for what, bend in taken["bends"].items()}
        for what, bend in bends.items():
            if bend.power:
                group = what, "" if what in SECONDS else profile_of(kind)
                self._bends[group], self._powers[group] = bend, bend.power
        for what, model, ratio, count in taken["rates"]:
            point = Point(bends.get(what, STRAIGHT).reference, ratio)
            self._note(what, kind, model, point, min(count, RECALLED))
        for name, (seconds, count) in taken["seconds"].items():
            held = bends.get(name, STRAIGHT).reference
            self._note_seconds(name, kind, held, seconds, min(count, RECALLED))
        self._own_before = max(self._own_before, taken["own_bytes"])
        self.version += 1

    def _publish(self, key: Tuple[str, ...], found: Sequence[float], is_own: bool) -> None:
        value, before = statistics.median(found), self._public.get(key)
        least = PUBLISHED if len(found) == KEPT else AT_FIRST
        if before is None or (
            abs(value - before) > least * abs(before)
            and abs(value - before) > ERRORS * _error(found, value)
        ):
            self._public[key] = value
            self.version += before is None or is_own or key in self._relied

    def ratio(
        self, kind: str, model: str, prediction: Mapping[str, Any]
    ) -> Optional[float]:
        """None: nothing like it was measured."""
        rates = self.rates(kind, model, is_profiled(prediction, kind))
        if rates.ratio is None:
            return None
        return rates.ratio * rates.bend.at(step_ms(prediction, kind))

    def _ratio(self, what: str, kind: str, model: str) -> Optional[float]:
        profile = profile_of(kind)
        own = Ratio(what, profile, kind, model)
        found = self._public.get(own)
        if found is not None and own.is_of_kind and what.endswith(PROFILED):
            return self._beside_others(own)
        if found is None:
            found = self._of_all(Ratio(what, profile, "", model))
            found = None if found is None else found / min(1.0, cores_of(kind))
        return self._of_all(Ratio(what, profile, kind, "")) if found is None else found

    def _beside_others(self, own: Ratio) -> float:
        """Of a kind of model, by the number of its measurements nearer to its own median
        or to that of all models of its type; and this so to that of all."""
        rows = ("", 0), (_type_of(own.model), BY_ALL), (own.model, BY_TYPE)
        level = 1.0
        for model, others in rows:
            key = own._replace(model=model)
            self._relied.add(key)
            count, median = len(self._ratios[key]), self._public[key]
            if median != level:
                share = count / (count + others)
                level = median**share * level ** (1 - share)
        return level

    def _second(self, name: str, kind: str) -> float:
        found = self._public.get(Ratio(name, "", kind, ""))
        if found is None:
            found = self._of_all(Ratio(name, "", "", ""))
            found = SECONDS[name] if found is None else found
            found /= max(LEAST_CORES, min(1.0, cores_of(kind)))
        return found

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
            what = STEP + PROFILED * profiled
            found = self._rates[kind, model, profiled] = Rates(
                self._ratio(what, kind, model),
                self._bends.get((what, profile_of(kind)), STRAIGHT),
                self._second(OTHER, kind),
                self._bends.get((OTHER, ""), STRAIGHT),
                self._second(START, kind),
                self._bends.get((START, ""), STRAIGHT),
                self._second(MAKING, kind),
                self._ratio(LANE + PROFILED * profiled, kind, model),
            )
        return found

    def room(self, memory: int) -> int:
        """Bytes that plans may have on a worker with so many."""
        return math.floor(SHARE * memory) - self.own_bytes

    def terms(self, kind: str, model: str, its_class: Mapping[str, Any]) -> Terms:
        """Those of this version."""
        memory = its_class["memory"]
        room = self.room(memory)
        plain, profiled = (
            (unmeasured, STRAIGHT) if rates.ratio is None else rates[:2]
            for unmeasured, rates in zip(
                _unmeasured(its_class),
                (self.rates(kind, model, False), self.rates(kind, model, True)),
            )
        )
        return Terms(
            profile_of(kind),
            its_class["instructions"],
            memory,
            room,
            plain,
            profiled,
            (self._second(OTHER, kind), self._bends.get((OTHER, ""), STRAIGHT)),
            self._second(MAKING, kind),
        )

    def _renew(self) -> None:
        if self._version_of_rates != self.version:
            self._rates, self._version_of_rates = {}, self.version
            # Whoever relies on them still asks again.
            self._relied = set()

    @property
    def own_bytes(self) -> int:
        """The process's own."""
        return max(self._own, self._own_before) or PROCESS_BYTES

    def rows(self) -> List[Tuple[str, str, float, int]]:
        """Class, model, ratio and how often it was measured."""
        return [
            (
                key.kind,
                key.model + ", by its profile" * (key.what != STEP),
                statistics.median(each.ratio for each in points),
                len(points),
            )
            for key, points in sorted(
                self._ratios.items(), key=lambda each: (each[0][2:], each[0].what)
            )
            if key.kind and key.is_of_kind and not key.what.startswith(LANE)
        ]


def corrections_of(records: List[Dict[str, Any]], trials: List[Any]) -> Corrections:
    """Those that the records of a journal lead to."""
    found = Corrections()
    for record in records:
        if record.get("taken"):
            found.recall(record["class"], record["taken"])
        measured = record.get("measured")
        trial = trials[record["trial"]] if measured else None
        if trial and trial.prediction:
            found.observe(record["class"], trial.model, trial.prediction, measured)
    return found


def _type_of(model: str) -> str:
    """What stands for all kinds of its type, as " bf16"; no kind begins so."""
    return " " + model.rpartition(" ")[2]


def mebibytes(prediction: Mapping[str, Any]) -> float:
    """Of a trial as planned, at least 1."""
    return max(1.0, prediction.get("rank_bytes", 0) * prediction.get("ranks", 1) / 2**20)


def _straight(steps: List[float]) -> Bend:
    return Bend(0.0, statistics.median(steps), min(steps), max(steps))


def _sums(points: Collection[Point]) -> Tuple[float, ...]:
    """How many there are; of logarithms of steps the sum, the squares around their mean,
    and the products with those of ratios; the least and the largest step."""
    pairs = [(math.log(each.step), math.log(each.ratio)) for each in points]
    total, level = (sum(each) for each in zip(*pairs))
    middle = total / len(pairs)
    squares = sum((x - middle) ** 2 for x, _ in pairs)
    products = sum((x - middle) * (y - level / len(pairs)) for x, y in pairs)
    steps = [each.step for each in points]
    return len(pairs), total, squares, products, min(steps), max(steps)


def _says(kind: str, measured: Mapping[str, Any]) -> bool:
    """Whether steps took long enough to say how long they take there."""
    if "steps" not in measured or STEP not in measured or cores_of(kind) >= 1:
        return True
    return measured[STEP] * measured["steps"] >= 1e3 * PARTLY


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
    made: Container[str] = (),
) -> Cost:
    """Of `steps` steps of a trial, of a kind of `model`, on a class. `floor` are bytes
    that did not suffice, `made` the instructions of its compiled programs."""
    terms = corrections.terms(kind, model, its_class)
    (found,) = seconds(prediction, (terms,), steps, floor, made)
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
    made: Container[str] = (),
) -> List[float]:
    """Those of `cost` on each class; infinity where it refuses."""
    if "refusal" in prediction:
        return [math.inf] * len(classes)
    planned = planned_bytes(prediction)
    step, by_profile = prediction["step_ms"], prediction.get("by_profile", ())
    found = []
    for profile, instructions, memory, room, plain, profiled, own, making in classes:
        if planned > room or memory <= floor:
            found.append(math.inf)
            continue
        is_profiled = profile in by_profile
        its = by_profile[profile] if is_profiled else step
        ratio, bend = profiled if is_profiled else plain
        if bend.power:
            ratio *= bend.at(its)
        beside, growth = own
        if growth.power:
            beside *= growth.at(mebibytes(prediction))
        if instructions not in made:
            beside += making
        found.append(ratio * its / 1e3 * steps + beside)
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


def is_for_gpu(values: Values) -> bool:
    return values.get("compile.target") == "cuda"


def threads_of(its_class: Mapping[str, Any], values: Values) -> int:
    """That a run has there, or share its lanes: a GPU has one after the other."""
    if is_for_gpu(values):
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
    made: Container[str] = (),
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
        lane = rates.ratio * rates.bend.at(step_ms(prediction, kind))
        if threads > 1:
            lane = threads * min(lane, unmeasured)
    # Steps of each, the shortest first: so many lanes are there until it ends.
    turns, before = 0.0, 0.0
    for ended, each in enumerate(sorted(steps)):
        turns += (each - before) * -(-(len(steps) - ended) // threads)
        before = each
    held = mebibytes(prediction)
    start = rates.start * rates.start_growth.at(held)
    seconds = lane * step_ms(prediction, kind) / 1e3 * turns + start
    if its_class["instructions"] not in made:
        seconds += rates.making
    return Cost(seconds + len(steps) * max(0.0, rates.other * rates.growth.at(held) - start))

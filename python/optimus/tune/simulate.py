# ===- simulate.py - A search under a virtual clock ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Simulates a search on workers that need not be here: the same search and scheduler,
events from a heap in the place of processes.

A pool file says what classes there are. A job takes its predicted steps times what the
class is slower by, times noise; jobs are lost at a rate and at the end of wall times.
"""

import heapq
import itertools
import math
import random
import tomllib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError, costs
from optimus.tune.machine import Class
from optimus.tune.search import Search
from optimus.tune.study import Trial
from optimus.tune.view import clock


class Kind(NamedTuple):
    """Workers of a pool that are equal."""

    name: str
    count: int
    of: Class
    slower: Dict[str, float]
    """A step's time over its prediction, by type; "" for all others."""
    overhead: float
    """Seconds of a job beside steps."""
    wall_seconds: Optional[float]

    def ratio(self, values: Dict[str, Any]) -> float:
        return self.slower.get(values.get("compile.precision", "f32"), self.slower[""])


class Pool(NamedTuple):
    kinds: List[Kind]
    noise: float = 0.05
    """Deviation of a job's time, of its logarithm."""
    losses: float = 0.0
    """Share of jobs that end without a result."""
    seed: int = 0

    def with_one_more(self, name: str) -> "Pool":
        kinds = [
            kind._replace(count=kind.count + (kind.name == name)) for kind in self.kinds
        ]
        return self._replace(kinds=kinds)


DEFAULTS = {
    "name": None,
    "count": 1,
    "cores": 1.0,
    "memory_mib": None,
    "instructions": "avx512f",
    "slower": None,
    "overhead": 0.5,
    "wall_seconds": None,
}


def read_pool(path: str) -> Pool:
    """A TOML file of [[worker]] tables with name, count, cores, memory_mib, instructions,
    slower, overhead and wall_seconds, and of noise, losses and seed. Raises TuneError."""
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise TuneError("cannot read '%s': %s" % (path, error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TuneError("%s: %s" % (path, error)) from None
    for key in found:
        if key not in ("worker", "noise", "losses", "seed"):
            raise TuneError(
                "%s: expected worker, noise, losses or seed, found %s" % (path, key)
            )
    kinds = [_kind(path, row) for row in found.pop("worker", [])]
    if not kinds or len({kind.name for kind in kinds}) < len(kinds):
        raise TuneError(
            "%s: expected [[worker]] tables of different names, found %s"
            % (path, ", ".join(kind.name for kind in kinds) or "none")
        )
    pool = Pool(kinds, **found)
    if not 0 <= pool.losses < 1 or not 0 <= pool.noise < 10:
        raise TuneError(
            "%s: expected noise of at least 0 and losses from 0 to below 1" % path
        )
    return pool


def _kind(path: str, row: Dict[str, Any]) -> Kind:
    for key in row:
        if key not in DEFAULTS:
            raise TuneError(
                "%s: worker: expected one of %s, found %s"
                % (path, ", ".join(DEFAULTS), key)
            )
    found = {**DEFAULTS, **row}
    for key in ("name", "memory_mib"):
        if found[key] is None:
            raise TuneError("%s: worker: expected %s, found none" % (path, key))
    for key in ("count", "cores", "memory_mib"):
        if not isinstance(found[key], (int, float)) or not found[key] > 0:
            raise TuneError(
                "%s: worker %s: expected %s above 0, found %s"
                % (path, found["name"], key, found[key])
            )
    its_class = Class(
        float(found["cores"]),
        int(found["memory_mib"] * 2**20),
        found["instructions"],
        found["name"],
    )
    slower = found["slower"]
    if not isinstance(slower, dict):
        slower = {"": slower or 1 / its_class.cores}
    slower.setdefault("", 1 / its_class.cores)
    return Kind(
        found["name"],
        int(found["count"]),
        its_class,
        slower,
        found["overhead"],
        found["wall_seconds"],
    )


class Used(NamedTuple):
    """Of the workers of a kind."""

    jobs: int
    lost: int
    busy: float
    """Share of their time."""


class Result(NamedTuple):
    seconds: float
    """Until the last trial ended."""
    outcomes: Dict[str, int]
    used: Dict[str, Used]
    decisions: int
    durations: Dict[int, Dict[str, float]]
    """What each trial takes on each kind, noise aside; infinity where it cannot run."""


def loss_of(trial: Trial, steps: int) -> float:
    """A learning curve, for rungs: falls with steps to what the trial's number draws."""
    floor = random.Random("loss/%d" % trial.number).random()
    return floor + 2.0 / math.sqrt(steps)


class Simulation:
    def __init__(
        self,
        search: Search,
        pool: Pool,
        predict: Callable[[Dict[str, Any]], Dict[str, Any]],
    ):
        self._search, self._pool, self._predict = search, pool, predict
        self._heap: List[Tuple[float, int, str, Any]] = []
        self._order = itertools.count()
        self._kinds: Dict[str, Kind] = {}
        """By worker."""
        self._used: Dict[str, List[float]] = {kind.name: [0, 0, 0.0] for kind in pool.kinds}
        self._decisions = 0
        self._lives: Dict[str, int] = {}

    def run(self) -> Result:
        for kind in self._pool.kinds:
            for place in range(kind.count):
                worker = "%s/%d" % (kind.name, place)
                self._kinds[worker] = kind
                self._join(worker, 0.0)
        now = end = 0.0
        while True:
            while record := self._search.decide(now):
                self._decisions += 1
                self._write(record, now)
            if not self._heap or self._search.is_over(now):
                break
            now, _, event, data = heapq.heappop(self._heap)
            if event == "result":
                end = now
            getattr(self, "_" + event)(data, now)
        return Result(
            end, self._outcomes(), self._usage(end), self._decisions, self._durations()
        )

    def _write(self, record: Dict[str, Any], now: float) -> None:
        record.setdefault("time", now)
        self._search.apply(record)
        if record["kind"] == "given":
            values = self._search.study.trials[record["trial"]].values
            self._write(
                {
                    "kind": "predicted",
                    "trial": record["trial"],
                    "prediction": self._predict(values),
                },
                now,
            )
        elif record["kind"] == "started":
            self._begin(record, now)

    def _push(self, time: float, event: str, data: Any) -> None:
        heapq.heappush(self._heap, (time, next(self._order), event, data))

    def _join(self, worker: str, now: float) -> None:
        kind = self._kinds[worker]
        self._lives[worker] = self._lives.get(worker, 0) + 1
        self._write({"kind": "worker", "worker": worker, "class": kind.of._asdict()}, now)
        deadline = None if kind.wall_seconds is None else now + kind.wall_seconds
        self._search.joined(worker, kind.of.key, kind.of._asdict(), deadline)
        if deadline is not None:
            self._push(deadline, "wall", (worker, self._lives[worker]))

    def seconds(self, trial: Trial, kind: Kind, steps: int) -> float:
        return (
            trial.prediction["step_ms"] / 1e3 * kind.ratio(trial.values) * steps
            + kind.overhead
        )

    def _begin(self, record: Dict[str, Any], now: float) -> None:
        worker, search = record["worker"], self._search
        trial, kind = search.study.trials[record["trial"]], self._kinds[worker]
        steps = (record["until"] or search.steps_of(trial)) - search.reached(trial)
        draw = random.Random(
            "%d/%d/%d" % (self._pool.seed, trial.number, len(trial.attempts))
        )
        factor = math.exp(draw.gauss(0.0, self._pool.noise))
        took = self.seconds(trial, kind, steps) * factor
        is_lost = draw.random() < self._pool.losses
        took *= draw.random() if is_lost else 1.0
        event = {
            "worker": worker,
            "life": self._lives[worker],
            "trial": trial.number,
            "since": now,
            "until": record["until"],
            "steps": steps,
            "lost": is_lost,
            "step_ms": trial.prediction["step_ms"] * kind.ratio(trial.values) * factor,
        }
        self._push(now + took, "result", event)

    def _result(self, event: Dict[str, Any], now: float) -> None:
        worker = event["worker"]
        if event["life"] != self._lives[worker]:
            return  # its wall time ended before
        kind = self._kinds[worker]
        self._count(kind, event, now)
        record = {
            "trial": event["trial"],
            "worker": worker,
            "class": kind.of.key,
            "seconds": now - event["since"],
        }
        if event["lost"]:
            return self._write({"kind": "lost", "why": "signal", **record}, now)
        trial = self._search.study.trials[event["trial"]]
        record["measured"] = {
            "step_ms": event["step_ms"],
            "other_seconds": kind.overhead,
            "steps": event["steps"],
        }
        if event["until"] is not None:
            value = loss_of(trial, event["until"])
            return self._write(
                {"kind": "rung", "step": event["until"], "objective": value, **record}, now
            )
        value = loss_of(trial, self._search.steps_of(trial))
        self._write(
            {
                "kind": "ended",
                "outcome": "done",
                "objectives": [value] * len(self._search.spec.study.objectives),
                **record,
            },
            now,
        )

    def _wall(self, data: Tuple[str, int], now: float) -> None:
        """A worker's time is over; another takes its place, as a queue gives it."""
        worker, life = data
        job = self._search.scheduler.job_of(worker)
        if job:
            attempt = self._search.study.trials[job.trial].running
            self._count(self._kinds[worker], {"since": attempt.time, "lost": True}, now)
            self._write(
                {
                    "kind": "lost",
                    "why": "signal",
                    "trial": job.trial,
                    "worker": worker,
                    "class": self._kinds[worker].of.key,
                },
                now,
            )
        self._search.left(worker)
        if not self._search.is_over(now):
            self._join(worker, now)

    def _count(self, kind: Kind, event: Dict[str, Any], now: float) -> None:
        used = self._used[kind.name]
        used[0] += 1
        used[1] += event["lost"]
        used[2] += now - event["since"]

    def _outcomes(self) -> Dict[str, int]:
        found: Dict[str, int] = {}
        for trial in self._search.study.trials:
            found[trial.outcome] = found.get(trial.outcome, 0) + 1
        return found

    def _usage(self, end: float) -> Dict[str, Used]:
        return {
            kind.name: Used(int(jobs), int(lost), busy / (kind.count * end) if end else 0.0)
            for kind, (jobs, lost, busy) in zip(self._pool.kinds, self._used.values())
        }

    def _durations(self) -> Dict[int, Dict[str, float]]:
        found = {}
        for trial in self._search.study.trials:
            if trial.outcome == "done":
                found[trial.number] = {
                    kind.name: (
                        math.inf
                        if self._refused(trial, kind)
                        else self.seconds(trial, kind, self._search.steps_of(trial))
                    )
                    for kind in self._pool.kinds
                }
        return found

    def _refused(self, trial: Trial, kind: Kind) -> bool:
        return bool(
            costs.cost(
                trial.prediction,
                costs.Corrections(),
                kind.of.key,
                kind.of._asdict(),
                trial.values,
                1,
            ).refusal
        )


def least_seconds(durations: Dict[int, Dict[str, float]], counts: Dict[str, int]) -> float:
    """A bound on any schedule's end, of the fractional relaxation for unrelated machines:
    by weights that a few hundred multiplicative updates find. A bound for any weights."""
    kinds = list(counts)
    weights = {kind: 1.0 / len(kinds) for kind in kinds}
    longest = max((min(row.values()) for row in durations.values()), default=0.0)
    best = longest
    for round_number in range(400):
        loads = dict.fromkeys(kinds, 0.0)
        total = 0.0
        for row in durations.values():
            # The dual: each job goes where its weighted time is least.
            kind = min(kinds, key=lambda kind: row[kind] * weights[kind] / counts[kind])
            loads[kind] += row[kind] / counts[kind]
            total += row[kind] * weights[kind] / counts[kind]
        best = max(best, total / sum(weights.values()))
        most = max(loads.values()) or 1.0
        rate = 0.5 / math.sqrt(1 + round_number)
        for kind in kinds:
            weights[kind] *= math.exp(rate * loads[kind] / most)
        scale = sum(weights.values())
        weights = {kind: weight / scale for kind, weight in weights.items()}
    return best


def lines(result: Result, pool: Pool, more: Dict[str, float]) -> List[str]:
    """What is told of a simulation; `more` has the end with one more worker of a kind."""
    counts = {kind.name: kind.count for kind in pool.kinds}
    found = [
        "%s: %s"
        % (
            clock(result.seconds),
            ", ".join(
                "%d %s" % (count, name) for name, count in sorted(result.outcomes.items())
            ),
        )
    ]
    bound = least_seconds(result.durations, counts)
    if bound and math.isfinite(bound) and not any(kind.wall_seconds for kind in pool.kinds):
        found.append(
            "no schedule of the trials that are done ends before %s" % clock(bound)
        )
    found.append(
        "%-16s %7s %7s %7s %6s  %s"
        % ("workers", "count", "jobs", "lost", "busy", "with one more")
    )
    for kind in pool.kinds:
        used = result.used[kind.name]
        sooner = 1 - more[kind.name] / result.seconds if result.seconds else 0.0
        found.append(
            "%-16s %7d %7d %7d %5.0f%%  %s (%+.0f %%)"
            % (
                kind.name,
                kind.count,
                used.jobs,
                used.lost,
                100 * used.busy,
                clock(more[kind.name]),
                -100 * sooner,
            )
        )
    return found

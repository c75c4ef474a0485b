# ===- simulate.py - A search under a virtual clock ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Simulates a search on workers that need not be here: the same search and scheduler,
events from a heap in the place of processes.

A job takes its predicted steps times what its class is slower by and, the first of a
program, the making of this, all times noise; jobs are lost at a rate and at the end of wall
times.
"""

import heapq
import itertools
import math
import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from optimus.tune import Collector, costs
from optimus.tune.scheduler import Job, late_from
from optimus.tune.search import Search
from optimus.tune.study import Trial
from optimus.tune.virtual_pool import Kind, Pool


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
        loss: Optional[Callable[[Trial, int], float]] = None,
    ):
        """`loss` is that of a trial after some steps, `loss_of` where there is none."""
        self._search, self._pool, self._predict = search, pool, predict
        self._loss = loss or loss_of
        self._heap: List[Tuple[float, int, str, Any]] = []
        self._order = itertools.count()
        self._kinds: Dict[str, Kind] = {}
        """By worker."""
        self._used: Dict[str, List[float]] = {kind.name: [0, 0, 0.0] for kind in pool.kinds}
        self._decisions = 0
        self._predicted = 0.0
        """When the last of those given will be."""
        self._lives: Dict[str, int] = {}
        self._made: Set[Tuple[str, str]] = set()
        """Programs, and for which instructions."""
        self._stopped: Set[Tuple[str, float]] = set()
        """Jobs that were slow, by worker and begin."""

    def run(self) -> Result:
        for kind in self._pool.kinds:
            for place in range(kind.count):
                worker = "%s/%d" % (kind.name, place)
                self._kinds[worker] = kind
                self._join(worker, 0.0)
        now = end = 0.0
        collector = Collector()
        while True:
            while record := self._search.decide(now):
                self._decisions += 1
                self._write(record, now)
            if not self._search.is_settled:
                continue
            if not self._heap or self._search.is_over(now):
                break
            collector.turn()
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
            self._predicted = max(now, self._predicted) + self._pool.predicting
            if self._predicted > now:
                self._push(self._predicted, "predicting", record["trial"])
            else:
                self._predicting(record["trial"], now)
        elif record["kind"] == "started":
            lanes = record.get("lanes", [record["trial"]])
            if record["trial"] == lanes[-1]:
                self._begin(record, now)
        elif record["kind"] == "slow":
            self._stop(record, now)

    def _predicting(self, trial: int, now: float) -> None:
        """It is over."""
        values = self._search.study.trials[trial].values
        found = {"kind": "predicted", "trial": trial, "prediction": self._predict(values)}
        self._write(found, now)

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

    @staticmethod
    def seconds(trial: Trial, kind: Kind, steps: int) -> float:
        """Of a program that is there."""
        return kind.step_ms(trial) / 1e3 * steps + kind.overhead_of(trial)

    def _begin(self, record: Dict[str, Any], now: float) -> None:
        worker, search = record["worker"], self._search
        jobs, kind = search.scheduler.jobs_of(worker), self._kinds[worker]
        trial = search.study.trials[jobs[0].trial]
        steps = [search.steps_left(job) for job in jobs]
        draw = random.Random(
            "%d/%d/%d" % (self._pool.seed, trial.number, len(trial.attempts))
        )
        factor = math.exp(draw.gauss(0.0, self._pool.noise))
        # Lanes start once.
        program = search.library_of(trial.number), kind.of.instructions
        making = 0.0 if program in self._made else kind.making
        took = (self.seconds(trial, kind, sum(steps)) + making) * factor
        is_lost = draw.random() < self._pool.losses
        took *= draw.random() if is_lost else 1.0
        event = {
            "worker": worker,
            "life": self._lives[worker],
            "jobs": jobs,
            "since": record["time"],
            "steps": steps,
            "lost": is_lost,
            "step_ms": kind.step_ms(trial) * factor,
            "program": program,
            "making": making,
        }
        self._push(now + took, "result", event)
        predicted = record.get("together", record["costs"].get(record["class"])) or 0.0
        self._push(late_from(now, now + predicted) + 1e-6, "look", None)

    def _look(self, _data: None, _now: float) -> None:
        """A job may be late."""

    def _stop(self, record: Dict[str, Any], now: float) -> None:
        """What it has done since its rung is done again."""
        worker = record["worker"]
        attempt = self._search.study.trials[record["trial"]].running
        if (worker, attempt.time) not in self._stopped:
            self._stopped.add((worker, attempt.time))
            self._count(self._kinds[worker], {"since": attempt.time, "lost": True}, now)
        kind = self._kinds[worker].of.key
        lost = {"kind": "lost", "why": "slow", "trial": record["trial"], "class": kind}
        self._write({**lost, "worker": worker, "seconds": now - attempt.time}, now)

    def _result(self, event: Dict[str, Any], now: float) -> None:
        worker = event["worker"]
        if event["life"] != self._lives[worker]:
            return  # its wall time ended before
        if (worker, event["since"]) in self._stopped:
            return
        kind = self._kinds[worker]
        self._count(kind, event, now)
        for job, steps in zip(event["jobs"], event["steps"]):
            self._over(event, job, steps, now)

    def _over(self, event: Dict[str, Any], job: Job, steps: int, now: float) -> None:
        """Of a job the attempt is."""
        lanes, kind = len(event["jobs"]), self._kinds[event["worker"]]
        record = {
            "trial": job.trial,
            "worker": event["worker"],
            "class": kind.of.key,
            "seconds": (now - event["since"]) / lanes,
        }
        if event["lost"]:
            return self._write({"kind": "lost", "why": "scheduler", **record}, now)
        self._made.add(event["program"])
        trial = self._search.study.trials[job.trial]
        if lanes == 1:
            record["measured"] = {
                "step_ms": event["step_ms"],
                "other_seconds": kind.overhead_of(trial),
                "start_seconds": kind.overhead_of(trial),
                "steps": steps,
            }
            if event["making"]:
                record["measured"]["making_seconds"] = event["making"]
        else:
            record["measured"] = {
                "lane_ms": event["step_ms"] * costs.threads_of(kind.of._asdict(), {}),
                "lanes": lanes,
                "steps": steps,
            }
        if job.until is not None:
            value = self._loss(trial, job.until)
            return self._write(
                {"kind": "rung", "step": job.until, "objective": value, **record}, now
            )
        value = self._loss(trial, self._search.steps_of(trial))
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
        jobs = self._search.scheduler.jobs_of(worker)
        if jobs:
            attempt = self._search.study.trials[jobs[0].trial].running
            self._count(self._kinds[worker], {"since": attempt.time, "lost": True}, now)
        for job in jobs:
            self._write(
                {
                    "kind": "lost",
                    "why": "scheduler",
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
        found, corrections = {}, costs.Corrections()
        for trial in self._search.study.trials:
            if trial.outcome == "done":
                found[trial.number] = {
                    kind.name: (
                        math.inf
                        if self._refused(trial, kind, corrections)
                        else self.seconds(trial, kind, self._search.steps_of(trial))
                    )
                    for kind in self._pool.kinds
                }
        return found

    @staticmethod
    def _refused(trial: Trial, kind: Kind, corrections: costs.Corrections) -> bool:
        return bool(
            costs.cost(
                trial.prediction,
                corrections,
                kind.of.key,
                kind.of._asdict(),
                trial.model,
                1,
            ).refusal
        )

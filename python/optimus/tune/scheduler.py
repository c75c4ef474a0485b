# ===- scheduler.py - Which trial, where and when --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Gives waiting jobs to free workers. It is pure: events in, decisions out, the same for
the same events, whether workers are processes or a simulator's.

The order `placed` lets a worker take the job that loses most elsewhere:

    jobs and seconds on classes a, b:  1 (10, 40), 2 (10, 12), 3 (50, -)
    a worker of a takes 3 (b cannot run it), then 1 (it loses 30), then 2
    a worker of b takes 2 (it loses 2), and 1 only where nothing else is left

Once no more jobs will come, those that wait are placed on paper (placement.py). A worker
then takes a job that is placed on its class, or waits. The order `fcfs` is first come, first
served.
"""

import bisect
import heapq
import math
from typing import Callable, Dict, FrozenSet, KeysView, List, NamedTuple, Optional, Tuple

from optimus.tune import placement

ORDERS = ("placed", "fcfs")
MOST_PLANNED = 128
"""Jobs placed on paper at a time."""


class Job(NamedTuple):
    trial: int
    until: Optional[int] = None
    """The step of its rung; None: the last."""
    avoid: FrozenSet[str] = frozenset()
    """Workers that failed it."""


class Cost(NamedTuple):
    """Of a job on a class."""

    seconds: Optional[float] = None
    """None: nothing is known yet."""
    refusal: str = ""
    """Why it cannot run there."""

    @property
    def weight(self) -> float:
        if self.refusal:
            return math.inf
        return 1.0 if self.seconds is None else self.seconds


class Start(NamedTuple):
    """A decision."""

    job: Job
    worker: str
    why: Dict[str, Optional[float]]
    """Seconds on each class; None where it cannot run."""


SLOW, MARGIN = 2.0, 10.0
"""Of predicted seconds, and seconds for what is not predicted."""


def late_from(begin: float, end: float) -> float:
    """When a job is late that was predicted to take from `begin` to `end`."""
    return begin + SLOW * (end - begin) + MARGIN


class _Worker:
    def __init__(self, kind: str, deadline: Optional[float]):
        self.kind, self.deadline = kind, deadline
        self.job: Optional[Job] = None
        self.since = self.free_at = 0.0
        """When it began, and will be free as predicted."""

    def free_from(self, now: float) -> float:
        """Of one that is overdue nothing is known: it may take as long again."""
        if not self.job:
            return now
        return self.free_at if now <= self.free_at else 2 * now - self.since


class Scheduler:
    def __init__(self, cost: Callable[[Job, str], Cost], order: str = "placed"):
        self._cost, self._order = cost, order
        self._workers: Dict[str, _Worker] = {}
        self._free: Dict[str, List[str]] = {}
        """By class."""
        self._jobs: Dict[int, Tuple[int, Job]] = {}
        """Waiting, by trial, with their turn."""
        self._heaps: Dict[str, List[Tuple[float, float, int, int]]] = {}
        self._turn = 0
        self._avoided = 0
        """Jobs so far that avoid a worker."""
        self._is_stale = False
        self._planned: Optional[Dict[str, List[int]]] = None
        """The plan on paper, while nothing happens but what it foresaw."""
        self._planned_until = 0.0

    # Events.

    def joined(self, worker: str, kind: str, deadline: Optional[float] = None) -> None:
        """`deadline` is when its wall time ends."""
        self._workers[worker] = _Worker(kind, deadline)
        self._planned = None
        bisect.insort(self._free.setdefault(kind, []), worker)
        if kind not in self._heaps:
            self._is_stale = True
            self._heaps[kind] = []

    def left(self, worker: str) -> Optional[Job]:
        """The job that it had."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return None
        self._planned = None
        if not gone.job:
            self._free[gone.kind].remove(worker)
        if not any(each.kind == gone.kind for each in self._workers.values()):
            del self._heaps[gone.kind]
            self._is_stale = True
        return gone.job

    def add(self, job: Job) -> None:
        self._turn += 1
        self._planned = None
        self._jobs[job.trial] = (self._turn, job)
        self._avoided += bool(job.avoid)
        if not self._is_stale:
            self._push(self._turn, job)

    @property
    def _avoiding(self) -> bool:
        """Whether jobs differ in the workers of a class that may have them."""
        return self._avoided > 0

    def removed(self, trial: int) -> None:
        self._jobs.pop(trial, None)

    def begun(self, worker: str, trial: int, now: float) -> None:
        entry = self._workers[worker]
        _, entry.job = self._jobs.pop(trial)
        free = self._free[entry.kind]
        del free[bisect.bisect_left(free, worker)]
        entry.since = now
        entry.free_at = now + self._cost(entry.job, entry.kind).weight

    def freed(self, worker: str) -> None:
        entry = self._workers.get(worker)
        if entry and entry.job:
            entry.job = None
            bisect.insort(self._free[entry.kind], worker)

    def costs_changed(self) -> None:
        self._is_stale, self._planned = True, None

    # What there is.

    @property
    def workers(self) -> int:
        return len(self._workers)

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    @property
    def trials(self) -> List[int]:
        """Those that wait."""
        return list(self._jobs)

    @property
    def names(self) -> KeysView[str]:
        """Of workers."""
        return self._workers.keys()

    def kind_of(self, worker: str) -> str:
        return self._workers[worker].kind

    def waiting_job(self, trial: int) -> Optional[Job]:
        return self._jobs[trial][1] if trial in self._jobs else None

    def job_of(self, worker: str) -> Optional[Job]:
        entry = self._workers.get(worker)
        return entry.job if entry else None

    def refusals(self, job: Job) -> Dict[str, str]:
        """Why no class can run it; empty if one can."""
        found = {kind: self._cost(job, kind).refusal for kind in self._heaps}
        return found if found and all(found.values()) else {}

    def late(self, now: float) -> Optional[Tuple[str, Job]]:
        """A worker beyond SLOW times the prediction of its job, and MARGIN, whose job
        an idle worker could take, while no job waits."""
        if self._jobs or not self.has_idle():
            return None
        for worker, entry in self._workers.items():
            if entry.job and now > late_from(entry.since, entry.free_at):
                others = [each for free in self._free.values() for each in free]
                if any(self._may_run(entry.job, each, now) for each in others):
                    return worker, entry.job
        return None

    def has_idle(self) -> bool:
        return any(self._free.values())

    # Decisions.

    def choose(self, now: float, more_to_come: bool) -> Optional[Start]:
        """The next start; the caller reports it by `begun` and asks again."""
        if self._is_stale:
            self._rebuild()
        plans = not (
            self._order == "fcfs" or more_to_come or len(self._jobs) > MOST_PLANNED
        )
        for kind in sorted(self._free):
            if not self._is_wanted(kind):
                continue
            for worker in self._free[kind]:
                if plans:
                    job = next(
                        (
                            each
                            for each in self._plan(now).get(kind, ())
                            if self._may_run(each, worker, now)
                        ),
                        None,
                    )
                else:
                    job = self._top(worker, now)
                if job:
                    return Start(job, worker, self._why(job))
                if self._workers[worker].deadline is None and not self._avoiding:
                    break  # neither is there one for others of this class
        return self._any(now) if not more_to_come else None

    def _any(self, now: float) -> Optional[Start]:
        """Nobody is at work and all wait for another class: wall times end, and
        predictions may be wrong."""
        if any(each.job for each in self._workers.values()):
            return None
        for worker in sorted(self._workers):
            job = self._first(worker, now)
            if job:
                return Start(job, worker, self._why(job))
        return None

    def _why(self, job: Job) -> Dict[str, Optional[float]]:
        costs = {kind: self._cost(job, kind) for kind in self._heaps}
        return {kind: None if cost.refusal else cost.weight for kind, cost in costs.items()}

    def _may_run(self, job: Job, worker: str, now: float) -> bool:
        entry = self._workers[worker]
        cost = self._cost(job, entry.kind)
        if cost.refusal or (worker in job.avoid and self.workers > 1):
            return False
        return entry.deadline is None or now + (cost.seconds or 0.0) <= entry.deadline

    def _first(self, worker: str, now: float) -> Optional[Job]:
        for _, job in self._jobs.values():
            if self._may_run(job, worker, now):
                return job
        return None

    def _is_wanted(self, kind: str) -> bool:
        """Whether a job waits that this class can run."""
        heap = self._heaps.get(kind)
        while heap and self._jobs.get(heap[0][3], (0,))[0] != heap[0][2]:
            heapq.heappop(heap)  # begun, or another attempt
        return bool(heap)

    def _push(self, turn: int, job: Job) -> None:
        weights = {kind: self._cost(job, kind).weight for kind in self._heaps}
        for kind, weight in weights.items():
            if weight == math.inf:
                continue
            if self._order == "fcfs":
                heapq.heappush(self._heaps[kind], (turn, 0.0, turn, job.trial))
                continue
            others = [each for other, each in weights.items() if other != kind]
            loss = min(others, default=weight) - weight
            # A job that cannot run elsewhere loses all; the longest of these is first.
            heapq.heappush(self._heaps[kind], (-loss, -weight, turn, job.trial))

    def _rebuild(self) -> None:
        self._heaps = {kind: [] for kind in self._heaps}
        for turn, job in self._jobs.values():
            self._push(turn, job)
        self._is_stale = False

    def _top(self, worker: str, now: float) -> Optional[Job]:
        heap, passed = self._heaps[self._workers[worker].kind], []
        found = None
        while heap and not found:
            entry = heapq.heappop(heap)
            turn, job = self._jobs.get(entry[3], (0, None))
            if turn != entry[2]:
                continue
            passed.append(entry)
            if self._may_run(job, worker, now):
                found = job
        for entry in passed:
            heapq.heappush(heap, entry)
        return found

    def _plan(self, now: float) -> Dict[str, List[Job]]:
        """Jobs by class, in the order in which they are to begin."""
        if self._planned is None or now > self._planned_until:
            table = {
                job.trial: {kind: self._cost(job, kind).weight for kind in self._heaps}
                for _, job in self._jobs.values()
            }
            workers = self._workers.values()
            free: Dict[str, List[float]] = {kind: [] for kind in self._heaps}
            for each in workers:
                bisect.insort(free[each.kind], each.free_from(now))
            self._planned = placement.place(table, free).jobs
            # Beyond that time a worker is overdue.
            ends = [each.free_from(now) for each in workers if each.job]
            self._planned_until = min(ends, default=math.inf)
        return {
            kind: [self._jobs[trial][1] for trial in its if trial in self._jobs]
            for kind, its in self._planned.items()
        }

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
served; `shadho` too, but a class begins with those that were drawn for it.

Jobs with one `Job.pack` are of one program. Where a `Packing` says so a worker takes some
of them as lanes (packing.py), no more than half of its share of those that wait.
"""

import bisect
import heapq
import itertools
import math
from collections import Counter, deque
from typing import (
    Callable,
    Deque,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    KeysView,
    List,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
)

from optimus.tune import placement

ORDERS = ("placed", "fcfs", "shadho")
MOST_PLANNED = 128
"""Jobs placed on paper at a time."""
MOST_RENEWED = 6
"""Waiting jobs of each class that a decision gives their places anew after costs have
changed, although it takes none of them."""
EARNED, MOST_EARNED = 6, 8192
"""New places paid for by a start, and saved up at most: with thousands of workers costs
change faster than all could be given."""
MOST_RECONSIDERED = 32
"""Those that seem to be the first of a class, and may be others' by now."""
MOST_DROPPED = 64
"""Places that count no longer, at a time."""
MOST_LOOKED = 256
"""Waiting jobs, the most urgent ones, among which a worker looks for one to run."""
OTHERS = 1 << 40
"""Turns after all of a class's own, for jobs that were drawn for another."""
MOST_LATE = 16
"""Late jobs that a decision looks at."""


class Job(NamedTuple):
    trial: int
    until: Optional[int] = None
    """The step of its rung; None: the last."""
    avoid: FrozenSet[str] = frozenset()
    """Workers that failed it."""
    kind: str = ""
    """The class that it was drawn for, if any."""
    pack: str = ""
    """Of those that may run beside it as lanes of one program; empty: none."""


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
    mates: Tuple[Job, ...] = ()
    """Jobs that run beside it as lanes."""


class Packing(Protocol):
    """Of jobs as lanes of one program."""

    most: int
    """Lanes."""

    def cost(self, jobs: Sequence[Job], kind: str) -> Cost:
        """Of equal jobs on a class, together."""

    def pays(self, jobs: Sequence[Job], kind: str) -> bool:
        """Whether they can run together there, and should."""

    def are_alike(self, job: Job, other: Job) -> bool:
        """Whether two equal jobs have about as many steps before them."""


SLOW, MARGIN = 2.0, 10.0
"""Of predicted seconds, and seconds for what is not predicted."""


def late_from(begin: float, end: float) -> float:
    """When a job is late that was predicted to take from `begin` to `end`."""
    return begin + SLOW * (end - begin) + MARGIN


Place = Tuple[float, float, int, int, int]
"""Of a job on a class: what is urgent first, −seconds, the turn, the entry's number, the
trial."""


class _Worker:
    __slots__ = ("name", "kind", "deadline", "jobs", "is_away", "since", "free_at")

    def __init__(self, name: str, kind: str, deadline: Optional[float]):
        self.name, self.kind, self.deadline = name, kind, deadline
        self.jobs: Tuple[Job, ...] = ()
        """Several are lanes of one program."""
        self.is_away = False
        """At work on no job."""
        self.since = self.free_at = 0.0
        """When it began, and will be free as predicted."""

    def free_from(self, now: float) -> float:
        """Of one that is overdue nothing is known: it may take as long again."""
        if not self.jobs and not self.is_away:
            return now
        return self.free_at if now <= self.free_at else 2 * now - self.since

    @property
    def rank(self) -> Tuple[float, str]:
        """Among the free ones of a class: with the most time left, then by name. What it
        has no time for none of them has."""
        return (-math.inf if self.deadline is None else -self.deadline, self.name)


class _Class:
    """Its workers, and the jobs that it can run, the first to be taken on top."""

    def __init__(self) -> None:
        self.workers = 0
        self.free: List[Tuple[float, str]] = []
        """Ranks, sorted."""
        self.busy: List[Tuple[float, str]] = []
        """When each will be free, sorted."""
        self.old: List[Place] = []
        self.new: List[Place] = []
        """Heaps of jobs, by costs before they changed and by those of now."""


class Scheduler:
    def __init__(
        self,
        cost: Callable[[Job, str], Cost],
        order: str = "placed",
        packing: Optional[Packing] = None,
        weights: Optional[Callable[[Job, Iterable[str]], List[float]]] = None,
    ):
        """`weights` are those of costs on several classes, where they are sooner had
        together."""
        self._cost, self._order, self._packing = cost, order, packing
        self._weights = weights or self._weights_one_by_one
        self._workers: Dict[str, _Worker] = {}
        self._classes: Dict[str, _Class] = {}
        """Those that have workers."""
        self._jobs: Dict[int, Tuple[int, Job]] = {}
        """Waiting, by trial, with their turn."""
        self._entries: Dict[int, int] = {}
        """By trial its valid entry in heaps."""
        self._equal: Dict[str, Dict[int, None]] = {}
        """Waiting trials that may run as lanes, by `Job.pack`."""
        self._turn = self._entry = 0
        self._avoided: Counter = Counter()
        """Waiting jobs by the number of workers that they avoid."""
        self._running = self.away = 0
        """Workers with jobs, and those that went."""
        self._placeless: Deque[Tuple[int, int]] = deque()
        """Entries and trials that are in no heap of a class: none can run them, or none
        that could is there any more."""
        self._unplaced: Deque[Tuple[int, int]] = deque()
        """Those of them that `renew` has to give places."""
        self._is_renewing = self._is_changed_again = False
        self._earned = MOST_EARNED
        """New places that starts have paid for."""
        self._is_cluttered, self._reconsidered = False, 0
        """Of a decision: whether a heap's first job was not found, and how many jobs it
        may still reconsider."""
        self._late: List[Tuple[float, str, float]] = []
        """A heap: when a job is to be looked at, its worker, and when it began."""
        self.nowhere: Deque[int] = deque()
        """Trials that no class can run, as they were found."""
        self._planned: Optional[Dict[str, List[int]]] = None
        """The plan on paper, while nothing happens but what it foresaw."""
        self._planned_until = 0.0

    # Events.

    def joined(self, worker: str, kind: str, deadline: Optional[float] = None) -> None:
        """`deadline` is when its wall time ends."""
        entry = self._workers[worker] = _Worker(worker, kind, deadline)
        self._planned = None
        if kind not in self._classes:
            self._classes[kind] = _Class()
            self.costs_changed()
        its = self._classes[kind]
        its.workers += 1
        bisect.insort(its.free, entry.rank)

    def left(self, worker: str) -> Tuple[Job, ...]:
        """The jobs that it had."""
        gone = self._workers.pop(worker, None)
        if gone is None:
            return ()
        self._planned = None
        its = self._classes[gone.kind]
        its.workers -= 1
        if gone.jobs or gone.is_away:
            self._running -= bool(gone.jobs)
            self.away -= gone.is_away
            _remove(its.busy, (gone.free_at, worker))
        else:
            _remove(its.free, gone.rank)
        if not its.workers:
            del self._classes[gone.kind]
            self._placeless.extend(place[3:] for place in its.old + its.new)
            self.costs_changed()
        return gone.jobs

    def add(self, job: Job) -> None:
        self._turn += 1
        self._planned = None
        self._jobs[job.trial] = (self._turn, job)
        if job.pack:
            self._equal.setdefault(job.pack, {})[job.trial] = None
        self._avoided[len(job.avoid)] += 1
        self._push(self._turn, job)

    def removed(self, trial: int) -> Optional[Job]:
        """It waits no longer; the job, if it did."""
        if trial not in self._jobs:
            return None
        _, job = self._jobs.pop(trial)
        del self._entries[trial]
        self._avoided[len(job.avoid)] -= 1
        if job.pack:
            equal = self._equal[job.pack]
            del equal[trial]
            if not equal:
                del self._equal[job.pack]
        return job

    def begun(self, worker: str, now: float, *trials: int) -> None:
        """Several are lanes of one program."""
        entry = self._workers[worker]
        its = self._classes[entry.kind]
        _remove(its.free, entry.rank)
        entry.jobs, entry.since = tuple(map(self.removed, trials)), now
        if len(trials) == 1:
            cost = self._cost(entry.jobs[0], entry.kind)
        else:
            cost = self._packing.cost(entry.jobs, entry.kind)
            self._planned = None
        entry.free_at = now + cost.weight
        bisect.insort(its.busy, (entry.free_at, worker))
        self._running += 1
        self._earned = min(MOST_EARNED, self._earned + EARNED)
        heapq.heappush(self._late, (late_from(now, entry.free_at), worker, now))
        if len(self._late) > 3 * self._running + 64:
            self._late = [each for each in self._late if self._is_under_way(each)]
            heapq.heapify(self._late)

    def freed(self, worker: str, trial: int) -> None:
        """It has this trial no longer, and is free with the last."""
        entry = self._workers.get(worker)
        if entry and entry.jobs:
            entry.jobs = tuple(job for job in entry.jobs if job.trial != trial)
            if entry.jobs:
                return
            its = self._classes[entry.kind]
            _remove(its.busy, (entry.free_at, worker))
            self._running -= 1
            bisect.insort(its.free, entry.rank)

    def went(self, worker: str, now: float, seconds: float) -> None:
        """A free one has no time for jobs until it comes back."""
        entry = self._workers[worker]
        its = self._classes[entry.kind]
        _remove(its.free, entry.rank)
        entry.is_away, entry.since, entry.free_at = True, now, now + seconds
        self.away += 1
        bisect.insort(its.busy, (entry.free_at, worker))
        self._planned = None

    def came_back(self, worker: str) -> None:
        entry = self._workers[worker]
        its = self._classes[entry.kind]
        _remove(its.busy, (entry.free_at, worker))
        entry.is_away = False
        self.away -= 1
        bisect.insort(its.free, entry.rank)
        self._planned = None

    def costs_changed(self) -> None:
        """Jobs keep their places until `renew` has come to them."""
        self._planned = None
        self._is_changed_again = self._is_renewing
        if self._is_renewing:
            return
        self._is_renewing = True
        for its in self._classes.values():
            its.old, its.new = its.new, []
        self._unplaced, self._placeless = self._placeless, deque()

    @property
    def is_settled(self) -> bool:
        """Whether `choose` finds nothing more until something happens. If not, another one
        may: a worker is free, and not all jobs have places by present costs."""
        return not self._is_cluttered and not (self._is_renewing and self.has_idle())

    def renew(self) -> None:
        """Gives some jobs their places by present costs, the first of each class."""
        for _ in range(MOST_RENEWED if self._is_renewing else 0):
            self._is_renewing = False
            for its in list(self._classes.values()):
                is_clean = self._drop(its.old)
                self._is_renewing |= bool(its.old)
                if its.old and is_clean:
                    self._earned -= 1
                    self._replace(*its.old[0][3:])
            if self._unplaced:
                self._earned -= 1
                self._is_renewing = True
                self._replace(*self._unplaced.popleft())
            if not self._is_renewing:
                if self._is_changed_again:
                    self.costs_changed()
                return

    def _renew_all(self) -> None:
        """For few jobs."""
        self._is_renewing = self._is_changed_again = False
        self._unplaced.clear()
        self._placeless.clear()
        for its in self._classes.values():
            its.old, its.new = [], []
        for turn, job in self._jobs.values():
            self._push(turn, job)

    def _replace(self, entry: int, trial: int) -> None:
        """Another place for one that has its place by this entry."""
        if self._entries.get(trial) == entry:
            self._push(*self._jobs[trial])

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

    @property
    def counts(self) -> Dict[str, int]:
        """Of workers by class."""
        return {kind: its.workers for kind, its in self._classes.items()}

    def kind_of(self, worker: str) -> str:
        return self._workers[worker].kind

    def waiting_job(self, trial: int) -> Optional[Job]:
        return self._jobs[trial][1] if trial in self._jobs else None

    def jobs_of(self, worker: str) -> Tuple[Job, ...]:
        entry = self._workers.get(worker)
        return entry.jobs if entry else ()

    def refusals(self, job: Job) -> Dict[str, str]:
        """Why no class can run it; empty if one can."""
        found = {kind: self._cost(job, kind).refusal for kind in self._classes}
        return found if found and all(found.values()) else {}

    def late(
        self, now: float, may_stop: Callable[[str, Job], bool]
    ) -> Optional[Tuple[str, Job]]:
        """A worker beyond SLOW times the prediction of its job, and MARGIN, whose job
        may be stopped and an idle worker could take, while no job waits."""
        if self._jobs or not self.has_idle():
            return None
        passed, found = [], None
        while self._late and now > self._late[0][0] and len(passed) < MOST_LATE:
            entry = heapq.heappop(self._late)
            if not self._is_under_way(entry):
                continue
            _, worker, since = entry
            job = self._workers[worker].jobs[0]
            if not may_stop(worker, job):
                # Others are looked at before it is again.
                passed.append((now + MARGIN, worker, since))
                continue
            passed.append(entry)
            if self._has_taker(job, now):
                found = worker, job
                break
        for entry in passed:
            heapq.heappush(self._late, entry)
        return found

    def _is_under_way(self, entry: Tuple[float, str, float]) -> bool:
        worker = self._workers.get(entry[1])
        return bool(worker and worker.jobs and worker.since == entry[2])

    def _has_taker(self, job: Job, now: float) -> bool:
        """Whether an idle worker may run it."""
        return any(
            self._may_run(job, worker, now)
            for kind in self._classes
            for worker in self._first_free(kind, len(job.avoid))
        )

    def last_free(self, now: float) -> float:
        """When the last worker will be, as predicted."""
        return max((each.free_from(now) for each in self._workers.values()), default=now)

    def has_idle(self) -> bool:
        return any(its.free for its in self._classes.values())

    # Decisions.

    def choose(self, now: float, more_to_come: bool) -> Optional[Start]:
        """The next start; the caller reports it by `begun` and asks again."""
        self._is_cluttered, self._reconsidered = False, MOST_RECONSIDERED
        if self._earned > 0:
            self.renew()
        while self._unplaced and self._reconsidered:
            self._reconsidered -= 1
            self._replace(*self._unplaced.popleft())
        if not self.has_idle():
            return None
        found = self._chosen(now, more_to_come)
        if found is None and self._earned <= 0:
            self.renew()
        if found is None and self.is_settled and not more_to_come:
            found = self._any(now)
        return found and self._with_mates(found, now, more_to_come)

    def _with_mates(self, start: Start, now: float, more_to_come: bool) -> Start:
        """The number of lanes with the least time of each, of those that pay."""
        if not self._packing or len(self._equal.get(start.job.pack, ())) < 2:
            return start
        kind = self.kind_of(start.worker)
        waiting: Iterable[int] = self._equal[start.job.pack]
        share = -(-len(self._jobs) // self.workers)
        if self._plans(more_to_come):
            placed = {job.trial for job in self._plan(now).get(kind, ())}
            waiting = [trial for trial in waiting if trial in placed]
            share = self._share(start.job, kind, len(placed), now)
        if self.workers > 1:
            # The rest makes up for what takes longer than predicted.
            share = -(-share // 2)
        most = min(self._packing.most, share)
        jobs = [start.job]
        for trial in itertools.islice(waiting, MOST_LOOKED):
            job = self._jobs[trial][1]
            if len(jobs) < most and trial != start.job.trial:
                if self._packing.are_alike(start.job, job) and self._may_run(
                    job, start.worker, now
                ):
                    jobs.append(job)
        best, least = 1, math.inf
        for count in range(2, len(jobs) + 1):
            seconds = self._packing.cost(jobs[:count], kind).weight
            if (
                seconds / count <= least
                and self._packing.pays(jobs[:count], kind)
                and self._has_time(start.worker, now, seconds)
            ):
                best, least = count, seconds / count
        return start._replace(mates=tuple(jobs[1:best]))

    def _share(self, job: Job, kind: str, jobs: int, now: float) -> int:
        """Of jobs like this one on a class, how many a free worker would take one after
        the other, while the others take theirs."""
        (_, *others), weight = (
            self._free_from(self._classes[kind], jobs, now),
            self._cost(job, kind).weight,
        )
        end, share = now, 0
        for _ in range(jobs):
            if others and others[0] < end:
                heapq.heapreplace(others, others[0] + weight)
            else:
                end, share = end + weight, share + 1
        return share

    def _plans(self, more_to_come: bool) -> bool:
        return not (
            self._order != "placed" or more_to_come or len(self._jobs) > MOST_PLANNED
        )

    def _chosen(self, now: float, more_to_come: bool) -> Optional[Start]:
        plans = self._plans(more_to_come)
        if plans and self._is_renewing:
            self._renew_all()
        for kind in sorted(self._classes):
            if not self._classes[kind].free or not self._is_wanted(kind):
                continue
            for worker in self._first_free(kind):
                if plans:
                    jobs = iter(self._plan(now).get(kind, ()))
                    job = self._first(worker, jobs, now)
                else:
                    job = self._top(worker, now)
                if job:
                    return Start(job, worker, self._why(job))
        return None

    def _first_free(self, kind: str, avoided: Optional[int] = None) -> List[str]:
        """The free workers of a class by their ranks, as far as one may have a job that
        those before it may not: beyond the workers that a job avoids, none."""
        if avoided is None:
            avoided = max(+self._avoided, default=0)
        return [name for _, name in self._classes[kind].free[: avoided + 1]]

    def _any(self, now: float) -> Optional[Start]:
        """Nobody is at work and all wait for another class: wall times end, and
        predictions may be wrong."""
        for kind in sorted(self._classes) if not self._running + self.away else ():
            for worker in self._first_free(kind):
                jobs = (job for _, job in self._jobs.values())
                job = self._first(worker, jobs, now)
                if job:
                    return Start(job, worker, self._why(job))
        return None

    def _why(self, job: Job) -> Dict[str, Optional[float]]:
        costs = {kind: self._cost(job, kind) for kind in self._classes}
        return {kind: None if cost.refusal else cost.weight for kind, cost in costs.items()}

    def _may_run(self, job: Job, worker: str, now: float) -> bool:
        cost = self._cost(job, self._workers[worker].kind)
        if cost.refusal or (worker in job.avoid and self.workers > 1):
            return False
        return self._has_time(worker, now, cost.seconds or 0.0)

    def _has_time(self, worker: str, now: float, seconds: float) -> bool:
        deadline = self._workers[worker].deadline
        return deadline is None or now + seconds <= deadline

    def _first(self, worker: str, jobs: Iterator[Job], now: float) -> Optional[Job]:
        return next((job for job in jobs if self._may_run(job, worker, now)), None)

    def _is_wanted(self, kind: str) -> bool:
        """Whether a job waits that this class can run."""
        return bool(self._heap(self._classes[kind]))

    def _heap(self, its: _Class) -> List[Place]:
        """The heap with the first job of a class on top, empty where there is none, or
        where none is found in a moment."""
        while True:
            if not (self._drop(its.old) and self._drop(its.new)):
                self._is_cluttered = True
                return []
            if not its.old or (its.new and its.new[0] < its.old[0]):
                return its.new
            if not self._reconsidered:
                return its.new or its.old
            # It would be the first by costs that have changed.
            self._reconsidered -= 1
            self._replace(*its.old[0][3:])

    def _drop(self, heap: List[Place]) -> bool:
        """Takes from the top what has begun, or has another place; whether that is all."""
        for _ in range(MOST_DROPPED):
            if not heap or self._entries.get(heap[0][4]) == heap[0][3]:
                return True
            heapq.heappop(heap)
        return False

    def _push(self, turn: int, job: Job) -> None:
        """Its place on each class. A place that it had before counts no longer."""
        self._entry += 1
        self._entries[job.trial] = self._entry
        weights = self._weights(job, self._classes)
        least, second = sorted([*weights, math.inf, math.inf])[:2]
        if least == math.inf:
            self._placeless.append((self._entry, job.trial))
            if weights:
                self.nowhere.append(job.trial)
        is_full = False
        for (kind, its), weight in zip(self._classes.items(), weights):
            if weight == math.inf:
                continue
            if self._order != "placed":
                is_other = self._order == "shadho" and job.kind not in ("", kind)
                place = (turn + is_other * OTHERS, -weight, turn, self._entry, job.trial)
            else:
                # A job that cannot run elsewhere loses all; the longest of these is first.
                other = second if weight == least else least
                loss = other - weight if len(weights) > 1 else 0.0
                place = (-loss, -weight, turn, self._entry, job.trial)
            heapq.heappush(its.new, place)
            is_full |= len(its.new) > 3 * len(self._jobs) + 64
        if is_full and not self._is_renewing:
            self.costs_changed()  # most have begun elsewhere

    def _weights_one_by_one(self, job: Job, kinds: Iterable[str]) -> List[float]:
        return [self._cost(job, kind).weight for kind in kinds]

    def _top(self, worker: str, now: float) -> Optional[Job]:
        entry = self._workers[worker]
        its, passed = self._classes[entry.kind], []
        left = math.inf if entry.deadline is None else entry.deadline - now
        found = None
        while not found and len(passed) < MOST_LOOKED and (heap := self._heap(its)):
            place = heapq.heappop(heap)
            passed.append((heap, place))
            _, job = self._jobs[place[4]]
            if -place[1] <= left and self._may_run(job, worker, now):
                found = job
        for heap, place in passed:
            heapq.heappush(heap, place)
        return found

    def _free_from(self, its: _Class, most: int, now: float) -> List[float]:
        """When the first workers of a class are free, sorted; as many as have a use."""
        times = [now] * min(len(its.free), most)
        busy = its.busy[: most - len(times)]
        return sorted(times + [self._workers[name].free_from(now) for _, name in busy])

    def _plan(self, now: float) -> Dict[str, List[Job]]:
        """Jobs by class, in the order in which they are to begin."""
        if self._planned is None or now > self._planned_until:
            table = {
                job.trial: dict(zip(self._classes, self._weights(job, self._classes)))
                for _, job in self._jobs.values()
            }
            free = {
                kind: self._free_from(its, len(table), now)
                for kind, its in self._classes.items()
            }
            self._planned = placement.place(table, free).jobs
            # Beyond that time a worker is overdue.
            ends = [
                self._workers[name].free_from(now)
                for its in self._classes.values()
                for _, name in its.busy[: 1 + bisect.bisect(its.busy, (now, ""))]
            ]
            self._planned_until = min(ends, default=math.inf)
        return {
            kind: [self._jobs[trial][1] for trial in its if trial in self._jobs]
            for kind, its in self._planned.items()
        }


def _remove(found: List[Tuple[float, str]], each: Tuple[float, str]) -> None:
    """Of a sorted list."""
    del found[bisect.bisect_left(found, each)]

# ===- search.py - A search, as records follow from records ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A search is pure. Records of its journal go in by `apply`; `decide` says which record
comes next, if any. The executor and the simulator write it down, apply it and obey it.
Events outside come as records of theirs.

    apply(worker), decide → given, apply(given), apply(predicted), decide → started,
    apply(started), apply(ended), decide → …
"""

from collections import OrderedDict, deque
from typing import AbstractSet, Any, Deque, Dict, Iterable, List, Optional, Set, Tuple

from optimus.tune import TuneError, costs
from optimus.tune.jobs import program_key
from optimus.tune.journal import Record
from optimus.tune.machine import instructions_of
from optimus.tune.mix import ByClass
from optimus.tune.packing import Packing
from optimus.tune.scheduler import Cost, Job, Scheduler
from optimus.tune.shadho import Dealt
from optimus.tune.spec import Spec
from optimus.tune.study import Study, Trial, finite

WINDOW = 2
"""Waiting trials for each worker."""
MOST_MADE = 4096
"""Programs with instructions for which they are there."""
NOT_MADE: AbstractSet[str] = frozenset()
MOST_LOSSES = {"fault": 2, "log": 2, "killed": 10, "lease": 10}
"""Attempts that ended by a fault of ours, without a whole log, with the worker or by a
signal, or by its silence, before a trial has failed. Those that the scheduler or a full
disk ended count not, nor do those beyond a class's memory: the next ones run in a larger
class."""


class Plain:
    """Each trial runs once, to its last step."""

    def __init__(self, trials: int):
        self._left = trials

    def apply(self, record: Record, _study: Study) -> None:
        self._left -= record["kind"] == "given"

    def next(self, _study: Study, _now: float) -> Optional[Record]:
        """What is to be done: a new trial, with what it keeps of it, or a job."""
        return {"more": {}} if self._left > 0 else None

    def more_to_come(self) -> bool:
        return self._left > 0

    def first_rung(self, _trial: Trial) -> Optional[int]:
        return None

    def expired(self, _now: float) -> Optional[int]:
        """A trial that is no longer waited for."""
        return None


def _mix(spec: Spec, order: str, draw: str) -> Optional[ByClass]:
    """It chooses the spaces of classes; None for the sampler's own mix."""
    if draw == "shared":
        if order == "shadho":
            raise TuneError("--order shadho: expected --draw class beside it")
        return None
    if spec.study.rungs and spec.study.rungs.method == "dehb":
        raise TuneError(
            "--draw class: expected other rungs than those of DEHB, which choose points "
            "themselves"
        )
    return (Dealt if order == "shadho" else ByClass)(spec.space, spec.study.seed)


class Search:
    def __init__(
        self, spec: Spec, sampler, policy, order: str = "placed", draw: str = "shared"
    ):
        """`draw` is one of mix.DRAWS. Raises TuneError."""
        self.spec, self.study, self.policy = spec, Study(), policy
        self.sampler = sampler
        self.corrections = costs.Corrections()
        self.classes: Dict[str, Record] = {}
        """By their keys."""
        self._known_terms: Dict[Tuple[str, Tuple[str, ...]], List[costs.Terms]] = {}
        self._version_of_terms = 0
        self.packing = Packing(
            spec.lanes,
            spec.study.objectives,
            self.study.trials.__getitem__,
            self.steps_left,
            self.classes,
            self.corrections,
            self._made_for,
        )
        self.scheduler = Scheduler(
            self.cost,
            order,
            self.packing if self.packing.most > 1 else None,
            self._weights,
        )
        self._mates: Deque[Record] = deque()
        """Starts of lanes beside one that has begun."""
        self._programs: Set[str] = set()
        """Of trials that may be lanes."""
        self._libraries: Dict[int, str] = {}
        """Keys of what trials train, until they end."""
        self._counts: Dict[str, int] = {}
        """Of such trials by key."""
        self._made: Dict[str, Set[str]] = {}
        """The instructions that they were compiled for; the last ones, of many."""
        self._lanes = 0
        """How many such trials there were."""
        self.mix = _mix(spec, order, draw)
        self.is_informed = order == "placed" or self.mix is not None
        """Whether predictions decide."""
        self._unpredicted: Set[int] = set()
        self.expected = 0
        """Workers that are on their way, or there."""
        self._doubtful: Deque[int] = deque()
        """Perhaps they were lost too often."""
        self._floors: Dict[int, int] = {}
        self._running = 0
        self._on_rungs: "OrderedDict[int, None]" = OrderedDict()
        """Trials that reached a rung and have not ended."""
        self.spent = {"steps": 0, "tokens": 0, "device_seconds": 0.0}
        self.stopping = False
        """No more trials begin."""

    # What a trial takes.

    def steps_of(self, trial: Trial) -> int:
        return int(trial.values["train.steps"])

    def reached(self, trial: Trial) -> int:
        return max(trial.rungs) if trial.rungs else 0

    def steps_left(self, job: Job) -> int:
        trial = self.study.trials[job.trial]
        return (job.until or self.steps_of(trial)) - self.reached(trial)

    def _made_for(self, trial: int) -> AbstractSet[str]:
        return self._made.get(self.library_of(trial), NOT_MADE)

    def library_of(self, trial: int) -> str:
        """A key of what it trains, until it ends."""
        return self._libraries.get(trial, "")

    def cost(self, job: Job, kind: str) -> Cost:
        return self._cost(self.study.trials[job.trial], kind, self.steps_left(job))

    def _weights(self, job: Job, kinds: Iterable[str]) -> List[float]:
        """Those of its costs on several classes."""
        trial = self.study.trials[job.trial]
        return costs.seconds(
            trial.prediction or {},
            self._terms(trial.model, tuple(kinds)),
            self.steps_left(job),
            self._floors.get(job.trial, 0),
            self._made_for(job.trial),
        )

    def _terms(self, model: str, kinds: Tuple[str, ...]) -> List[costs.Terms]:
        """They are asked for most often."""
        if self._version_of_terms != self.corrections.version:
            self._known_terms, self._version_of_terms = {}, self.corrections.version
        found = self._known_terms.get((model, kinds))
        if found is None:
            terms, classes = self.corrections.terms, self.classes
            found = [terms(kind, model, classes[kind]) for kind in kinds]
            self._known_terms[model, kinds] = found
        return found

    def _cost(self, trial: Trial, kind: str, steps: int) -> Cost:
        return costs.cost(
            trial.prediction or {},
            self.corrections,
            kind,
            self.classes[kind],
            trial.model,
            steps,
            self._floors.get(trial.number, 0),
            self._made_for(trial.number),
        )

    def _whole_cost(self, trial: Trial, kind: str) -> Cost:
        return self._cost(trial, kind, self.steps_of(trial))

    def job_for(self, trial: Trial, until: Optional[int]) -> Job:
        avoid = frozenset(
            loss["worker"]
            for loss in trial.losses
            if loss.get("why") in ("fault", "slow")
        )
        return Job(
            trial.number, until, avoid, trial.more.get("class", ""), self.packing.key(trial)
        )

    # Records in.

    def apply(self, record: Record) -> None:
        self.study.apply(record)
        self.policy.apply(record, self.study)
        if self.mix and "trial" in record:
            self.mix.apply(record, self.study.trials[record["trial"]])
        handle = getattr(self, "_" + record["kind"], None)
        if handle:
            handle(record)

    def _class(self, record: Record) -> None:
        """What earlier searches knew."""
        if "taken" in record:
            self.corrections.recall(record["class"], record["taken"])
            self.scheduler.costs_changed()

    def _given(self, record: Record) -> None:
        self._unpredicted.add(record["trial"])
        self.sampler.given(self.study.trials[record["trial"]])

    def _predicted(self, record: Record) -> None:
        """Once more where it waits and its class has a profile meanwhile."""
        self._unpredicted.discard(record["trial"])
        trial = self.study.trials[record["trial"]]
        if self.scheduler.waiting_job(trial.number):
            return self.scheduler.costs_changed()
        key = program_key(trial.values, "", self.packing.lanes_of(trial))
        self._libraries[trial.number] = key
        self._counts[key] = self._counts.get(key, 0) + 1
        self._wait(trial, self.policy.first_rung(trial))
        key = self.scheduler.waiting_job(trial.number).pack
        if key:
            self._lanes += 1
            self._programs.add(key)

    def _wait(self, trial: Trial, until: Optional[int]) -> None:
        if until is not None or "until" in trial.more:
            trial.more["until"] = until
        self.scheduler.add(self.job_for(trial, until))
        if trial.losses:
            self._doubtful.append(trial.number)

    def _promoted(self, record: Record) -> None:
        self._wait(self.study.trials[record["trial"]], record["until"])

    def _started(self, record: Record) -> None:
        self._running += 1
        trials = record.get("lanes", [record["trial"]])
        if record["worker"] not in self.scheduler.names:
            self.scheduler.removed(record["trial"])
        elif record["trial"] == trials[-1]:
            self.scheduler.begun(record["worker"], record["time"], *trials)

    def _rung(self, record: Record) -> None:
        self._on_rungs[record["trial"]] = None
        self._over(record)

    def _lost(self, record: Record) -> None:
        self._over(record)
        trial = self.study.trials[record["trial"]]
        # Of several lanes none needs what all of them did.
        if record.get("why") == "memory" and not trial.attempts[-1].lanes:
            its_class = self.study.classes.get(record["worker"], {})
            self._floors[trial.number] = max(
                self._floors.get(trial.number, 0), its_class.get("memory", 0)
            )
        self._wait(trial, trial.more.get("until"))

    def _ended(self, record: Record) -> None:
        trial = self.study.trials[record["trial"]]
        self.scheduler.removed(trial.number)
        self._on_rungs.pop(trial.number, None)
        if "worker" in record:
            self._over(record)
        key = self._libraries.pop(trial.number, None)
        if key is not None:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        self.sampler.tell(trial)

    def _over(self, record: Record) -> None:
        """An attempt is."""
        self._running -= 1
        self.scheduler.freed(record["worker"], record["trial"])
        trial = self.study.trials[record["trial"]]
        found = record.get("measured") or {}
        self._spend(trial, found, found.get("seconds", record.get("seconds", 0.0)))
        if "step_ms" in found or "lane_ms" in found:
            self._compiled(trial.number, instructions_of(record["class"]))
        if found and trial.prediction:
            version = self.corrections.version
            self.corrections.observe(
                record["class"], trial.model, trial.prediction, found
            )
            if self.corrections.version != version:
                self.scheduler.costs_changed()

    def _compiled(self, trial: int, instructions: str) -> None:
        """The library of a trial was compiled for these."""
        key = self._libraries[trial]
        found = self._made.setdefault(key, set())
        if instructions in found:
            return
        found.add(instructions)
        if len(self._made) > MOST_MADE:
            del self._made[next(iter(self._made))]
        if self._counts[key] > 1:
            self.scheduler.costs_changed()

    def _spend(self, trial: Trial, measured: Record, seconds: float) -> None:
        prediction, steps = trial.prediction or {}, measured.get("steps", 0)
        self.spent["steps"] += steps
        self.spent["tokens"] += steps * prediction.get("tokens", 0)
        self.spent["device_seconds"] += seconds * prediction.get("ranks", 1)

    # Workers come and go without a trace in the state that a journal holds.

    def joined(
        self, worker: str, kind: str, its_class: Record, deadline: Optional[float] = None
    ) -> None:
        if self.classes.get(kind) != its_class:
            self.classes[kind], self._known_terms = its_class, {}
        self.scheduler.joined(worker, kind, deadline)

    def left(self, worker: str) -> None:
        self.scheduler.left(worker)

    # Records out.

    def decide(self, now: float) -> Optional[Record]:
        if self._mates:
            return self._mates.popleft()
        return (
            self._refusal()
            or self._expired(now)
            or self._more(now)
            or self._start(now)
            # What was found to fit nowhere on the way to a start.
            or self._refusal()
            or self._late(now)
            or self._closing(now)
        )

    def _expired(self, now: float) -> Optional[Record]:
        trial = self.policy.expired(now)
        return None if trial is None else {"kind": "expired", "trial": trial}

    def _refusal(self) -> Optional[Record]:
        """A trial that fits nowhere, or was lost too often."""
        while self._doubtful:
            number = self._doubtful.popleft()
            trial = self.study.trials[number]
            for why, most in MOST_LOSSES.items():
                lost = [loss for loss in trial.losses if loss.get("why") == why]
                if len(lost) >= most and self.scheduler.waiting_job(number):
                    message = "lost %d times: %s" % (most, lost[-1].get("message", ""))
                    return self._end(trial, "failed", message)
        while self.scheduler.nowhere:
            number = self.scheduler.nowhere.popleft()
            job = self.scheduler.waiting_job(number)
            why = self.scheduler.refusals(job) if job else None
            if why:
                outcome = "memory" if number in self._floors else "infeasible"
                trial = self.study.trials[number]
                return self._end(trial, outcome, "; ".join(sorted(set(why.values()))))
        return None

    @staticmethod
    def _end(trial: Trial, outcome: str, why: str = "", **more: Any) -> Record:
        return {
            "kind": "ended",
            "trial": trial.number,
            "outcome": outcome,
            "message": why,
            **more,
        }

    def seconds_left(self, now: float) -> float:
        """Until a budget is spent, if all goes on as so far; 0 where nothing has ended."""
        study = self.spec.study
        spent = {
            "trials": self.study.ended,
            "hours": now / 3600 if self.study.ended else 0.0,
            **self.spent,
        }
        share = max(
            each / getattr(study, name) if getattr(study, name) else 0.0
            for name, each in spent.items()
        )
        return now * (1 - share) / share if 0 < share < 1 else 0.0

    def _is_spent(self, now: float) -> bool:
        study = self.spec.study
        return (
            self.stopping
            or (study.hours is not None and now >= 3600 * study.hours)
            or any(
                getattr(study, name) is not None and spent >= getattr(study, name)
                for name, spent in self.spent.items()
            )
        )

    def _more(self, now: float) -> Optional[Record]:
        """A trial, or a rung of one, while the window has room."""
        room = max(1, WINDOW * self._lanes_wanted() * self._window_workers())
        queued = self.scheduler.waiting + len(self._unpredicted)
        # What waits may suit others only.
        if queued >= (
            2 * room if self.scheduler.has_idle() and not self._unpredicted else room
        ):
            return None
        wanted = None if self._is_spent(now) else self.policy.next(self.study, now)
        if wanted is None:
            return None
        if "trial" in wanted:
            return {"kind": "promoted", **wanted}
        number = len(self.study.trials)
        asked = self.mix and self.mix.ask(
            number, self.scheduler.counts, self._whole_cost, self.corrections.version
        )
        label = None
        if asked:
            label = asked.pop("space")
            wanted["more"].update(asked)
        drawn = self.sampler.ask(number, wanted["more"], label)
        return {
            "kind": "given",
            "trial": number,
            "values": drawn.values,
            "space": drawn.space,
            "more": wanted["more"],
        }

    def _window_workers(self) -> int:
        """Those whose next trials may be given. Where draws follow from nothing they are
        predicted while workers start."""
        here = self.scheduler.workers
        return here if self.mix or self.sampler.learns else max(here, self.expected)

    def _lanes_wanted(self) -> int:
        """For each worker at a time: as many trials as had one program so far. Where the
        next ones follow from results, no more of them are asked for."""
        if self.packing.most == 1:
            return 1
        if self.packing.is_auto and self.sampler.learns:
            return 1
        return min(self.packing.most, max(1, self._lanes // max(1, len(self._programs))))

    @property
    def unpredicted(self) -> List[int]:
        return sorted(self._unpredicted)

    def more_to_come(self, now: float) -> bool:
        return not self._is_spent(now) and (
            self.policy.more_to_come() or bool(self._unpredicted)
        )

    def _start(self, now: float) -> Optional[Record]:
        if self._is_spent(now):
            self.scheduler.renew()
            return None
        found = self.scheduler.choose(now, self.more_to_come(now))
        if found is None:
            return None
        kind = self.scheduler.kind_of(found.worker)
        record = {
            "kind": "started",
            "worker": found.worker,
            "class": kind,
            "time": round(now, 3),
            "costs": {
                key: None if each is None else round(each, 3)
                for key, each in found.why.items()
            },
        }
        jobs = [found.job, *found.mates]
        if found.mates:
            record["lanes"] = [job.trial for job in jobs]
            record["together"] = round(self.packing.cost(jobs, kind).weight, 3)
            record["apart"] = round(self.packing.apart(jobs, kind), 3)
        self._mates.extend(
            {**record, "trial": job.trial, "until": job.until} for job in jobs
        )
        return self._mates.popleft()

    def _late(self, now: float) -> Optional[Record]:
        """A straggler, to be stopped once: it goes on elsewhere. Not before something
        like it was measured there."""

        def may_stop(worker: str, job: Job) -> bool:
            trial = self.study.trials[job.trial]
            kind = self.scheduler.kind_of(worker)
            ratio = self.corrections.ratio(kind, trial.model, trial.prediction)
            return not trial.stopped and ratio is not None

        found = None if self._is_spent(now) else self.scheduler.late(now, may_stop)
        if found is None:
            return None
        worker, _ = found
        # Lanes are of one process.
        self._mates.extend(
            {"kind": "slow", "trial": job.trial, "worker": worker}
            for job in self.scheduler.jobs_of(worker)
        )
        return self._mates.popleft()

    def _closing(self, now: float) -> Optional[Record]:
        """What is left where nothing will happen any more."""
        if (
            self._running
            or self._unpredicted
            or self.stopping
            or self.scheduler.away
            or not self.scheduler.is_settled
        ):
            return None
        spent = self._is_spent(now)
        if self.scheduler.waiting and not spent:
            if not self.scheduler.workers:
                return None
            return self._end(
                self.study.trials[self.scheduler.trials[0]],
                "infeasible",
                "no worker has the time that it needs",
            )
        if not spent and self.policy.next(self.study, now) is not None:
            return None
        for number in self._on_rungs:
            trial = self.study.trials[number]
            step = self.reached(trial)
            return self._end(
                trial,
                "stopped",
                "it ended on the rung of step %d" % step,
                objectives=[finite(trial.rungs[step])],
            )
        return None

    @property
    def is_settled(self) -> bool:
        """Whether `decide` says nothing else until something happens."""
        return self.scheduler.is_settled

    def is_over(self, now: float) -> bool:
        if self._running or self._unpredicted:
            return False
        rest = self.scheduler.waiting and not self._is_spent(now)
        more = self.policy.next(self.study, now) if not self._is_spent(now) else None
        return not rest and more is None

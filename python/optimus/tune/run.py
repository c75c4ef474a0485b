# ===- run.py - A study under way ------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs a search on workers: writes records down, and does what they say. Whatever
happens outside, a worker's end, a prediction, a signal, comes through one queue."""

import contextlib
import errno
import os
import queue
import shutil
import signal
import threading
import time
from typing import Callable, Dict, List, Optional, Set

from optimus import __version__, output
from optimus.tune import Collector, TuneError, names, outcome
from optimus.tune.costs import threads_of
from optimus.tune.executor import Event, Events, Executor, Start, Takes
from optimus.tune.jobs import (
    INSIDE,
    MEASURING,
    Folder,
    Jobs,
    cannot_write,
    commands,
    measure,
    program_key,
    ranks_in,
    write_lanes,
)
from optimus.tune.journal import Journal, Lock, Record
from optimus.tune.kept import Kept
from optimus.tune.machine import Class
from optimus.tune.pool import Pool
from optimus.tune.predictor import GIVING_WAY, Predictor
from optimus.tune.search import Search
from optimus.tune.study import Trial, finite

MOST_RESTARTS = 5
"""Of a worker between two results; then it stays away."""
LEASE = 90.0
"""Seconds of a worker's silence, after which its trial is anybody's."""
MOST_TICK = 1.0
"""Of them, that pass between two looks: a scheduler that stood still heard nobody."""
WORTH = 60.0
"""Times of measuring a class, that a search must go on to be worth it. With profiles and
without, trials of one pool took 6 to 10 % more or less than predicted, and all errors
together made a search of two minutes 3 % longer; measuring for five seconds did as much.
Later searches on the machine have no need of it."""
SURE = 2
"""Trials for each worker, that have ended by then: the first ones to end are short."""
PREDICTORS = 2
"""Programs planned at a time, of the trials that wait."""
POLL = 0.2
"""Seconds between two looks at the clock."""


class Run:
    """One execution of a study; `watch` sees every record and the time."""

    def __init__(
        self,
        search: Search,
        folder: Folder,
        journal: Journal,
        lock: Lock,
        starts: List[Start],
        watch: Callable[[Record, float], None],
        executor: Callable[[List[Start], int, Events], Executor] = Pool,
        cache: Optional[str] = None,
        measures_first: bool = False,
    ):
        """Times of classes are kept in the folder `cache` for other searches, and those of
        earlier ones count. Where it `measures_first` a worker of each class begins with
        the class's profile."""
        self.search, self._folder, self._journal = search, folder, journal
        self._seen = folder
        """As workers know it."""
        self._starts = {start.name: start for start in starts}
        self._watch = watch
        self._events: Events = queue.Queue()
        self._predictions: "queue.Queue[Optional[int]]" = queue.Queue()
        self._measures_first = measures_first
        # One class is corrected as well by its own trials.
        self._has_use = measures_first or (
            search.is_informed
            and len({(start.prefix, start.environment) for start in starts}) > 1
        )
        self._kept = Kept(len(starts) - 1, cache)
        self._recalled: Set[str] = {
            record["class"] for record in journal.records if record["kind"] == "class"
        }
        """Classes, of which nothing more is looked for."""
        self._measuring: Dict[str, Class] = {}
        """Workers that measure their classes."""
        self._not_measured: Set[str] = set()
        """Profiles that a worker failed to make."""
        self._predictor = Predictor(
            search.spec.folder,
            profiles=self._profiles,
            objectives=search.spec.study.objectives,
            keep=self._keep_text,
            niceness=lambda: 0 if self._is_waiting else GIVING_WAY,
        )
        search.expected = len(starts)
        self._is_waiting = True
        """Whether a worker is, for what may have to be predicted."""
        self._has_worker = threading.Event()
        """Set once a worker has come: its profile is for predictions."""
        self._restarts: Dict[str, int] = {}
        self._begin = time.monotonic() - max(
            (record.get("time", 0.0) for record in journal.records), default=0.0
        )
        self._signal = 0
        self._collector = Collector()
        self._with_checkpoints: Set[int] = set()
        self._executor = executor
        self._pool: Optional[Executor] = None
        self._refused = ""
        self._joined: Set[str] = set()
        self._clock, self._looked = 0.0, time.monotonic()
        """Of leases. No clock of a worker or of the day moves it."""
        self._heard: Dict[str, float] = {}
        """By worker, when it last said something."""
        self._deadlines: Dict[str, Optional[float]] = {}
        """When their wall times end."""
        self._lapsed: Dict[str, List[int]] = {}
        """Workers without their leases, and the trials that each had, lanes if several."""
        self._lock = lock

    def now(self) -> float:
        """Seconds that the study has been under way, in all its executions."""
        return time.monotonic() - self._begin

    def write(self, record: Record) -> None:
        """The one way in which anything is known."""
        record.setdefault("time", round(self.now(), 3))
        self._journal.append(record)
        self.search.apply(record)
        self._watch(record, self.now())
        if record["kind"] == "given":
            self._predictions.put(record["trial"])
        elif record["kind"] == "started" and not record.get("late"):
            self._revoke(record["trial"])
            if self._is_last_lane(record):
                self._submit(record)
        elif record["kind"] == "slow" and self._is_last_lane(record):
            self._pool.stop(record["worker"])
        elif record["kind"] == "ended":
            self._tidy(record)

    def _is_last_lane(self, record: Record) -> bool:
        """Whether all trials of a process have such a record."""
        trial = self.search.study.trials[record["trial"]]
        lanes = trial.running.lanes
        return not lanes or lanes[-1] == trial.number

    def run(self) -> int:
        """Until the search is over; the signal that ended it sooner, or 0."""
        self._resume()
        for _ in range(PREDICTORS):
            threading.Thread(target=self._predict, daemon=True).start()
        with self._signals():
            self._pool = self._executor(
                list(self._starts.values()), self._lock.descriptor, self._events
            )
            self._seen = Folder(self._pool.seen(self._folder.path))
            try:
                self._loop()
            finally:
                for _ in range(PREDICTORS):
                    self._predictions.put(None)
                self._has_worker.set()
                self._pool.close()
                self._predictor.close()
        self._keep()
        return self._signal

    def _keep(self) -> None:
        """For other searches. Of classes with one file the most measured has it."""
        taken = self.search.corrections.taken
        found = {Class(**each) for each in self.search.study.classes.values()}
        for its in sorted(found, key=lambda its: (_count(taken(its.key)), its)):
            self._kept.keep_taken(its, taken(its.key))

    def _resume(self) -> None:
        """Attempts of an execution that was killed begin again from their checkpoints."""
        for trial in self.search.study.trials:
            if trial.running:
                kind = Class(**self.search.study.classes[trial.running.worker]).key
                self.write(
                    {
                        "kind": "lost",
                        "trial": trial.number,
                        "class": kind,
                        "worker": trial.running.worker,
                        "why": "scheduler",
                        "message": "the scheduler was killed",
                    }
                )
        for number in self.search.unpredicted:
            self._predictions.put(number)

    def _loop(self) -> None:
        while True:
            self._renew()
            while not self._signal and (record := self.search.decide(self.now())):
                self.write(record)
            scheduler = self.search.scheduler
            self._is_waiting = scheduler.has_idle() or not scheduler.workers
            if self._signal or self.search.is_over(self.now()):
                return
            if not self._starts:
                raise TuneError(
                    self._refused
                    or self._pool.said
                    or "no worker is left: each ended %d times; see their trials' "
                    "train.txt" % MOST_RESTARTS
                )
            try:
                seconds = POLL if self.search.is_settled else 0
                self._handle(self._events.get(seconds > 0, seconds))
            except queue.Empty:
                # Nothing that was said waits to be heard.
                self._expire()
            self._collector.turn()

    def _renew(self) -> None:
        """Free workers that have no time for more."""
        for worker in self._pool.expiring():
            # Their last words, hello or a result, may still wait in the queue.
            if worker in self._joined and not self.search.scheduler.jobs_of(worker):
                self._pool.kill(worker)
                self._left(worker)
                self._pool.restart(self._starts[worker])

    def _expire(self) -> None:
        """Takes trials from silent workers. They may have them again as long as nobody
        else has begun them."""
        now = time.monotonic()
        self._clock += min(MOST_TICK, now - self._looked)
        self._looked = now
        for worker in sorted(self._joined):
            if self._clock - self._heard[worker] <= LEASE:
                continue
            jobs = self.search.scheduler.jobs_of(worker)
            if not jobs:
                self._replace(worker)
                continue
            self._lose(worker, "lease", "its worker said nothing for %g s" % LEASE)
            self._left(worker)
            self._lapsed[worker] = [job.trial for job in jobs]

    def _revoke(self, trial: int) -> None:
        """Two processes must not write one checkpoint."""
        for worker in [each for each, its in self._lapsed.items() if trial in its]:
            self._replace(worker)

    def _rejoin(self, worker: str) -> None:
        """It speaks again. What it had it goes on with, unless another has begun it."""
        numbers = self._lapsed.pop(worker)
        jobs = list(map(self.search.scheduler.waiting_job, numbers))
        if not all(jobs):
            self._replace(worker)
            return
        found = self.search.study.classes[worker]
        kind = Class(**found).key
        self._join(worker, found)
        for job in jobs:
            self.write(
                {
                    "kind": "started",
                    "late": True,
                    "trial": job.trial,
                    "worker": worker,
                    "class": kind,
                    "until": job.until,
                    "costs": {},
                    **({"lanes": numbers} if len(numbers) > 1 else {}),
                }
            )

    def _left(self, worker: str) -> None:
        self._joined.discard(worker)
        self.search.left(worker)

    def _handle(self, event: Event) -> None:
        if event.worker in self._starts:
            self._heard[event.worker] = self._clock
        if event.worker in self._lapsed and event.kind in ("beat", "result"):
            self._rejoin(event.worker)
            if event.worker not in self._joined:
                return
        getattr(self, "_on_" + event.kind)(event.worker, event.data)

    def _on_beat(self, worker: str, _message: Record) -> None:
        """It lives, as is known by now."""

    def _on_hello(self, worker: str, message: Record) -> None:
        found = message["hello"]
        if found.get("version") != __version__:
            return self._refuse(worker, found.get("version"))
        self.write({"kind": "worker", "worker": worker, "class": found})
        self._recall(worker, Class(**found))
        self._has_worker.set()
        wall = message.get("seconds_left", self._starts[worker].wall_seconds)
        self._deadlines[worker] = None if wall is None else self.now() + wall
        self._join(worker, found)
        if self._measures_first:
            self._measure(worker)

    def _keep_text(self, model: List[str], text: str) -> None:
        """A model's, for workers that would build it."""
        path = self._folder.model(model)
        if not os.path.exists(path):
            # A disk without room is their trial's end.
            with contextlib.suppress(output.OutputError):
                output.write(path, text)

    def _profiles(self) -> Dict[str, str]:
        """Files by the processors that they are of."""
        found = {Class(**each).profile for each in [*self.search.study.classes.values()]}
        paths = {name: self._folder.profile(name) for name in found}
        return {name: path for name, path in paths.items() if os.path.exists(path)}

    def _recall(self, worker: str, its: Class) -> None:
        """What earlier searches kept of a class."""
        if its.key in self._recalled:
            return
        self._recalled.add(its.key)
        path = self._folder.profile(its.profile)
        is_new = not os.path.exists(path)
        if is_new and (profile := self._kept.profile(its)):
            try:
                shutil.copyfile(profile, path)
            except OSError as error:
                raise TuneError(cannot_write(path, error.strerror)) from None
            self._predict_again()
        taken, is_profiled = self._kept.taken(its), os.path.exists(path)
        if taken or is_profiled:
            what = ["its profile"] * is_profiled + ["what trials took"] * bool(taken)
            self.write(
                {
                    "kind": "class",
                    "class": its.key,
                    "worker": worker,
                    "seconds": 0.0,
                    "message": "before: " + " and ".join(what),
                    **({"taken": taken} if taken else {}),
                }
            )

    def _predict_again(self) -> None:
        """What waits."""
        for trial in self.search.scheduler.trials:
            self._predictions.put(trial)

    def _is_worth(self, seconds: float) -> bool:
        """Whether the rest of the search takes so much longer as to gain by better
        predictions, or later searches do, since the worker has nothing else to do."""
        if self._measures_first:
            return True
        now, search = self.now(), self.search
        is_sure = search.study.ended >= SURE * search.scheduler.workers
        if is_sure and search.seconds_left(now) >= WORTH * seconds:
            return True
        is_needed = search.scheduler.waiting or search.more_to_come(now)
        return (
            not is_needed
            and self._kept.folder is not None
            and search.scheduler.last_free(now) >= now + seconds
        )

    def _measure(self, worker: str) -> None:
        """A free worker's class, unless somebody has, where that is worth it."""
        found = Class(**self.search.study.classes[worker])
        its = found.profile
        if (
            not self._has_use
            or worker not in self._joined
            or its in self._not_measured
            or its in {each.profile for each in self._measuring.values()}
            or os.path.exists(self._folder.profile(its))
            or not self._is_worth(MEASURING / found.cores)
        ):
            return
        self._joined.discard(worker)
        self._measuring[worker] = found
        self.search.scheduler.went(worker, self.now(), MEASURING / found.cores)
        ranks = ranks_in(self.search.spec.space)
        job = measure(self._seen, worker, found._asdict(), ranks)
        self._pool.submit(worker, job, Takes((), [INSIDE.measured(worker)]))

    def _on_measured(self, worker: str, result: Record) -> None:
        """What waits is predicted anew."""
        found, made = self._measuring.pop(worker), self._folder.measured(worker)
        if result["code"] == 0:
            os.replace(made, self._folder.profile(found.profile))
            self._kept.keep_profile(found, self._folder.profile(found.profile))
        else:
            self._not_measured.add(found.profile)
        self.write(
            {
                "kind": "class",
                "class": found.key,
                "worker": worker,
                "seconds": sum(result["seconds"].values()),
                "message": "" if result["code"] == 0 else "not: " + result["said"][-200:],
            }
        )
        with contextlib.suppress(OSError):
            os.unlink(made)
        self._joined.add(worker)
        self.search.scheduler.came_back(worker)
        if result["code"] == 0:
            self._predict_again()

    def _join(self, worker: str, found: Record) -> None:
        self._joined.add(worker)
        key = Class(**found).key
        self.search.joined(worker, key, found, self._deadlines[worker])

    def _refuse(self, worker: str, version: Optional[str]) -> None:
        """Its plans and checkpoints could be other ones."""
        del self._starts[worker]
        self._pool.kill(worker)
        self._refused = (
            "worker %s runs Optimus %s, expected %s, the scheduler's: install that where "
            "it runs" % (worker, version, __version__)
        )
        if self._starts:
            output.say("optimus-tune: " + self._refused)

    def _on_gone(self, worker: str, code: int) -> None:
        """It is replaced; what it had begins again."""
        if worker not in self._starts:
            return
        if self.search.scheduler.jobs_of(worker):
            self._lose(worker, "killed", "its worker ended with exit code %d" % code)
        self._replace(worker)

    def _replace(self, worker: str) -> None:
        """Ends it, and starts another unless too many have failed."""
        self._pool.kill(worker)
        self._lapsed.pop(worker, None)
        self._left(worker)
        self._restarts[worker] = self._restarts.get(worker, 0) + 1
        self._measuring.pop(worker, None)
        if self._restarts[worker] > MOST_RESTARTS:
            del self._starts[worker]
        else:
            self._pool.restart(self._starts[worker])

    def _lose(self, worker: str, why: str, message: str) -> None:
        scheduler = self.search.scheduler
        for job in scheduler.jobs_of(worker):
            self.write(
                {
                    "kind": "lost",
                    "trial": job.trial,
                    "worker": worker,
                    "class": scheduler.kind_of(worker),
                    "why": why,
                    "message": message,
                }
            )

    def _on_predicted(self, _worker: str, record: Record) -> None:
        """A trial under way keeps the prediction that it began with."""
        trial = self.search.study.trials[record["trial"]]
        profiles = record.pop("profiles")
        if trial.prediction is None or self.search.scheduler.waiting_job(trial.number):
            self.write(record)
            if profiles != self._profiles().keys():
                self._predictions.put(trial.number)

    def _on_result(self, worker: str, result: Record) -> None:
        try:
            self._pool.take(worker)
        except OSError as error:
            raise TuneError(cannot_write(self._folder.path, error.strerror)) from None
        if worker in self._measuring:
            return self._on_measured(worker, result)
        self._restarts[worker] = 0
        trials = [
            self.search.study.trials[job.trial]
            for job in self.search.scheduler.jobs_of(worker)
        ]
        logs = [outcome.read_log(self._folder.trial(trial.number)) for trial in trials]
        reached = [self.search.reached(trial) for trial in trials]
        its_class = self.search.classes[self.search.scheduler.kind_of(worker)]
        cores = its_class["cores"]
        if len(trials) == 1:
            found = [outcome.measured(logs[0], result, reached[0], cores)]
        else:
            threads = threads_of(its_class, trials[0].values)
            found = outcome.measured_lanes(logs, result, reached, threads, cores)
        ends = [
            self._over(worker, result, *each) for each in zip(trials, logs, found)
        ]
        if "disk" in ends:
            raise TuneError(cannot_write(self._folder.path, os.strerror(errno.ENOSPC)))
        self._measure(worker)

    def _over(
        self, worker: str, result: Record, trial: Trial, log: outcome.Log, found: Record
    ) -> str:
        """Of a trial the attempt is; its outcome."""
        search = self.search
        found["steps"] = max(
            0, (log.steps[-1]["step"] if log.steps else 0) - search.reached(trial)
        )
        verdict = outcome.judge(
            log,
            result,
            trial.running.until,
            search.steps_of(trial),
            bool(trial.running.lanes),
        )
        record = {
            "kind": verdict.kind,
            "trial": trial.number,
            "worker": worker,
            "class": search.scheduler.kind_of(worker),
            "measured": found,
        }
        values = outcome.objectives(
            search.spec.study.objectives,
            log,
            trial.prediction or {},
            found,
            diverged=verdict.outcome == "diverged",
            has_patience=outcome.PATIENCE in trial.values,
        )
        if verdict.kind == "rung":
            record.update(step=trial.running.until, objective=finite(values[0]))
        elif verdict.kind == "lost":
            record.update(why=verdict.outcome, message=verdict.why)
            if verdict.outcome == "log":
                # Its losses are gone; the trial begins anew.
                shutil.rmtree(self._folder.trial(trial.number), ignore_errors=True)
            if trial.running in trial.stopped and verdict.outcome == "killed":
                record.update(why="slow", message="it took longer than predicted")
        else:
            record.update(outcome=verdict.outcome, message=verdict.why)
            if verdict.outcome in ("done", "diverged"):
                record["objectives"] = [finite(each) for each in values]
        record["seconds"] = found["seconds"]
        self.write(record)
        return verdict.outcome

    def _submit(self, record: Record) -> None:
        jobs: Jobs = []
        for job in self.search.scheduler.jobs_of(record["worker"]):
            trial = self.search.study.trials[job.trial]
            jobs.append((trial, job.until))
        trial = jobs[0][0]
        if len(jobs) > 1:
            write_lanes(self._folder, self._seen, jobs)
        its_class, seen = self.search.classes[record["class"]], self._seen
        lanes = self.search.packing.lanes_of(trial)
        program = program_key(trial.values, its_class["instructions"], lanes)
        takes = Takes(
            tuple(each.values for each, _ in jobs),
            [
                INSIDE.model(names.arguments(trial.values, "model")),
                INSIDE.program(program),
                *(INSIDE.trial(each.number) + "/" for each, _ in jobs),
            ],
        )
        self._pool.submit(
            record["worker"],
            {
                "job": trial.number,
                "folder": seen.trial(trial.number),
                "cwd": self.search.spec.folder,
                "commands": commands(seen, jobs, its_class, lanes),
            },
            takes,
        )

    def _predict(self) -> None:
        self._has_worker.wait()
        while (number := self._predictions.get()) is not None:
            values, profiles = self.search.study.trials[number].values, self._profiles()
            try:
                found = self._predictor.predict(values)
            except Exception as error:  # it must not end the thread
                found = {"refusal": "it cannot be predicted: %s" % error}
            self._events.put(
                Event(
                    "predicted",
                    "",
                    {
                        "kind": "predicted",
                        "trial": number,
                        "prediction": found,
                        "profiles": profiles.keys(),
                    },
                )
            )

    def _tidy(self, record: Record) -> None:
        """Checkpoints that nobody will want."""
        if self.search.spec.study.keep == "all":
            return
        wanted = {trial.number for trial in self.search.study.front()}
        for trial in self._with_checkpoints | {record["trial"]}:
            if trial not in wanted and self.search.study.trials[trial].end:
                for each in (self._folder.checkpoint(trial), self._folder.best(trial)):
                    shutil.rmtree(each, ignore_errors=True)
        self._with_checkpoints = wanted

    @contextlib.contextmanager
    def _signals(self):
        """A first signal lets trials save; the same command goes on from there."""

        def stop(number, _frame) -> None:
            self._signal = number
            self.search.stopping = True
            signal.signal(number, signal.SIG_DFL)

        before = {
            number: signal.signal(number, stop)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) not in (signal.SIG_IGN, None)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _count(taken: Record) -> int:
    return sum(count for *_, count in taken["rates"])

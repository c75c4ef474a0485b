# ===- optuna_sampler.py - Optuna's samplers, asked and told ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Optuna chooses points by ask and tell. Only the scheduler talks to it, in memory: the
journal is the truth, and says it all again after a kill. A copy in STUDY/optuna.db, for
dashboards, is written by a thread that nobody waits for.

`scripts/setup --tune` brings Optuna into .cache/tune; an installed one serves as well.
"""

import contextlib
import os
import queue
import random
import sys
import threading
import time
import warnings
from typing import Any, Dict, List, Optional, Tuple

from optimus.tune import TuneError, wheels
from optimus.tune.domains import text_of
from optimus.tune.spaces import Drawn, choices, draw
from optimus.tune.spec import Spec
from optimus.tune.study import Trial

SAMPLERS = {
    "tpe": "TPESampler",
    "cmaes": "CmaEsSampler",
    "nsgaii": "NSGAIISampler",
    "nsgaiii": "NSGAIIISampler",
    "qmc": "QMCSampler",
    "gp": "GPSampler",
}
CONSTRAINED = {"tpe", "nsgaii", "nsgaiii", "gp"}
"""That heed violated constraints."""
STATEFUL = {"qmc"}
"""Whose points are a sequence of one seed."""
COPY = "optuna.db"
VIOLATION = "violation"
MOST_TRIES = 50


def load():
    """Optuna. Raises TuneError where there is none."""
    remedy = ", and the sampler random needs nothing"
    optuna = wheels.load("optuna", "Optuna for this sampler", remedy)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", module="optuna")
    return optuna


class OptunaChooser:
    def __init__(self, trial, number: int):
        self._trial, self._turns = trial, number

    def real(self, name: str, low: float, high: float, is_log: bool) -> float:
        return self._trial.suggest_float(name, low, high, log=is_log)

    def whole(self, name: str, low: int, high: int, step: int) -> int:
        return self._trial.suggest_int(name, low, high, step=step)

    def pick(self, name: str, options: List[Any]) -> int:
        texts = [text_of(each) for each in options]
        return texts.index(self._trial.suggest_categorical(name, texts))

    def quantile(self, name: str) -> float:
        share = self._trial.suggest_float(name + ".quantile", 0.0, 1.0)
        return min(max(share, 1e-12), 1 - 1e-12)

    def turn(self, _name: str, count: int) -> int:
        index = self._turns % count
        self._turns //= count
        return index


class OptunaSampler:
    learns = True

    def __init__(self, spec: Spec):
        self._optuna = load()
        self._name, self._seed, self._space = (
            spec.study.sampler,
            spec.study.seed,
            spec.space,
        )
        directions = ["minimize"] * len(spec.study.objectives)
        self._study = self._optuna.create_study(
            directions=directions, sampler=self._made(0)
        )
        self._told: Dict[int, Any] = {}
        self.copy: Optional[Copy] = None

    def _made(self, number: int):
        """A sampler whose choice follows from the seed, the trial's number and the
        history: the same after a kill."""
        seed = (
            self._seed
            if self._name in STATEFUL
            else random.Random("%d/%d" % (self._seed, number)).randrange(2**31)
        )
        more = {}
        if self._name in CONSTRAINED:
            more["constraints_func"] = lambda trial: (trial.user_attrs.get(VIOLATION, 0.0),)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(self._optuna.samplers, SAMPLERS[self._name])(
                    seed=seed, **more
                )
        except ImportError as error:
            raise TuneError(
                "the sampler %s of Optuna needs more than there is: %s"
                % (self._name, str(error).splitlines()[0])
            ) from None

    def ask(
        self, number: int, more: Dict[str, Any], label: Optional[str] = None
    ) -> Drawn:
        self._study.sampler = self._made(number)
        if label is not None:
            self._study.enqueue_trial(choices(self._space, label))
        try:
            trial = self._study.ask()
            drawn = draw(self._space, OptunaChooser(trial, number))
        except ImportError as error:
            raise TuneError(
                "the sampler %s of Optuna needs more than there is: %s"
                % (self._name, str(error).splitlines()[0])
            ) from None
        # `trials` would copy all that came before.
        frozen = self._frozen(number)
        encode = self._optuna.distributions.distribution_to_json
        more["optuna"] = {
            "params": {
                name: [value, encode(frozen.distributions[name])]
                for name, value in frozen.params.items()
            },
            "attrs": {
                name: value
                for name, value in frozen.system_attrs.items()
                if _is_plain(value)
            },
        }
        return drawn

    def given(self, trial: Trial) -> None:
        """Of a journal that is read again."""
        if trial.number < len(self._study.get_trials(deepcopy=False)):
            return
        found = trial.more["optuna"]
        decode = self._optuna.distributions.json_to_distribution
        self._study.add_trial(
            self._optuna.trial.create_trial(
                state=self._optuna.trial.TrialState.RUNNING,
                params={name: value for name, (value, _) in found["params"].items()},
                distributions={
                    name: decode(text) for name, (_, text) in found["params"].items()
                },
                system_attrs=found["attrs"],
            )
        )

    def tell(self, trial: Trial) -> None:
        states, study = self._optuna.trial.TrialState, self._study
        number = trial.number
        if trial.outcome in ("done", "diverged"):
            values = [min(each, sys.float_info.max) for each in trial.objectives]
            study.tell(number, values)
        elif trial.outcome == "stopped":
            at = self._trial(number)
            for step, value in sorted(trial.rungs.items()):
                at.report(min(value, sys.float_info.max), step)
            study.tell(number, state=states.PRUNED)
        elif trial.outcome in ("infeasible", "memory"):
            self._trial(number).set_user_attr(VIOLATION, 1.0)
            study.tell(number, state=states.PRUNED)
        else:
            study.tell(number, state=states.FAIL)
        if self.copy:
            self.copy.put(self._frozen(number))

    def _frozen(self, number: int):
        return self._study.get_trials(deepcopy=False)[number]

    def _trial(self, number: int):
        return self._optuna.trial.Trial(self._study, self._frozen(number)._trial_id)

    def begin_copy(self, folder: str) -> None:
        """Of ended trials, now and later."""
        self.copy = Copy(
            self._optuna, os.path.join(folder, COPY), len(self._study.directions)
        )
        for frozen in self._study.get_trials(deepcopy=False):
            if frozen.state.is_finished():
                self.copy.put(frozen)

    def close(self) -> None:
        if self.copy:
            self.copy.close()


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, list, dict, type(None)))


def _file(path: str) -> Optional[Tuple[int, int]]:
    """Which one is there, if any."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


class Copy:
    """Writes ended trials into Optuna's storage. What is locked is tried again; what is
    lost, or of other trials, is made again."""

    def __init__(self, optuna, path: str, objectives: int, makes_anew: bool = True):
        self._optuna, self._path, self._objectives = optuna, path, objectives
        self._queue: "queue.Queue[Any]" = queue.Queue()
        self._done: List[Any] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._is_closing, self._makes_anew = False, makes_anew
        self._study = None
        self._file: Optional[Tuple[int, int]] = None
        """That the storage writes to."""
        self._thread.start()

    def put(self, frozen) -> None:
        self._queue.put(frozen)

    def close(self, seconds: float = 30.0) -> None:
        """Leaves it the time that a busy machine needs for a new one; a locked one is left
        at once. What is missing then the next run writes."""
        self._is_closing = True
        self._queue.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        if self._makes_anew:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        while (frozen := self._queue.get()) is not None:
            self._done.append(frozen)
            for _ in range(MOST_TRIES):
                try:
                    self._write()
                    break
                except Exception:  # sqlalchemy's are many; a copy is not worth a study
                    self._study = None
                    if self._is_closing:
                        return
                    time.sleep(0.2)

    def _is_there(self) -> bool:
        """A deleted file could be written to, and read by nobody."""
        return self._study is not None and self._file == _file(self._path) is not None

    def _write(self) -> None:
        """All that the storage lacks."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not self._is_there():
                storage = self._optuna.storages.RDBStorage(
                    "sqlite:///" + self._path,
                    engine_kwargs={"connect_args": {"timeout": 1}},
                )
                self._study = self._optuna.create_study(
                    storage=storage,
                    study_name="study",
                    load_if_exists=True,
                    directions=["minimize"] * self._objectives,
                )
                self._file = _file(self._path)
            there = len(self._study.get_trials(deepcopy=False))
            for frozen in self._done[there:]:
                self._study.add_trial(frozen)

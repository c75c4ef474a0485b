# ===- study.py - The figures of a search ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What came of a study of optimus-tune, from its journal alone: trials, attempts on
workers beside their predictions, and how much each value matters."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from optimus.report import ReportError, text
from optimus.tune import TuneError, costs, journal, view
from optimus.tune.journal import Record
from optimus.tune.study import Study, Trial

MOST_GROUPS = 6  # of the values of a name, whose influence is asked for
FEWEST_TRIALS = 8  # from which influence can be seen


class Attempt(NamedTuple):
    """A trial on a worker, from its start to its rung, loss or end."""

    trial: int
    worker: str
    kind: str  # class of the worker
    begin: float  # seconds since the study began
    end: Optional[float]  # None: it goes on, or the scheduler was killed
    predicted: Optional[float]  # seconds, corrected by what was measured before
    how: str  # running, rung, lost, or the trial's outcome
    prediction: Record  # of the trial: step_ms, rank_bytes, ranks
    measured: Record  # step_ms, max_rss; may be empty
    limit: Optional[int]  # bytes that the worker may have
    lanes: List[int]  # trials of its process, itself included

    @property
    def planned(self) -> Optional[int]:
        """Bytes of all ranks."""
        if "rank_bytes" not in self.prediction:
            return None
        threads = self.measured.get("threads", 1)
        return costs.bytes_of_lanes(self.prediction, len(self.lanes), threads)


class Influence(NamedTuple):
    name: str
    share: float  # of the variance of the ranks
    trials: int  # that have a value of this name


class Errors(NamedTuple):
    """Of a class, measured over predicted."""

    kind: str
    steps: np.ndarray  # before correction
    jobs: np.ndarray  # seconds of attempts, corrected


class StudyReport:
    """Raises ReportError for a folder that is no study."""

    def __init__(self, path: str):
        self.path = path
        self.study = Study()
        try:
            self.records = journal.read(path)
            for record in self.records:
                self.study.apply(record)
            if not self.study.header:
                raise TuneError("%s is no study: its journal is empty" % path)
            self.objectives: List[str] = self.study.header["objectives"]
            self.trials: Optional[int] = self.study.header["trials"]
            self.attempts = _attempts(self.records, self.study)
            for trial in self.study.trials:
                self._check(trial)
            self.judged = [
                trial
                for trial in self.study.trials
                if not math.isnan(value(trial))
            ]
        except TuneError as error:
            raise ReportError(str(error)) from None
        except (AttributeError, KeyError, TypeError) as error:
            raise ReportError(
                "the journal of '%s' is damaged: a record lacks %s, or has another type "
                "there" % (path, error)
            ) from None

    def _check(self, trial: Trial) -> None:
        wanted = len(self.objectives) if trial.outcome == "done" else 0
        if len(trial.objectives) < wanted:
            raise TuneError(
                "the journal of '%s' is damaged: expected %d objectives of trial %d, "
                "found %d" % (self.path, wanted, trial.number, len(trial.objectives))
            )

    @property
    def end(self) -> float:
        """When the last record was written."""
        return max((each.get("time", 0.0) for each in self.records), default=0.0)


def _attempts(records: List[Record], study: Study) -> List[Attempt]:
    found: List[Attempt] = []
    open_at: Dict[int, int] = {}
    for record in records:
        kind, number = record["kind"], record.get("trial")
        if kind == "started":
            open_at[number] = len(found)
            found.append(_begun(record, study))
        elif kind in ("rung", "lost", "ended") and number in open_at:
            at = open_at.pop(number)
            found[at] = found[at]._replace(
                end=max(record.get("time", found[at].begin), found[at].begin),
                how=record["outcome"] if kind == "ended" else kind,
                measured=record.get("measured") or {},
            )
    return found


def _begun(record: Record, study: Study) -> Attempt:
    its_class = study.classes.get(record["worker"]) or {}
    return Attempt(
        trial=record["trial"],
        worker=record["worker"],
        kind=record["class"],
        begin=record["time"],
        end=None,
        predicted=record.get("together", record["costs"].get(record["class"])),
        how="running",
        prediction=study.trials[record["trial"]].prediction or {},
        measured={},
        limit=its_class.get("memory"),
        lanes=record.get("lanes", [record["trial"]]),
    )


def value(trial: Trial) -> float:
    """The first objective, of a stopped trial that of its rung; NaN without any."""
    return trial.objectives[0] if trial.objectives else math.nan


def influences(study: Study) -> List[Influence]:
    """Of each name whose values differ, the greatest first: the share of the variance of
    the trials' ranks by the first objective, which groups of its values explain: ε²,
    Kelley's unbiased form of η². Ranks, since a diverged trial is infinitely bad. What
    two names do only together is not seen."""
    judged = [trial for trial in study.trials if not math.isnan(value(trial))]
    found = []
    for name in view.varying(study):
        those = [trial for trial in judged if name in trial.values]
        if len(those) >= FEWEST_TRIALS:
            groups = _groups([trial.values[name] for trial in those])
            ranks = _ranks(np.array([value(trial) for trial in those]))
            found.append(Influence(name, _explained(ranks, groups), len(those)))
    return sorted(found, key=lambda each: -each.share)


def _groups(values: List[Any]) -> np.ndarray:
    """A number for each value: numbers of many values by quantiles."""
    numbers = [each for each in values if type(each) in (int, float)]
    distinct = sorted({str(each) for each in values})
    if len(numbers) < len(values) or len(distinct) <= MOST_GROUPS:
        return np.array([distinct.index(str(each)) for each in values])
    array = np.array(numbers, float)
    count = min(MOST_GROUPS, max(2, len(values) // 4))
    bounds = np.quantile(array, np.linspace(0, 1, count + 1)[1:-1])
    return np.searchsorted(bounds, array, side="right")


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _explained(values: np.ndarray, groups: np.ndarray) -> float:
    total = ((values - values.mean()) ** 2).sum()
    names, counts = np.unique(groups, return_counts=True)
    degrees = len(values) - len(names)
    if not total or len(names) < 2 or degrees < 1:
        return 0.0
    within = sum(
        ((values[groups == name] - values[groups == name].mean()) ** 2).sum()
        for name in names
    )
    return max(0.0, 1 - within / degrees * (len(values) - 1) / total)


def errors(attempts: List[Attempt]) -> List[Errors]:
    """Of each class that has measurements."""
    ratios: Dict[str, Tuple[List[float], List[float]]] = {}
    for each in attempts:
        steps, jobs = ratios.setdefault(each.kind, ([], []))
        if each.prediction.get("step_ms") and each.measured.get("step_ms"):
            predicted = costs.step_ms(each.prediction, each.kind)
            steps.append(each.measured["step_ms"] / predicted)
        if each.predicted and each.measured.get("seconds"):
            # Of lanes each has its part of the process's.
            jobs.append(each.measured["seconds"] * len(each.lanes) / each.predicted)
    return [
        Errors(kind, np.array(steps), np.array(jobs))
        for kind, (steps, jobs) in sorted(ratios.items())
        if steps or jobs
    ]


def lines(report: StudyReport) -> List[str]:
    study = report.study
    found = [view.summary(study, report.objectives, report.trials, report.end), ""]
    found += view.table(study, report.objectives)
    found += view.mix_lines(study)
    found += ["", "How much each value matters, of the variance of ranks:"]
    found += _influence_lines(study)
    found += ["", "Measured over predicted, by class:", *_error_lines(report.attempts)]
    return found


def _influence_lines(study: Study) -> List[str]:
    rows = [
        [each.name, "%.0f %%" % (100 * each.share), str(each.trials)]
        for each in influences(study)
    ]
    few = "  fewer than %d trials have a value" % FEWEST_TRIALS
    return text.table(["Name", "share", "trials"], rows) if rows else [few]


def _error_lines(attempts: List[Attempt]) -> List[str]:
    rows = [
        [each.kind, *_spread(each.steps), *_spread(each.jobs)] for each in errors(attempts)
    ]
    header = ["Class", "a step", "off by", "an attempt", "off by"]
    return text.table(header, rows) if rows else ["  nothing was measured"]


def _spread(ratios: np.ndarray) -> List[str]:
    """The median, and the median distance from 1."""
    if not len(ratios):
        return ["–", "–"]
    off = np.median(np.abs(ratios - 1))
    return ["%.2f" % np.median(ratios), "%.0f %%" % (100 * off)]

# ===- training.py - Training runs side by side in a terminal --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Training runs side by side: their figures, and what differs between their settings."""

import os
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from optimus.report import ReportError, text
from optimus.report.training_log import TrainingLog

MOST_RUNS = 20


class Run(NamedTuple):
    name: str
    log: TrainingLog


class Differences(NamedTuple):
    names: List[str]  # of settings that are not the same in all runs
    values: List[List[str]]  # a row for each name, a column for each run
    unknown: List[str]  # runs whose logs say nothing of settings


def named(logs: Sequence[TrainingLog]) -> List[Run]:
    """Runs by the shortest names that tell them apart: ends of their paths."""
    if len(logs) > MOST_RUNS:
        raise ReportError("expected at most %d logs, found %d" % (MOST_RUNS, len(logs)))
    parts = [os.path.abspath(log.path).split(os.sep) for log in logs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [os.path.join(*each[-depth:]) for each in parts]
        if len(set(names)) == len(names):
            return [*map(Run, names, logs)]
    paths = [os.path.abspath(log.path) for log in logs]
    twice = next(path for path in paths if paths.count(path) > 1)
    raise ReportError("'%s' is given twice" % twice)


def tokens(log: TrainingLog) -> np.ndarray:
    """How many the run and those that it goes on from had read after each step. A log
    that begins later is taken to have had as many in the steps before."""
    each = np.rint(np.nan_to_num(log["tokens_per_s"] * log["ms"] / 1e3))
    before = (log["step"][0] - 1) * each[0] if len(each) else 0
    return before + np.cumsum(each)


def seconds(log: TrainingLog) -> np.ndarray:
    """Since the first run of the log began, after each step: with evaluations and
    checkpoints where the log says so, otherwise the steps alone."""
    told = log["seconds"]
    if not len(told) or np.isnan(told).any():
        return np.cumsum(np.nan_to_num(log["ms"])) / 1e3
    # A run that goes on begins at 0 again.
    begins = np.r_[False, np.diff(told) < 0]
    return told + np.cumsum(np.where(begins, np.r_[0, told[:-1]], 0))


def exposed_share(log: TrainingLog) -> np.ndarray:
    """Of each step, in which communication moves and nothing is computed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return log["comm_exposed_ms"] / log["ms"]


def best(log: TrainingLog) -> Tuple[float, int]:
    """The least held-out loss and its step; NaN and 0 without any."""
    losses = log["eval_loss"]
    if not len(losses) or np.isnan(losses).all():
        return float("nan"), 0
    at = int(np.nanargmin(losses))
    return float(losses[at]), int(log["step"][at])


def ending(log: TrainingLog) -> str:
    """How it ended, in a word; a log without an end is still written, or was killed."""
    return str(log.end.get("ended", "?")) if log.end else "not ended"


def lines(runs: Sequence[Run]) -> List[str]:
    header = ["Run", "steps", "loss", "held-out", "at step", "ms", "tokens/s"]
    header += ["exposed", "memory", "Ended"]
    found = text.table(header, [_row(run) for run in runs])
    messages = [
        "%s: %s" % (run.name, run.log.end["message"])
        for run in runs
        if run.log.end and run.log.end.get("message")
    ]
    return [*found, *messages, *_differing(runs)]


def _row(run: Run) -> List[str]:
    log = run.log
    least, step = best(log)
    peak = log["peak_bytes"]
    return [
        run.name,
        format(int(log["step"][-1]), ",") if len(log) else "0",
        _loss(log["loss"][-1] if len(log) else np.nan),
        _loss(least),
        format(step, ",") if step else "–",
        _median("%.2f", log["ms"]),
        _median("%.0f", log["tokens_per_s"]),
        _median("%.1f %%", 100 * exposed_share(log)),
        text.size(int(np.nanmax(peak))) if np.isfinite(peak).any() else "–",
        ending(log),
    ]


def _loss(value: float) -> str:
    return "–" if np.isnan(value) else "%.4f" % value


def _median(form: str, values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    return form % np.median(finite) if len(finite) else "–"


def _differing(runs: Sequence[Run]) -> List[str]:
    if len(runs) < 2:
        return []
    found = differences(runs)
    shown = [""]
    if found.names:
        rows = [[name, *row] for name, row in zip(found.names, found.values)]
        header = ["Setting", *(run.name for run in runs)]
        # All columns to the left: a value may be a word.
        header[1:] = [name[:1].upper() + name[1:] for name in header[1:]]
        shown += ["What differs:", *text.table(header, rows)]
    else:
        shown += ["No setting differs."]
    if found.unknown:
        shown += ["Settings are not known of %s." % ", ".join(found.unknown)]
    return shown


def settings(log: TrainingLog) -> Dict[str, str]:
    """By name, of the run that wrote the log last; empty where it does not say."""
    if not log.beginnings:
        return {}
    found: Dict[str, str] = {}
    for name, value in log.beginnings[-1].facts.items():
        if name in ("began", "step"):
            continue
        inside = value.items() if isinstance(value, dict) else [(None, value)]
        for key, each in inside:
            # Flags stand for themselves.
            under = name if key is None else key if name == "flags" else "%s %s" % (name, key)
            found[under] = _value(each)
    return found


def _value(value: Any) -> str:
    return "%g" % value if isinstance(value, float) else str(value)


def differences(runs: Sequence[Run]) -> Differences:
    all_settings = [settings(run.log) for run in runs]
    unknown = [run.name for run, each in zip(runs, all_settings) if not each]
    names: Dict[str, None] = {}
    for each in all_settings:
        names.update(dict.fromkeys(each))
    differing = [
        name
        for name in names
        if len({each.get(name) for each in all_settings if each}) > 1
    ]
    rows = [[each.get(name, "–") for each in all_settings] for name in differing]
    return Differences(differing, rows, unknown)

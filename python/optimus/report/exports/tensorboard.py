# ===- tensorboard.py - Logs as event files of TensorBoard -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Logs of training as event files, by TensorBoard's own writer: a folder for each
run, with a scalar for each column of its log."""

import calendar
import os
import time
from typing import Any, NamedTuple, Sequence

import numpy as np

from optimus import output, wheels
from optimus.arguments import Mistake
from optimus.report import ReportError, training
from optimus.report.training import Run
from optimus.report.training_log import TrainingLog

TAGS = {
    "loss": "loss/training",
    "eval_loss": "loss/held-out",
    "grad_norm": "gradient/norm",
    "lr": "rate/learning_rate",
    "tokens_per_s": "speed/tokens_per_s",
    "ms": "speed/ms",
    "comm_ms": "communication/ms",
    "comm_exposed_ms": "communication/exposed_ms",
    "peak_bytes": "memory/peak_bytes",
}


class Library(NamedTuple):
    """What is used of PyPI's tensorboard."""

    writer: Any
    events: Any
    summaries: Any


def load() -> Library:
    """Raises ReportError."""
    load_one = lambda name: wheels.load(
        "tensorboard." + name, "writes event files", "--python=full"
    )
    try:
        return Library(
            load_one("summary.writer.event_file_writer"),
            load_one("compat.proto.event_pb2"),
            load_one("compat.proto.summary_pb2"),
        )
    except Mistake as mistake:
        raise ReportError("--tensorboard: %s" % mistake) from None


def write(runs: Sequence[Run], folder: str) -> None:
    """Makes a folder in `folder` for each run, whole or not at all. Raises
    ReportError, also where one is there already."""
    library = load()
    targets = [os.path.join(folder, run.name.replace(os.sep, "-")) for run in runs]
    for target in targets:
        if os.path.lexists(target):
            raise ReportError(
                "--tensorboard: '%s' exists; remove it, or name another folder" % target
            )
    try:
        os.makedirs(folder, exist_ok=True)
        for run, target in zip(runs, targets):
            _write_run(library, run.log, target)
    except OSError as error:
        why = "--tensorboard: cannot write in '%s': %s" % (folder, error.strerror)
        raise ReportError(why) from None


def _write_run(library: Library, log: TrainingLog, target: str) -> None:
    with output.new_folder(target) as new:
        writer = library.writer.EventFileWriter(new)
        try:
            for event in _events(library, log):
                writer.add_event(event)
        finally:
            writer.close()


def _events(library: Library, log: TrainingLog):
    began = _began(log)
    columns = [(tag, log[name]) for name, tag in TAGS.items()]
    columns = [(tag, values) for tag, values in columns if not np.isnan(values).all()]
    steps = log["step"].astype(np.int64).tolist()
    for row, (step, after) in enumerate(zip(steps, training.seconds(log).tolist())):
        values = [
            library.summaries.Summary.Value(tag=tag, simple_value=column[row])
            for tag, column in columns
            if not np.isnan(column[row])
        ]
        yield library.events.Event(
            wall_time=began + after,
            step=step,
            summary=library.summaries.Summary(value=values),
        )


def _began(log: TrainingLog) -> float:
    """When the first run of the log did, in seconds since 1970; 0 where it does not
    say."""
    said = log.beginnings[0].facts["began"] if log.beginnings else ""
    try:
        return calendar.timegm(time.strptime(said, "%Y-%m-%dT%H:%M:%SZ"))
    except (TypeError, ValueError):
        return 0.0

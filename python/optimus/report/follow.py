# ===- follow.py - A training run while it goes on -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A training run while it goes on: in a terminal a curve of its loss above a line of
its state, drawn again and again; elsewhere a line now and then."""

import os
import re
import shutil
import sys
import time
from typing import List, Optional

import numpy as np

from optimus import output
from optimus.report import training
from optimus.report.training_log import TrainingLog

POLL = 0.5  # seconds between two looks at the log
LINE_INTERVAL = 5.0  # seconds between two lines where there is no terminal
SILENT = 60.0  # seconds without a step that are said
RECENT = 50  # steps, of which times and rates are shown
LABEL = 9  # columns left of the curve
MOST_ROWS, FEWEST_ROWS = 16, 3

# Bits of a character's dots, from U+2800 on: two columns of four rows.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def follow(path: str) -> None:
    """Shows a log until its run has ended. Raises ReportError."""
    log = TrainingLog(path)
    show = Terminal() if _can_rewrite() else Lines()
    try:
        while True:
            log.update()
            show.show(log, _silence(path))
            if log.end:
                return
            time.sleep(POLL)
    finally:
        log.close()


def _silence(path: str) -> float:
    """Seconds since something was written."""
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return 0.0


def _can_rewrite() -> bool:
    try:
        return os.isatty(output.STANDARD_OUTPUT) and os.environ.get("TERM", "dumb") != "dumb"
    except OSError:
        return False


class Lines:
    """A line for the first step, now and then one, and one for the end."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._shown: Optional[str] = None
        self._next = 0.0

    def show(self, log: TrainingLog, silence: float) -> None:
        if not log.end and self._clock() < self._next:
            return
        line = state(log, 1 << 16, silence=0)
        if line != self._shown:
            output.write("-", line + "\n")
            self._shown = line
            self._next = self._clock() + LINE_INTERVAL


class Terminal:
    """Lines over those of before."""

    def __init__(self) -> None:
        self._height = 0

    def show(self, log: TrainingLog, silence: float) -> None:
        size = shutil.get_terminal_size()
        # A line as wide as the terminal may wrap, and a wrapped one stays.
        columns = max(size.columns - 1, 1)
        rows = max(min(size.lines - 3, MOST_ROWS), 0)
        lines = [*curve(log, columns, rows, _has_dots()), state(log, columns, silence)]
        up = "\x1b[%dA" % self._height if self._height else ""
        shown = "".join("\x1b[2K%s\n" % line for line in lines)
        output.write("-", up + "\r" + shown + "\x1b[J")
        self._height = len(lines)


def _has_dots() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "") == "utf8"


def state(log: TrainingLog, columns: int, silence: float) -> str:
    """A line of at most so many columns; what says least goes first."""
    if log.end:
        words = "%s after step %d" % (training.ending(log), log.end["step"])
        # A diverged run has no last loss to be proud of.
        return _fit([[words, _loss(log)], [words]], columns)
    if not len(log):
        return _fit([["waiting for the first step"], ["waiting"]], columns)
    step, last = int(log["step"][-1]), _last_step(log)
    of = "step %d%s" % (step, "/%d" % last if last else "")
    least, _ = training.best(log)
    held_out = "" if np.isnan(least) else "held-out %.4f" % least
    milliseconds, speed = _recent(log, "ms"), _recent(log, "tokens_per_s")
    loss = _loss(log)
    time_of_step = "" if np.isnan(milliseconds) else "%.4g ms" % milliseconds
    rate = "" if np.isnan(speed) else "%.0f tok/s" % speed
    left = _left(last - step, milliseconds / 1e3) if last and time_of_step else ""
    if silence > max(SILENT, 20e-3 * np.nan_to_num(milliseconds)):
        left = "silent for " + _clock(silence)
    return _fit(
        [
            [of, loss, held_out, time_of_step, rate, left],
            [of, loss, held_out, rate, left],
            [of, loss, held_out, left],
            [of, loss, left],
            [of, left],
            [left or of],
        ],
        columns,
    )


def _fit(choices: List[List[str]], columns: int) -> str:
    """The first that is short enough."""
    for parts in choices:
        line = " | ".join(part for part in parts if part)
        if len(line) <= columns:
            return line
    return line[:columns]


def _loss(log: TrainingLog) -> str:
    return "loss %.4f" % log["loss"][-1] if len(log) else ""


def _recent(log: TrainingLog, name: str) -> float:
    """The median of the last steps; NaN where none of them has a finite value."""
    values = log[name][-RECENT:]
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else float("nan")


def _last_step(log: TrainingLog) -> int:
    """That the run will take; 0 where its log does not say."""
    flags = training.settings(log)
    for name in ("--until", "--steps"):
        if re.fullmatch("[0-9]{1,15}", flags.get(name, "")):
            return int(flags[name])
    return 0


def _left(steps: int, seconds: float) -> str:
    return "ETA " + _clock(max(steps, 0) * seconds)


def _clock(seconds: float) -> str:
    whole = int(min(seconds, 1e9))
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours >= 100:
        return "%d d" % (hours // 24)
    shown = "%d:%02d" % (minutes, whole % 60)
    return "%d:%02d:%02d" % (hours, minutes, whole % 60) if hours else shown


def curve(log: TrainingLog, columns: int, rows: int, dots: bool) -> List[str]:
    """The loss over steps: lines of at most `columns`, the last of which names steps.
    Nothing where there is no room or no loss."""
    width = columns - LABEL
    losses, steps = log["loss"], log["step"]
    there = np.isfinite(losses)
    if rows <= FEWEST_ROWS or width < 10 or there.sum() < 2:
        return []
    losses, steps = losses[there], steps[there]
    across, down = (2, 4) if dots else (1, 1)
    means = _means(losses, steps, width * across)
    lowest, highest = np.min(means), np.max(means)
    span = max(highest - lowest, 1e-12)
    bottom = (rows - 1) * down - 1
    places = np.rint((means - lowest) / span * bottom).astype(np.int64)
    cells = np.zeros((rows - 1, width), np.int64)
    before = places[0]
    for x, now in enumerate(places):
        # Without gaps between a column and the one before.
        for y in range(min(before, now), max(before, now) + 1):
            row, inside = divmod(bottom - y, down)
            cells[row, x // across] |= _DOTS[x % across][inside] if dots else 1
        before = now
    marks = (lambda cell: chr(0x2800 + cell)) if dots else (lambda cell: " *"[cell])
    labels = {0: highest, rows - 2: lowest}
    lines = [
        ("%*.3g " % (LABEL - 1, labels[row]) if row in labels else " " * LABEL)
        + "".join(marks(cell) for cell in cells[row]).rstrip(" \u2800")
        for row in range(rows - 1)
    ]
    begin, end = "%d " % steps[0], "%d" % steps[-1]
    named = begin + end.rjust(width - len(begin))
    return [*lines, " " * LABEL + (named if len(named) <= width else end)]


def _means(values: np.ndarray, steps: np.ndarray, count: int) -> np.ndarray:
    """Of `count` stretches of as many steps; between others where one has none."""
    share = (steps - steps[0]) / (steps[-1] - steps[0])
    place = np.minimum((share * count).astype(np.int64), count - 1)
    numbers = np.bincount(place, minlength=count)
    known = np.flatnonzero(numbers)
    means = np.bincount(place, values, count)[known] / numbers[known]
    return np.interp(np.arange(count), known, means)

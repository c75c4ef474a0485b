# ===- view.py - A study, seen ---------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tables of a study for a terminal of any width, and plain lines where there is none."""

import math
import os
import shutil
import sys
from collections import Counter
from typing import Any, Dict, List, Optional

from optimus.tune.costs import Corrections
from optimus.tune.domains import text_of
from optimus.tune.journal import Record
from optimus.tune.study import Study, Trial


def number(value: float) -> str:
    return "%.4g" % value if math.isfinite(value) else "∞"


def clock(seconds: float) -> str:
    """59 s, 12:30, 2:05:00."""
    whole = int(round(seconds))
    if whole < 60:
        return "%d s" % whole
    hours, rest = divmod(whole, 3600)
    minutes = "%02d:%02d" if hours else "%d:%02d"
    return ("%d:" % hours if hours else "") + minutes % divmod(rest, 60)


def described(trial: Trial, names: List[str]) -> str:
    """The values that differ among trials."""
    found = [
        "%s %s" % (name.partition(".")[2], text_of(trial.values[name]))
        for name in names
        if name in trial.values
    ]
    return ", ".join(([trial.space] if trial.space else []) + found)


def varying(study: Study) -> List[str]:
    """The names of values that are not the same in all trials."""
    seen: Dict[str, Any] = {}
    found: List[str] = []
    for trial in study.trials:
        for name, value in trial.values.items():
            if seen.setdefault(name, value) != value and name not in found:
                found.append(name)
    return found


def line(record: Record, study: Study, objectives: List[str]) -> Optional[str]:
    """What is told of a record where there is no terminal."""
    kind = record["kind"]
    if kind == "worker":
        found = record["class"]
        return "worker %s: %g cores, %d MiB, %s" % (
            record["worker"],
            found["cores"],
            found["memory"] >> 20,
            found["instructions"],
        )
    if kind == "class":
        how = record["message"] or "in %s" % clock(record["seconds"])
        return "class %s: measured %s" % (record["class"], how)
    if kind == "started":
        predicted = record.get("together", record["costs"].get(record["class"]))
        about = ", about %s" % clock(predicted) if predicted else ""
        lanes = record.get("lanes", ())
        return "trial %d: on %s%s%s%s" % (
            record["trial"],
            record["worker"],
            ", lane %d of %d" % (lanes.index(record["trial"]), len(lanes)) if lanes else "",
            " until step %d" % record["until"] if record.get("until") else "",
            about,
        )
    if kind == "rung":
        return "trial %d: %s %s after step %d" % (
            record["trial"],
            objectives[0],
            number(study.trials[record["trial"]].rungs[record["step"]]),
            record["step"],
        )
    if kind == "slow":
        return "trial %d: slower than predicted on %s, goes on elsewhere" % (
            record["trial"],
            record["worker"],
        )
    if kind == "lost":
        return "trial %d: lost, begins again: %s" % (
            record["trial"],
            record.get("message", ""),
        )
    if kind == "ended":
        return "trial %d: %s" % (
            record["trial"],
            ended(study.trials[record["trial"]], objectives),
        )
    return None


def ended(trial: Trial, objectives: List[str]) -> str:
    values = ", ".join(
        "%s %s" % pair for pair in zip(objectives, map(number, trial.objectives))
    )
    took = " in %s" % clock(trial.seconds) if trial.seconds else ""
    if trial.outcome == "done":
        return values + took
    why = trial.end.get("message", "")
    return trial.outcome + took + (": " + why if why else "")


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def table(
    study: Study, objectives: List[str], width: int = 100, most: Optional[int] = None
) -> List[str]:
    """All trials, the best first, or the best `most` of those that have ended."""
    names = varying(study)
    ranked = sorted(
        study.trials,
        key=lambda trial: (
            trial.outcome != "done",
            trial.objectives[:1] or [math.inf],
            trial.number,
        ),
    )
    rows = [
        cut("%5s  %-10s %9s  %s" % ("trial", "outcome", objectives[0], "values"), width)
    ]
    for trial in ranked[:most]:
        value = number(trial.objectives[0]) if trial.objectives else "-"
        rows.append(
            cut(
                "%5d  %-10s %9s  %s"
                % (trial.number, trial.outcome, value, described(trial, names)),
                width,
            )
        )
    return rows


def summary(study: Study, objectives: List[str], total: Optional[int], now: float) -> str:
    counts: Dict[str, int] = {}
    for trial in study.trials:
        counts[trial.outcome] = counts.get(trial.outcome, 0) + 1
    best = study.best()
    parts = ["%d of %s trials ended" % (study.ended, total or "?"), clock(now)]
    if best:
        value = number(best.objectives[0])
        parts.append("best: trial %d, %s %s" % (best.number, objectives[0], value))
    parts += [
        "%d %s" % (count, name) for name, count in sorted(counts.items()) if name != "done"
    ]
    return "; ".join(parts)


def correction_lines(corrections: Corrections) -> List[str]:
    """What steps take beside their predictions, by class and kind of model; nothing
    before one was measured."""
    rows = corrections.rows()
    if not rows:
        return []
    found = ["", "%9s %6s  %s" % ("measured", "trials", "of predicted steps, by class")]
    for kind, model, ratio, count in rows:
        found.append("%9.2f %6d  %s, %s" % (ratio, count, kind, model))
    return found


def mix_lines(study: Study) -> List[str]:
    """How the mix of spaces differs from the shared one; nothing where none was drawn for
    a class."""
    asked = [trial for trial in study.trials if "class" in trial.more]
    if not asked:
        return []
    counts = Counter(trial.space for trial in asked)
    shares = {trial.space: trial.more["share"] for trial in asked}
    rest = 1 - sum(shares.values())
    found = [
        "",
        "the mix is not the shared one: %d of %d trials were drawn for a class"
        % (len(asked), len(study.trials)),
        "%6s %6s  %s" % ("drawn", "shared", "space"),
    ]
    for label, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        drawn = count / len(asked)
        found.append("%5.1f%% %5.1f%%  %s" % (100 * drawn, 100 * shares[label], label))
    if rest > 5e-4:
        found.append("%5.1f%% %5.1f%%  all others" % (0, 100 * rest))
    return found


class Watch:
    """What a run shows: a table that is drawn again on a terminal, lines elsewhere."""

    def __init__(
        self, study: Study, objectives: List[str], total: Optional[int], stream=sys.stdout
    ):
        self._study, self._objectives, self._total = study, objectives, total
        self._stream = stream
        self._is_live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = 0
        self._next = 0.0

    def __call__(self, record: Record, now: float) -> None:
        if not self._is_live:
            text = line(record, self._study, self._objectives)
            if text:
                self._write("%8.1f s  %s\n" % (now, text))
        elif now >= self._next or record["kind"] == "ended":
            self._next = now + 0.2
            self._draw(now)

    def _draw(self, now: float) -> None:
        size = shutil.get_terminal_size((80, 24))
        width, most = size.columns - 1, max(3, min(12, size.lines - 6))
        rows = [cut(summary(self._study, self._objectives, self._total, now), width)]
        names = varying(self._study)
        for trial in self._study.trials:
            if trial.running:
                rows.append(
                    cut(
                        "%-6s trial %d, %s: %s"
                        % (
                            trial.running.worker,
                            trial.number,
                            clock(now - trial.running.time),
                            described(trial, names),
                        ),
                        width,
                    )
                )
        rows += table(self._study, self._objectives, width, most)
        up = "\x1b[%dF" % self._drawn if self._drawn else ""
        self._write(up + "\x1b[J" + "\n".join(rows) + "\n")
        self._drawn = len(rows)

    def close(self, now: float) -> None:
        if self._is_live:
            self._draw(now)
        else:
            self._write(summary(self._study, self._objectives, self._total, now) + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # Whoever read it is gone; the study goes on.
            self._is_live, self._stream = False, open(os.devnull, "w")

# ===- packing.py - Trials side by side ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trials of one program that run as its lanes (docs/lanes.md): which may, and whether it
pays.

    lr 0.01, seed 1, width 64 ┐
    lr 0.02, seed 1, width 64 ┴ lanes of one process on one worker
    lr 0.01, seed 1, width 96   of another program
"""

import hashlib
import re
from typing import Any, Callable, Container, Dict, Sequence, Union

from optimus.tune import costs
from optimus.tune.domains import text_of
from optimus.tune.journal import Record
from optimus.tune.scheduler import Cost, Job
from optimus.tune.study import Trial

Lanes = Union[str, int]
AUTO, OFF = "auto", "off"
MOST_AUTO = 8
"""Lanes, where they pay: beyond, starting once more for each costs little."""
MOST = 4096
"""Lanes that a program may have."""
GAIN = 0.05
"""Share of the time one after the other, by which lanes must be predicted to be sooner."""
COMMON = (
    *("microbatches", "device", "threads-per-rank", "scratch", "timeout", "backend"),
    *("rendezvous", "secret-file", "bind", "rank", "ranks", "placement", "profile"),
    *("tune", "tf32", "eager", "nvtx", "save-async", "flush-subnormals"),
)
"""Flags of `train` for all lanes, as LaneFile.cpp has them."""
EQUAL = (*COMMON, "data")
"""Those that trials must have in common: the end of documents is one of the program."""
WITHOUT_LANES = {
    *("compile.mesh", "compile.ranks", "compile.offload", "compile.memory-budget"),
    *("train.profile", "train.save-async"),
}
"""Names whose programs or runs have none, or others than alone."""
ALONE = ("fault", "killed", "memory")
"""A trial that was lost so runs alone from then on: another may have brought it down, and
it none."""


class Packing:
    """Of a search, which says by functions and tables how far its trials are."""

    def __init__(
        self,
        lanes: Lanes,
        objectives: Sequence[str],
        trial: Callable[[int], Trial],
        steps: Callable[[Job], int],
        classes: Dict[str, Record],
        corrections: costs.Corrections,
        made: Callable[[int], Container[str]],
    ):
        """`made` says of a trial for which instructions its program was compiled."""
        self.most = {AUTO: MOST_AUTO, OFF: 1}.get(lanes, lanes)
        # What a process takes is no single trial's.
        if set(objectives) & {"seconds", "peak_bytes"}:
            self.most = 1
        self.is_auto = lanes == AUTO
        self._trial, self._steps = trial, steps
        self._classes, self._corrections, self._made = classes, corrections, made

    def key(self, trial: Trial) -> str:
        """Equal for trials that may be lanes of one program; empty: it runs alone."""
        prediction = trial.prediction or {}
        if (
            self.most == 1
            or "lane_bytes" not in prediction
            or any(loss.get("why") in ALONE for loss in trial.losses)
        ):
            return ""
        return self.program(trial.values)

    def lanes_of(self, trial: Trial) -> int:
        """That its library is compiled for; a run alone has one of them."""
        has_lanes = "lane_bytes" in (trial.prediction or {})
        return self.most if has_lanes and self.program(trial.values) else 1

    def program(self, values: Dict[str, Any]) -> str:
        if self.most == 1 or WITHOUT_LANES & values.keys():
            return ""
        if values.get("compile.strategy") == "auto" or not _is_a_row(values):
            return ""
        equal = {
            name: value
            for name, value in values.items()
            if not name.startswith("train.") or name.partition(".")[2] in EQUAL
        }
        text = "\n".join("%s=%s" % each for each in sorted(equal.items()))
        return hashlib.sha1(text.encode()).hexdigest()[:16]

    def are_alike(self, job: Job, other: Job) -> bool:
        """Nobody waits long for the end of others."""
        steps = sorted((self._steps(job), self._steps(other)))
        return 2 * steps[0] >= steps[1]

    def cost(self, jobs: Sequence[Job], kind: str) -> Cost:
        trial, its_class = self._trial(jobs[0].trial), self._classes[kind]
        return costs.cost_of_lanes(
            trial.prediction,
            self._corrections,
            kind,
            its_class,
            trial.model,
            [self._steps(job) for job in jobs],
            costs.threads_of(its_class, trial.values),
            self._made(trial.number),
        )

    def apart(self, jobs: Sequence[Job], kind: str) -> float:
        """Seconds of the same, one after the other; the first one compiles."""
        trial, its_class = self._trial(jobs[0].trial), self._classes[kind]
        made = [self._made(trial.number)] + [(its_class["instructions"],)] * (len(jobs) - 1)
        return sum(
            costs.cost(
                trial.prediction,
                self._corrections,
                kind,
                its_class,
                trial.model,
                self._steps(job),
                made=each,
            ).weight
            for job, each in zip(jobs, made)
        )

    def pays(self, jobs: Sequence[Job], kind: str) -> bool:
        together = self.cost(jobs, kind)
        if together.refusal or not self.is_auto:
            return not together.refusal
        return together.weight <= (1 - GAIN) * self.apart(jobs, kind)


def _is_a_row(values: Dict[str, Any]) -> bool:
    """Whether a line of --lanes can say them: it has no way to write some characters."""
    return not any(
        re.search(r"[\n\r]|\\$", text_of(value))
        for name, value in values.items()
        if name.startswith("train.")
    )


def row(words: Sequence[str]) -> str:
    """A line of --lanes: words with spaces or quotes stand in quotes."""
    return " ".join(
        '"%s"' % word.replace('"', '\\"') if re.search(r"[\s'\"`#]", word) else word
        for word in words
    )

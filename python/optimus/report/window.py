# ===- window.py - Some steps of one rank, in full ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Some steps of one rank, in full: what pages draw and exports hold."""

from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from optimus.report import ReportError, events
from optimus.report.intervals import Intervals
from optimus.report.profile import Call, CallInfo, Profile

MOST_BOXES = 40_000
MOST_STEPS = 4


class Choice(NamedTuple):
    """What is looked at closely."""

    rank: int
    first: int  # steps, both included
    last: int

    def has(self, info: CallInfo) -> bool:
        return info.rank == self.rank and self.first <= info.step <= self.last


def choose(
    profiles: Sequence[Profile],
    rank: Optional[int],
    steps: Optional[str],
    boxes_of,
) -> Choice:
    """The rank, or the first; the steps FIRST:LAST, or from the second on as many as
    can be drawn, where `boxes_of` says how much there is to draw in one function.
    Raises ReportError."""
    ranks = [each for profile in profiles for each in profile.ranks]
    rank = ranks[0] if rank is None else rank
    if rank not in ranks:
        raise ReportError(
            "--rank: the files given have the ranks %s, found %d"
            % (", ".join(map(str, ranks)), rank)
        )
    profile = profile_of(profiles, rank)
    infos = [info for info in profile.calls if info.rank == rank]
    there = sorted({info.step for info in infos})
    if not there:
        raise ReportError("rank %d has no call that was measured" % rank)
    if steps is not None:
        return _given(rank, steps, there)
    return _fitting(profile, rank, infos, there[1:] or there, boxes_of)


def _given(rank: int, steps: str, there: List[int]) -> Choice:
    first, _, last = steps.partition(":")
    try:
        choice = Choice(rank, int(first), int(last or first))
    except ValueError:
        raise ReportError(
            "--steps: expected a step or FIRST:LAST, found '%s'" % steps
        ) from None
    if not any(choice.first <= step <= choice.last for step in there):
        raise ReportError(
            "--steps: rank %d was profiled in the steps %d to %d, found %s"
            % (rank, there[0], there[-1], steps)
        )
    return choice


def _fitting(profile, rank, infos, there, boxes_of) -> Choice:
    room, last = MOST_BOXES, there[0]
    for step in there[:MOST_STEPS]:
        functions = [profile.functions[i.function] for i in infos if i.step == step]
        room -= sum(map(boxes_of, functions))
        if room < 0:
            break
        last = step
    return Choice(rank, there[0], last)


def windows_of(profiles: Sequence[Profile], choice: Choice, all_ranks: bool):
    """The window of the choice, or those of all ranks that have the same steps; read."""
    found: List[Window] = []
    for profile in profiles:
        ranks = sorted(profile.ranks) if all_ranks else [choice.rank]
        windows = [
            Window(profile, choice._replace(rank=rank))
            for rank in ranks
            if rank in profile.ranks
        ]
        for call in profile.measured() if windows else ():
            for window in windows:
                window(call)
        found += [window for window in windows if window.calls]
    return found


def check(windows: Sequence["Window"], choice: Choice) -> None:
    """Raises ReportError where there is nothing to show."""
    if not any(window.calls for window in windows):
        raise ReportError(
            "expected the times of commands in the steps %d to %d of rank %d, found "
            "none; choose other --steps, or profile again"
            % (choice.first, choice.last, choice.rank)
        )


def profile_of(profiles: Sequence[Profile], rank: int) -> Profile:
    return next(profile for profile in profiles if rank in profile.ranks)


class Window:
    """A watcher of Memory.gather that keeps the chosen steps."""

    def __init__(self, profile: Profile, choice: Choice):
        self.profile = profile
        self.choice = choice
        self.calls: List[Call] = []
        self._lives: List[events.Lives] = []
        self._idle: List[Intervals] = []

    def __call__(self, call: Call, idle: Optional[Intervals] = None) -> None:
        if self.choice.has(call.info):
            self.calls.append(call)
            self._lives.append(events.lives(call, self.profile.blocks))
            if idle is not None:
                self._idle.append(idle)

    @property
    def begin(self) -> int:
        return min(call.info.begin for call in self.calls)

    @property
    def end(self) -> int:
        return max(call.info.end for call in self.calls)

    @property
    def lives(self) -> events.Lives:
        return events.Lives(*map(np.concatenate, zip(*self._lives)))

    @property
    def idle(self) -> Intervals:
        return Intervals(*map(np.concatenate, zip(*self._idle)))

    @property
    def lowest_address(self) -> int:
        """What pages count addresses from: offsets from 0, others from the lowest."""
        dynamic = self.profile.trace.get("placement") == "dynamic"
        return int(self.lives.address.min(initial=1 << 62)) if dynamic else 0

    def steps(self) -> List[tuple]:
        """(step, begin, end), in order."""
        found = {}
        for call in self.calls:
            step, info = call.info.step, call.info
            begin, end = found.get(step, (info.begin, info.end))
            found[step] = min(begin, info.begin), max(end, info.end)
        return [(step, *span) for step, span in sorted(found.items())]

# ===- queues.py - What queues do, and how much of it at once -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""All figures of `optimus-report timeline`, gathered call by call.

    busy     a queue executes a command that is no wait
    flight   at least one collective of an axis moves
    exposed  of the flight of a collective: nothing is computed meanwhile

Figures are of warm steps only (Profile.is_warm)."""

from typing import Dict, List, NamedTuple, Tuple

import numpy as np

from optimus.report.profile import NOT_MEASURED, Call, Profile, Queue

WAIT = "wait"


class Axis(NamedTuple):
    """Of one rank's collectives on one axis; nanoseconds."""

    flight: int
    exposed: int


class RankQueues:
    """What one rank did."""

    def __init__(self):
        self.inside = 0  # of calls
        self.busy: Dict[Queue, int] = {}
        self.waited = 0
        self.axes: Dict[str, Axis] = {}


class Spent(NamedTuple):
    """On the commands of one kind and path, over all ranks; nanoseconds."""

    time: int
    times: int
    flops: int


class Exposed(NamedTuple):
    """Of the collectives of one axis and path, over all ranks; nanoseconds."""

    flight: int
    exposed: int
    times: int


class Queues:
    """Everything, of one file."""

    def __init__(self, profile: Profile):
        self.profile = profile
        self.ranks: Dict[int, RankQueues] = {}
        # For each function and command: time, number, and of transfers the time in
        # flight, exposed, and number.
        self._sums = [
            np.zeros((5, len(function.commands)), np.int64)
            for function in profile.functions
        ]

    def gather(self, *watchers) -> "Queues":
        for call in self.profile.measured():
            if self.profile.is_warm(call.info.step):
                self._add(call)
            for watcher in watchers:
                watcher(call)
        return self

    def _add(self, call: Call) -> None:
        rank = self.ranks.setdefault(call.info.rank, RankQueues())
        rank.inside += call.info.end - call.info.begin
        commands = call.function.commands
        ran = call.begin != NOT_MEASURED
        lasted = np.where(ran, call.end - call.begin, 0)
        waits = np.array([kind == WAIT for kind in commands.kind], bool)
        rank.waited += int(lasted[waits].sum())
        works = ran & ~waits
        for index, queue in enumerate(call.function.queues):
            mine = works & (commands.queue == index)
            busy = int(lasted[mine].sum())
            rank.busy[queue] = rank.busy.get(queue, 0) + busy
        sums = self._sums[call.info.function]
        sums[0] += lasted
        sums[1] += ran
        self._add_transfers(call, rank, computing(call, works), sums)

    def _add_transfers(self, call: Call, rank: RankQueues, computed, sums) -> None:
        moved = np.flatnonzero(call.transfer_begin != NOT_MEASURED)
        begin, end = call.transfer_begin[moved], call.transfer_end[moved]
        sums[2, moved] += end - begin
        sums[3, moved] += end - begin - covered(computed, begin, end)
        sums[4, moved] += 1
        queue = call.function.commands.queue[moved]
        axes = np.array([each.axes for each in call.function.queues] or [""])[queue]
        for axis in sorted(set(axes)):
            spans = union(begin[axes == axis], end[axes == axis])
            flight = int((spans[1] - spans[0]).sum())
            exposed = flight - int(covered(computed, *spans).sum())
            before = rank.axes.get(axis, Axis(0, 0))
            rank.axes[axis] = Axis(before.flight + flight, before.exposed + exposed)

    def slowest(self) -> List[Tuple[Tuple[str, str], Spent]]:
        """(what, path) of all but waits, the longest time first."""
        found: Dict[Tuple[str, str], Spent] = {}
        for function, sums in zip(self.profile.functions, self._sums):
            commands = function.commands
            for index in np.flatnonzero(sums[1]).tolist():
                if commands.kind[index] == WAIT:
                    continue
                what = commands.name[index] or commands.kind[index]
                key = what, commands.path[index]
                before = found.get(key, Spent(0, 0, 0))
                times = int(sums[1, index])
                found[key] = Spent(
                    before.time + int(sums[0, index]),
                    before.times + times,
                    before.flops + times * int(commands.flops[index]),
                )
        return sorted(found.items(), key=lambda item: -item[1].time)

    def exposed(self) -> List[Tuple[Tuple[str, str], Exposed]]:
        """(axes, path), the most exposed first."""
        found: Dict[Tuple[str, str], Exposed] = {}
        for function, sums in zip(self.profile.functions, self._sums):
            commands = function.commands
            for index in np.flatnonzero(sums[4]).tolist():
                axes = function.queues[commands.queue[index]].axes
                key = axes, commands.path[index]
                before = found.get(key, Exposed(0, 0, 0))
                found[key] = Exposed(*(before + sums[2:, index]).tolist())
        return sorted(found.items(), key=lambda item: -item[1].exposed)


def computing(call: Call, works: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """The spans of time in which something is computed, apart and in order."""
    queues = [queue.kind == "compute" for queue in call.function.queues]
    computes = works & np.array(queues or [False])[call.function.commands.queue]
    return union(call.begin[computes], call.end[computes])


def union(begin: np.ndarray, end: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Spans with overlaps, as spans without, in order."""
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    apart = begin[1:] > latest[:-1]
    some = np.full(min(1, len(begin)), True)
    return begin[np.r_[some, apart]], latest[np.r_[apart, some]]


def covered(spans, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How much of each stretch of time lies within `spans`, which are apart."""
    return _covered_until(spans, end) - _covered_until(spans, begin)


def _covered_until(spans, time: np.ndarray) -> np.ndarray:
    begin, end = spans
    if not len(begin):
        return np.zeros(len(time), np.int64)
    before = np.r_[0, np.cumsum(end - begin)]
    # The spans that begin earlier count whole, but the last only so far.
    index = np.searchsorted(begin, time, side="right")
    last = np.maximum(index - 1, 0)
    beyond = np.where(index > 0, np.maximum(end[last] - time, 0), 0)
    return before[index] - beyond

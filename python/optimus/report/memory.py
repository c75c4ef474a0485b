# ===- memory.py - All figures of the memory report -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""All figures of `optimus-report memory`, gathered call by call. Those
of time are of warm steps only (Profile.is_warm)."""

from typing import Dict, List, Optional

import numpy as np

from optimus.report import events
from optimus.report.events import Lives, TimedAccesses
from optimus.report.intervals import Histogram, IdleTimes, Intervals
from optimus.report.profile import Blocks, Call, Function, Profile

# Beside a kernel's launch and a copy's latency, shorter intervals are of no use.
SHORT = 25_000  # ns
LINE = 64  # bytes, to which the planner rounds sizes up


class Peak:
    """When most bytes of an arena were alive, and which."""

    def __init__(self, call: Call, alive: Lives, time: int, blocks: Blocks):
        self.call = call.info
        self.function = call.function
        self.time = time
        there = (alive.malloc <= time) & (time < alive.free)
        self.blocks = alive.block[there]
        self.bytes = int(blocks.bytes[self.blocks].sum())
        self.by_category = by_category(self.blocks, blocks)
        self.warm = False
        # Of blocks that are alive but idle at the peak: how long they are.
        self.idle = Intervals(*[np.empty(0, np.int64)] * 3)


class RankMemory:
    """What one rank's calls did."""

    def __init__(self, blocks: Blocks):
        self._blocks = blocks
        self._idle_times = IdleTimes(blocks)
        self.peak: Optional[Peak] = None
        # Longest interval of each block in the step under way, and the least of that
        # over all steps; -1: the block was in no step.
        self._longest = np.full(len(blocks.bytes), -1, np.int64)
        self.reliable = self._longest.copy()
        self._step: Optional[int] = None
        self._events: List[np.ndarray] = []
        self._events_before: Optional[np.ndarray] = None
        self.same_events: List[float] = []  # for each step from the second

    def add(
        self, call: Call, touched: TimedAccesses, alive: Lives, warm: bool
    ) -> Intervals:
        if call.info.step != self._step:
            self.end_step()
            self._step = call.info.step
        idle = self._idle_times.of(touched)
        self._look_for_peak(call, alive, idle, warm)
        self._events.append(events.in_order(touched, alive))
        if warm:
            there = np.unique(touched.block)
            self._longest[there] = np.maximum(self._longest[there], 0)
            np.maximum.at(self._longest, idle.block, idle.length)
        return idle

    def end_step(self) -> None:
        """To be called after the last call, too."""
        there = self._longest >= 0
        first = there & (self.reliable < 0)
        again = there & ~first
        self.reliable[first] = self._longest[first]
        self.reliable[again] = np.minimum(self.reliable[again], self._longest[again])
        self._longest[:] = -1
        if self._events:
            now = np.concatenate(self._events)
            if self._events_before is not None:
                self.same_events.append(share_alike(self._events_before, now))
            self._events_before, self._events = now, []

    def _look_for_peak(
        self, call: Call, alive: Lives, idle: Intervals, warm: bool
    ) -> None:
        if not len(alive.block):
            return
        changes = events.changes(alive, self._blocks)
        bytes_alive = np.cumsum(changes.bytes)
        highest = int(np.argmax(bytes_alive))
        if self.peak is not None:
            more = int(bytes_alive[highest]) - self.peak.bytes
            if more < 0 or (more == 0 and (self.peak.warm or not warm)):
                return
        time = int(changes.time[highest])
        self.peak = Peak(call, alive, time, self._blocks)
        self.peak.warm = warm
        spans = (idle.begin <= time) & (time < idle.end)
        self.peak.idle = Intervals(*[column[spans] for column in idle])


def share_alike(before: np.ndarray, now: np.ndarray) -> float:
    """The share of places at which two steps have the same event."""
    common = min(len(before), len(now))
    most = max(len(before), len(now))
    return float((before[:common] == now[:common]).sum()) / most if most else 1.0


class Memory:
    """Everything, of one file."""

    def __init__(self, profile: Profile):
        self.profile = profile
        self.blocks = profile.blocks
        count = len(self.blocks.categories)
        self.idle_times = [Histogram() for _ in range(count)]
        self.lifetimes = [Histogram() for _ in range(count)]
        self.ranks: Dict[int, RankMemory] = {}

    def gather(self, *watchers) -> "Memory":
        """Goes through the file once. A watcher is called with each call and its
        intervals."""
        for call in self.profile.measured():
            idle = self._add(call)
            for watcher in watchers:
                watcher(call, idle)
        for rank in self.ranks.values():
            rank.end_step()
        return self

    def _add(self, call: Call) -> Intervals:
        warm = self.profile.is_warm(call.info.step)
        rank = self.ranks.setdefault(call.info.rank, RankMemory(self.blocks))
        touched = events.accesses(call)
        alive = events.lives(call, self.blocks)
        idle = rank.add(call, touched, alive, warm)
        if warm:
            self._add_by_category(self.idle_times, idle.block, idle.length)
            self._add_by_category(
                self.lifetimes, alive.block, alive.free - alive.malloc
            )
        return idle

    def _add_by_category(self, histograms, block, values) -> None:
        category = self.blocks.category[block]
        for index, histogram in enumerate(histograms):
            histogram.add(values[category == index], SHORT)

    @property
    def resident_by_category(self) -> np.ndarray:
        return by_category(np.flatnonzero(self.blocks.resident), self.blocks)

    @property
    def reliable(self) -> np.ndarray:
        """For each block how long it is idle, once, in every step on every rank;
        -1 where nothing touched it."""
        found = np.full(len(self.blocks.bytes), -1, np.int64)
        for rank in self.ranks.values():
            there = rank.reliable >= 0
            both = there & (found >= 0)
            found[both] = np.minimum(found[both], rank.reliable[both])
            found[there & ~both] = rank.reliable[there & ~both]
        return found


def by_category(block: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Bytes of some blocks in each category."""
    found = np.zeros(len(blocks.categories), np.int64)
    np.add.at(found, blocks.category[block], blocks.bytes[block])
    return found


def lower_bound(function: Function, blocks: Blocks) -> int:
    """The most bytes that are alive at once in the order of the program, as the
    planner counts them: no arena can be smaller."""
    block = function.blocks
    size = -(-blocks.bytes[block] // LINE) * LINE
    change = np.zeros(len(function.commands) + 1, np.int64)
    np.add.at(change, blocks.first[block], size)
    np.subtract.at(change, blocks.last[block] + 1, size)
    return int(np.cumsum(change).max()) if len(change) else 0

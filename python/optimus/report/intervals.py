# ===- intervals.py - How long blocks lie idle ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Access-time intervals (ATI): from the end of one access to a block to the begin
of the next. Where two accesses overlap there is none between them."""

from typing import NamedTuple

import numpy as np

from optimus.report.events import TimedAccesses
from optimus.report.profile import Blocks

# A histogram's bins split each power of two in so many.
STEPS = 128
BINS = 64 * STEPS


class Intervals(NamedTuple):
    """Some intervals, one block after the other."""

    block: np.ndarray
    begin: np.ndarray
    end: np.ndarray

    @property
    def length(self) -> np.ndarray:
        return self.end - self.begin


class IdleTimes:
    """The intervals of one rank's calls. Blocks of an arena are new in every call;
    resident ones have intervals across calls, too."""

    def __init__(self, blocks: Blocks):
        self._resident = blocks.resident
        self._last_end = np.full(len(blocks.bytes), -1, np.int64)

    def of(self, touched: TimedAccesses) -> Intervals:
        """The intervals that end in a call; calls in order of time."""
        block, begin, end = touched.block, touched.begin, touched.end
        carried = np.unique(block[self._resident[block]])
        carried = carried[self._last_end[carried] >= 0]
        before = self._last_end[carried]
        found = between(
            np.concatenate([carried, block]),
            np.concatenate([before, begin]),
            np.concatenate([before, end]),
        )
        stays = self._resident[block]
        np.maximum.at(self._last_end, block[stays], end[stays])
        return found


def between(block: np.ndarray, begin: np.ndarray, end: np.ndarray) -> Intervals:
    """The intervals between accesses, in any order."""
    if not len(block):
        return Intervals(block, begin, end)
    order = np.lexsort((begin, block))
    block, begin, end = block[order], begin[order], end[order]
    # The latest end so far of the same block: blocks are shifted apart, so that one
    # running maximum serves all of them.
    least = begin.min()
    width = int(end.max() - least) + 1
    shift = np.cumsum(np.r_[0, block[1:] != block[:-1]]) * width
    latest = np.maximum.accumulate(end - least + shift) - shift + least
    same = block[1:] == block[:-1]
    idle = same & (begin[1:] > latest[:-1])
    return Intervals(block[1:][idle], latest[:-1][idle], begin[1:][idle])


class Histogram:
    """Many whole numbers >= 0 in little memory: a quantile is at most 1/128 off."""

    def __init__(self):
        self.counts = np.zeros(BINS, np.int64)
        self.count = self.below = self.largest = 0

    def add(self, values: np.ndarray, limit: int) -> None:
        """`below` counts, exactly, the values under `limit`."""
        if len(values):
            self.counts += np.bincount(bin_of(values), minlength=BINS)
            self.count += len(values)
            self.below += int((values < limit).sum())
            self.largest = max(self.largest, int(values.max()))

    def quantile(self, share: float) -> int:
        """The least value that at least `share` of all are not above; 0 of none."""
        if not self.count:
            return 0
        needed = max(1, int(np.ceil(share * self.count)))
        found = int(np.searchsorted(np.cumsum(self.counts), needed))
        return min(int(least_of(found)), self.largest)


def bin_of(values: np.ndarray) -> np.ndarray:
    """Small numbers have a bin of their own, others share one with their like."""
    _, exponent = np.frexp(np.maximum(values, 1).astype(np.float64))
    shift = np.maximum(exponent - 8, 0)
    return shift * STEPS + (values >> shift)


def least_of(index):
    """The least number of a bin."""
    shift = np.maximum(np.asarray(index) // STEPS - 1, 0)
    return (np.asarray(index) - shift * STEPS) << shift

# ===- events.py - What happened to memory in one call --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The events of memory in one call: malloc, write, read and free of blocks.

An access lasts as long as its command, that of a collective until its transfer
ends. A planned block is made when the first command that it is alive at begins,
and freed when the last one ends."""

from typing import NamedTuple

import numpy as np

from optimus.report.profile import NOT_MEASURED, Blocks, Call

READ, WRITE, BOTH = 1, 2, 3
# At one time, freed memory makes room for new blocks.
FREE, MALLOC, ACCESS = 0, 1, 2


class Lives(NamedTuple):
    """The blocks of one call's arena."""

    block: np.ndarray
    address: np.ndarray
    malloc: np.ndarray
    free: np.ndarray


class TimedAccesses(NamedTuple):
    """What the commands of one call touched."""

    block: np.ndarray
    command: np.ndarray
    access: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def accesses(call: Call) -> TimedAccesses:
    """In the order of the commands."""
    touched = call.function.accesses
    end = np.maximum(call.end, call.transfer_end)
    measured = call.begin[touched.command] != NOT_MEASURED
    command = touched.command[measured]
    return TimedAccesses(
        touched.block[measured],
        command,
        touched.access[measured],
        call.begin[command],
        end[command],
    )


def lives(call: Call, blocks: Blocks) -> Lives:
    """Allocations where there were any, else what was planned."""
    if len(call.allocations):
        block, address, malloc, _, _, free = call.allocations.T
        # Who is not freed lives until the call ends.
        return Lives(
            block, address, malloc, np.where(free == NOT_MEASURED, call.info.end, free)
        )
    block = call.function.blocks
    malloc, free = call.begin[blocks.first[block]], call.end[blocks.last[block]]
    there = (malloc != NOT_MEASURED) & (free != NOT_MEASURED)
    block = block[there]
    return Lives(block, blocks.address[block], malloc[there], free[there])


class Changes(NamedTuple):
    """Mallocs and frees in order of time."""

    time: np.ndarray
    block: np.ndarray
    bytes: np.ndarray  # what is alive more, or less


def changes(alive: Lives, blocks: Blocks) -> Changes:
    size = blocks.bytes[alive.block]
    time = np.concatenate([alive.malloc, alive.free])
    kind = np.repeat([MALLOC, FREE], len(size))
    order = np.lexsort((kind, time))
    return Changes(
        time[order],
        np.concatenate([alive.block, alive.block])[order],
        np.concatenate([size, -size])[order],
    )


def in_order(touched: TimedAccesses, alive: Lives) -> np.ndarray:
    """One number for each event of a call, in order of time: the block and the event. A
    block's number stands for its size too."""
    time = np.concatenate([alive.malloc, touched.begin, alive.free])
    rank = np.repeat(
        [MALLOC, ACCESS, FREE], [len(alive[0]), len(touched[0]), len(alive[0])]
    )
    # Reads are 1, writes 2, both 3.
    what = np.concatenate(
        [np.full(len(alive[0]), 4), touched.access, np.full(len(alive[0]), 5)]
    )
    block = np.concatenate([alive.block, touched.block, alive.block])
    return (block * 8 + what)[np.lexsort((what, block, rank, time))]

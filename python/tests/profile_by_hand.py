# ===- profile_by_hand.py - Profiles read one event at a time -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads a profile without optimus.report and without numpy, event by event: what
the reports of small profiles are compared with."""

import sqlite3
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple


class Event(NamedTuple):
    """In order of time; at one time frees come first, then mallocs."""

    time: int
    turn: int
    kind: str  # "free", "malloc", "read", "write", "both"
    block: int
    end: int  # of an access


class ByHand:
    """A profile as lists of rows."""

    def __init__(self, path: Path):
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        self._rows = lambda query: [dict(row) for row in connection.execute(query)]
        self.blocks = {row["block"]: row for row in self._rows("SELECT * FROM blocks")}
        self.calls = self._rows("SELECT * FROM calls ORDER BY call")
        rows = self._rows("SELECT * FROM commands WHERE function = 0")
        self.commands = {row["command"]: row for row in rows}
        self._accesses = self._rows("SELECT * FROM accesses")
        self.times = self._keyed("times")
        self.transfers = self._keyed("transfers")
        self._allocations = self._rows("SELECT * FROM allocations")

    def _keyed(self, table: str) -> Dict[Tuple[int, int], dict]:
        rows = self._rows("SELECT * FROM " + table)
        return {(row["call"], row["command"]): row for row in rows}

    def lives(self, call: dict) -> List[Tuple[int, int, int, int]]:
        """(block, address, malloc, free) of a call."""
        allocated = [row for row in self._allocations if row["call"] == call["call"]]
        if allocated:
            return [
                (row["block"], row["address"], row["malloc_begin"], row["free_end"])
                for row in allocated
            ]
        return [
            (
                number,
                block["address"],
                self.times[call["call"], block["first"]]["begin"],
                self.times[call["call"], block["last"]]["end"],
            )
            for number, block in self.blocks.items()
            if block["function"] == call["function"]
        ]

    def events(self, call: dict) -> List[Event]:
        found = []
        for block, _, malloc, free in self.lives(call):
            found.append(Event(malloc, 1, "malloc", block, 0))
            found.append(Event(free, 0, "free", block, 0))
        for access in self._accesses:
            if access["function"] == call["function"]:
                key = call["call"], access["command"]
                time = self.times[key]
                last = self.transfers.get(key, time)["end"]
                kind = {1: "read", 2: "write", 3: "both"}[access["access"]]
                end = max(time["end"], last)
                found.append(Event(time["begin"], 2, kind, access["block"], end))
        return sorted(found)

    def intervals(self, rank: int) -> List[Tuple[int, int, int, int]]:
        """(block, begin, end, step it ends in): idle between two accesses."""
        found = []
        busy_until: Dict[int, int] = {}
        for call in self.calls:
            if call["rank"] != rank:
                continue
            for event in self.events(call):
                block = event.block
                if event.kind == "malloc":
                    busy_until.pop(block, None)
                elif event.kind != "free":
                    if event.time > busy_until.get(block, event.time):
                        begin = busy_until[block]
                        found.append((block, begin, event.time, call["step"]))
                    busy_until[block] = max(busy_until.get(block, 0), event.end)
        return found

    def alive(self, call: dict) -> List[Tuple[int, List[int]]]:
        """(time, blocks alive from then on) after each malloc and free."""
        found, now = [], []
        for event in self.events(call):
            if event.kind == "malloc":
                now = [*now, event.block]
            elif event.kind == "free":
                now = [block for block in now if block != event.block]
            else:
                continue
            found.append((event.time, now))
        return found

    def bytes_of(self, blocks) -> int:
        return sum(self.blocks[block]["bytes"] for block in blocks)

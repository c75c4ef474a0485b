# ===- chakra.py - Execution traces of Chakra -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Execution traces as MLCommons Chakra defines them (schema/protobuf/et_def.proto), for
simulators as ASTRA-sim: a folder with `trace.RANK.et` for each rank, and the ranks of
each process group in `comm_groups.json`.

A file is a sequence of protobuf messages, each behind its length: the metadata, then a
node for each command but waits. What a wait is for becomes a dependence of the next
command. Times are microseconds. Of simulated profiles one rank stands for all that do
the same; it is written for each rank of the mesh where it stands for all of them."""

import json
import os
from typing import Dict, Iterator, List, Sequence, Tuple, Union

import numpy as np

from optimus import output
from optimus.report import ReportError
from optimus.report.profile import NOT_MEASURED, Call, Profile
from optimus.report.window import Window

VERSION = "0.0.4"
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
COLLECTIVES = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
}
MESSAGES = {"send": SEND, "receive": RECEIVE}
GROUPS = "comm_groups.json"

Value = Union[bool, int, str]


def write(windows: Sequence[Window], folder: str) -> None:
    """Makes the folder, whole or not at all. Raises ReportError, also where it is
    there already."""
    if folder == "-":
        raise ReportError("-o: expected the name of a folder to make, found '-'")
    if os.path.lexists(folder):
        raise ReportError(
            "-o '%s' exists; remove it, or name another folder" % folder
        )
    groups = _Groups(windows[0].profile)
    traces = {
        rank: b"".join(_messages(window, rank, groups))
        for window, rank in _ranks_of(windows, groups)
    }
    try:
        with output.new_folder(folder) as new:
            for rank, trace in traces.items():
                with open(os.path.join(new, "trace.%d.et" % rank), "wb") as file:
                    file.write(trace)
            with open(os.path.join(new, GROUPS), "w") as file:
                json.dump(groups.members, file, indent=1)
    except OSError as error:
        raise ReportError("-o '%s': %s" % (folder, error.strerror)) from None


def _ranks_of(windows: Sequence[Window], groups: "_Groups"):
    """All ranks, each with the window that has its times. Raises ReportError."""
    profile = windows[0].profile
    if profile.trace.get("backend") == "simulated" and len(profile.ranks) == 1:
        return [(windows[0], rank) for rank in range(groups.ranks)]
    found = [(window, window.choice.rank) for window in windows]
    if len(found) != groups.ranks:
        raise ReportError(
            "expected the times of all %d ranks, found those of %s; give the files of "
            "all processes, or simulate with `--straggler spread=1e-6`, which folds none"
            % (groups.ranks, ", ".join(str(rank) for _, rank in found))
        )
    return found


class _Groups:
    """Ranks that differ on some axes alone, by number."""

    def __init__(self, profile: Profile):
        mesh = filter(None, str(profile.trace["mesh"]).split(","))
        self.axes = [
            (name, int(size)) for name, size in (axis.split(":") for axis in mesh)
        ]
        self.ranks = int(np.prod([size for _, size in self.axes], dtype=np.int64))
        self.members: Dict[str, List[int]] = {}
        self._numbers: Dict[Tuple[int, ...], str] = {}

    def of(self, rank: int, axes: str) -> str:
        """The name of the group of a rank on the axes `row+col`."""
        shape = [size for _, size in self.axes]
        grid = np.arange(self.ranks).reshape(shape)
        place = np.unravel_index(rank, shape)
        moved = axes.split("+")
        chosen = tuple(
            slice(None) if name in moved else at
            for (name, _), at in zip(self.axes, place)
        )
        members = tuple(grid[chosen].ravel().tolist())
        name = self._numbers.setdefault(members, str(len(self._numbers)))
        self.members.setdefault(name, list(members))
        return name


def _messages(window: Window, rank: int, groups: _Groups) -> Iterator[bytes]:
    yield _delimited(_field(1, VERSION) + _attribute("rank", rank, field=2))
    first, before = 0, []
    for call in window.calls:
        nodes = _Nodes(call, rank, groups, window.begin, first, before)
        yield from nodes.written()
        first, before = first + len(nodes.commands), nodes.last


class _Nodes:
    """Of one call. A command's node has the number of those before the call, and its
    own."""

    def __init__(self, call: Call, rank: int, groups: _Groups, begin, first, before):
        self.call, self.rank, self.groups = call, rank, groups
        self.begin, self.first = begin, first
        self.last: List[int] = before
        self.commands = call.function.commands
        sizes = np.zeros(len(self.commands), np.int64)
        accesses = call.function.accesses
        np.maximum.at(sizes, accesses.command, accesses.bytes)
        self.largest = sizes

    def written(self) -> Iterator[bytes]:
        call = self.call
        for index in np.flatnonzero(call.begin != NOT_MEASURED).tolist():
            kind = self.commands.kind[index]
            if kind == "wait":
                awaited = int(self.commands.waits_for[index])
                if awaited >= 0:
                    self.last = [*self.last, self.first + awaited]
                continue
            yield _delimited(self._node(index, kind))
            # A rank goes on beside its collectives.
            if kind not in COLLECTIVES and kind not in MESSAGES:
                self.last = [self.first + index]

    def _node(self, index: int, kind: str) -> bytes:
        commands, call = self.commands, self.call
        name = " ".join(filter(None, (commands.name[index] or kind, commands.path[index])))
        type, begin, end = COMPUTE, call.begin[index], call.end[index]
        attributes: List[Tuple[str, Value]] = [("is_cpu_op", False)]
        if kind in COLLECTIVES or kind in MESSAGES:
            type = MESSAGES.get(kind, COLLECTIVE)
            if call.transfer_begin[index] != NOT_MEASURED:
                begin, end = call.transfer_begin[index], call.transfer_end[index]
            axes = call.function.queues[commands.queue[index]].axes
            if kind in COLLECTIVES:
                attributes.append(("comm_type", COLLECTIVES[kind]))
            attributes += [
                ("comm_size", int(self.largest[index])),
                ("pg_name", self.groups.of(self.rank, axes)),
            ]
        else:
            attributes += [
                ("num_ops", int(commands.flops[index])),
                ("tensor_size", int(commands.bytes[index])),
            ]
        if commands.source[index]:
            attributes.append(("source", commands.source[index]))
        parts = [
            _field(1, self.first + index),
            _field(2, name),
            _field(3, type),
            _packed(5, sorted(set(self.last))),
            _field(6, int(begin - self.begin) // 1000),
            _field(7, int(end - begin) // 1000),
        ]
        return b"".join(parts + [_attribute(*each) for each in attributes])


# ------------------------------------------------------------------------ protobuf

# Of AttributeProto: name, and the place of a value by its type.
_PLACES = {bool: 27, int: 9, str: 29}


def _attribute(name: str, value: Value, field: int = 10) -> bytes:
    """The field `attr` of a node, or of the metadata."""
    inner = _field(1, name) + _field(_PLACES[type(value)], value, always=True)
    return _varint(field << 3 | 2) + _delimited(inner)


def _field(number: int, value: Value, always: bool = False) -> bytes:
    """Without a value that is the default, unless `always`."""
    if isinstance(value, str):
        text = value.encode("utf-8")
        return _varint(number << 3 | 2) + _delimited(text) if text or always else b""
    return _varint(number << 3) + _varint(int(value)) if value or always else b""


def _packed(number: int, values: List[int]) -> bytes:
    inner = b"".join(map(_varint, values))
    return _varint(number << 3 | 2) + _delimited(inner) if values else b""


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)

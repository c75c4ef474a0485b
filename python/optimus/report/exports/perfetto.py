# ===- perfetto.py - Chrome's trace events --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Chrome's trace events as JSON, for ui.perfetto.dev and chrome://tracing: a rank is a
process, a queue a thread. Commands are complete events, collectives in flight are
asynchronous ones, live bytes a counter, and arrows lead from the start of a collective
to the wait for it. Times are microseconds from the origin of the first file."""

import json
from typing import Iterator, List, Sequence

import numpy as np

from optimus.report import events, runs
from optimus.report.profile import NOT_MEASURED, Call, Queue
from optimus.report.window import Window


def render(windows: Sequence[Window]) -> bytes:
    first = windows[0].profile
    found: List[str] = []
    for window in windows:
        each = _Rank(window, runs.offset(window.profile, first))
        found += [json.dumps(event, allow_nan=False) for event in each.events()]
    text = '{"displayTimeUnit": "ns", "traceEvents": [\n%s\n]}\n'
    return (text % ",\n".join(found)).encode("utf-8")


class _Rank:
    """The events of one rank."""

    def __init__(self, window: Window, offset: int):
        self.window = window
        self.offset = offset
        self.rank = window.choice.rank
        self._threads: List[Queue] = []

    def events(self) -> Iterator[dict]:
        where = self.window.profile.ranks[self.rank]
        name = "rank %d" % self.rank
        place = ", ".join("%s %s" % each for each in where.items())
        yield self._named(
            "process_name", 0, "%s (%s)" % (name, place) if place else name
        )
        for call in self.window.calls:
            yield from self._call(call)
        for thread, queue in enumerate(self._threads):
            yield self._named("thread_name", thread, queue.name)
        yield from self._live_bytes()

    def _named(self, what: str, thread: int, name: str) -> dict:
        return dict(ph="M", pid=self.rank, tid=thread, name=what, args={"name": name})

    def _at(self, phase: str, time: int, thread: int, **more) -> dict:
        when = (int(time) + self.offset) / 1000
        return dict(ph=phase, ts=when, pid=self.rank, tid=thread, **more)

    def _call(self, call: Call) -> Iterator[dict]:
        function, commands = call.function, call.function.commands
        threads = [self._thread(queue) for queue in function.queues]
        for index in np.flatnonzero(call.begin != NOT_MEASURED).tolist():
            thread = threads[commands.queue[index]]
            begin, end = int(call.begin[index]), int(call.end[index])
            kind, name = commands.kind[index], commands.name[index]
            args = {
                "path": commands.path[index],
                "source": commands.source[index],
                "flops": int(commands.flops[index]),
                "bytes": int(commands.bytes[index]),
                "step": call.info.step,
                "function": function.name,
                "command": index,
            }
            yield self._at(
                "X",
                begin,
                thread,
                dur=(end - begin) / 1000,
                name=" ".join(filter(None, (name or kind, commands.path[index]))),
                cat=kind,
                args=args,
            )
            yield from self._in_flight(call, index, thread)
            start = int(commands.waits_for[index])
            if start >= 0 and call.begin[start] != NOT_MEASURED:
                yield from self._arrow(call, start, index, threads)

    def _thread(self, queue: Queue) -> int:
        if queue not in self._threads:
            self._threads.append(queue)
        return self._threads.index(queue)

    def _id(self, call: Call, command: int) -> str:
        return "%d.%d.%d" % (self.rank, call.info.call, command)

    def _in_flight(self, call: Call, index: int, thread: int) -> Iterator[dict]:
        if call.transfer_begin[index] == NOT_MEASURED:
            return
        commands = call.function.commands
        named = {
            "name": "%s %s" % (commands.kind[index], commands.path[index]),
            "cat": "transfer",
            "id": self._id(call, index),
        }
        yield self._at("b", call.transfer_begin[index], thread, **named)
        yield self._at("e", call.transfer_end[index], thread, **named)

    def _arrow(self, call: Call, start: int, wait: int, threads) -> Iterator[dict]:
        queue = call.function.commands.queue
        named = dict(name="wait", cat="wait", id=self._id(call, start))
        yield self._at("s", call.begin[start], threads[queue[start]], **named)
        # When the data is there; the end itself is outside of the wait.
        there = max(call.begin[wait], call.end[wait] - 1)
        yield self._at("f", there, threads[queue[wait]], bp="e", **named)

    def _live_bytes(self) -> Iterator[dict]:
        blocks = self.window.profile.blocks
        names = blocks.categories
        changes = events.changes(self.window.lives, blocks)
        alive = np.zeros(len(names), np.int64)
        np.add.at(
            alive, blocks.category[blocks.resident], blocks.bytes[blocks.resident]
        )
        times, category = changes.time.tolist(), blocks.category[changes.block].tolist()
        for index, (time, kind) in enumerate(zip(times, category)):
            alive[kind] += changes.bytes[index]
            # One event for all that happens at one time.
            if index + 1 == len(times) or times[index + 1] != time:
                args = dict(zip(names, alive.tolist()))
                yield self._at("C", time, 0, name="live bytes", args=args)

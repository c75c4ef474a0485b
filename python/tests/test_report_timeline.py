# ===- test_report_timeline.py - Figures of queues against a reading by hand ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The output of `optimus-report timeline` follows from its definitions, one nanosecond
at a time."""

import numpy as np
import pytest

import synthetic_profile
from optimus.report import queues, timeline
from optimus.report.profile import Profile, Queue
from profile_by_hand import ByHand
from synthetic_profile import Shape

COMPUTE, ROW = Queue("compute", ""), Queue("communication", "row")


@pytest.fixture
def path(tmp_path):
    synthetic_profile.write(tmp_path / "run.profile", Shape(layers=3))
    return tmp_path / "run.profile"


@pytest.fixture
def found(path) -> queues.Queues:
    return queues.Queues(Profile(str(path))).gather()


@pytest.fixture
def by_hand(path) -> ByHand:
    return ByHand(path)


def moments(rows):
    """Every nanosecond in some spans."""
    return {moment for row in rows for moment in range(row["begin"], row["end"])}


def in_calls(by_hand, rank, rows, kinds=None):
    """Rows of a table that are of a rank's calls, but not in its first step."""
    calls = {c["call"] for c in by_hand.calls if c["rank"] == rank and c["step"] > 1}
    return [
        row
        for (call, command), row in rows.items()
        if call in calls
        and (kinds is None or by_hand.commands[command]["kind"] in kinds)
    ]


COMPUTING = {"gemm", "launch"}


@pytest.mark.parametrize("rank", [0, 1])
def test_busy(found, by_hand, rank):
    def whole(kinds):
        rows = in_calls(by_hand, rank, by_hand.times, kinds)
        return sum(row["end"] - row["begin"] for row in rows)

    got = found.ranks[rank]
    assert got.busy == {COMPUTE: whole(COMPUTING), ROW: whole({"all_reduce"})}
    assert got.waited == whole({"wait"}) > 0
    assert got.inside == sum(
        call["end"] - call["begin"]
        for call in by_hand.calls
        if call["rank"] == rank and call["step"] > 1
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_exposed(found, by_hand, rank):
    flight = moments(in_calls(by_hand, rank, by_hand.transfers))
    computed = moments(in_calls(by_hand, rank, by_hand.times, COMPUTING))
    expected = queues.Axis(len(flight), len(flight - computed))
    assert found.ranks[rank].axes == {"row": expected}


def test_exposed_by_path(found, by_hand):
    expected = {}
    for rank in (0, 1):
        computed = moments(in_calls(by_hand, rank, by_hand.times, COMPUTING))
        for row in in_calls(by_hand, rank, by_hand.transfers):
            key = "row", by_hand.commands[row["command"]]["path"]
            before = expected.get(key, queues.Exposed(0, 0, 0))
            flight = moments([row])
            more = len(flight), len(flight - computed), 1
            expected[key] = queues.Exposed(*(a + b for a, b in zip(before, more)))
    got = found.exposed()
    assert dict(got) == expected
    assert [each.exposed for _, each in got] == sorted(
        (each.exposed for each in expected.values()), reverse=True
    )


def test_slowest(found, by_hand):
    expected = {}
    for rank in (0, 1):
        for row in in_calls(by_hand, rank, by_hand.times):
            command = by_hand.commands[row["command"]]
            if command["kind"] != "wait":
                key = command["name"] or command["kind"], command["path"]
                before = expected.get(key, queues.Spent(0, 0, 0))
                more = row["end"] - row["begin"], 1, command["flops"]
                expected[key] = queues.Spent(*(a + b for a, b in zip(before, more)))
    got = found.slowest()
    assert dict(got) == expected
    times = [each.time for _, each in got]
    assert times == sorted(times, reverse=True)


def test_spans():
    """Spans at random, against one nanosecond after the other."""
    random = np.random.default_rng(5)
    for _ in range(50):
        begin = random.integers(0, 60, 7)
        end = begin + random.integers(0, 12, 7)
        there = {m for b, e in zip(begin, end) for m in range(b, e)}
        spans = queues.union(begin, end)
        assert moments(dict(begin=b, end=e) for b, e in zip(*spans)) == there
        assert (spans[0][1:] > spans[1][:-1]).all()
        asked = random.integers(0, 80, 9)
        until = asked + random.integers(0, 30, 9)
        assert queues.covered(spans, asked, until).tolist() == [
            len(there & set(range(a, u))) for a, u in zip(asked, until)
        ]


def test_nothing_is_covered_by_nothing():
    none = np.empty(0, np.int64)
    spans = queues.union(none, none)
    assert queues.covered(spans, np.array([3]), np.array([9])).tolist() == [0]


def test_lines(found):
    shown = "\n".join(timeline.lines([found]))
    for expected in ["communication row", "h.2.mlp.up", "gelu", "exposed of calls"]:
        assert expected in shown


def test_lines_without_communication(tmp_path):
    path = tmp_path / "serial.profile"
    synthetic_profile.write(path, Shape(ranks=1, collectives=False))
    shown = timeline.lines([queues.Queues(Profile(str(path))).gather()])
    assert "Nothing is communicated." in shown

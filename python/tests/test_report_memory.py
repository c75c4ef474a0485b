# ===- test_report_memory.py - Figures of memory against a reading by hand ===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The output of `optimus-report memory` follows from its definitions, one event at a
time."""

import math
from collections import Counter

import numpy as np
import pytest

import synthetic_profile
from optimus.report import intervals, summary, swaps, text
from optimus.report.memory import SHORT, Memory, lower_bound, share_alike
from optimus.report.profile import Profile
from profile_by_hand import ByHand
from synthetic_profile import Shape

SHAPES = {
    "planned": Shape(),
    "dynamic": Shape(layers=6, dynamic=True),
    "serial": Shape(layers=1, ranks=1, steps=1, collectives=False),
    "no-layers-alike": Shape(layers=9, ranks=3, steps=4),
}


@pytest.fixture(params=SHAPES, ids=str)
def shape(request) -> Shape:
    return SHAPES[request.param]


@pytest.fixture
def path(shape, tmp_path):
    synthetic_profile.write(tmp_path / "run.profile", shape)
    return tmp_path / "run.profile"


@pytest.fixture
def memory(path) -> Memory:
    return Memory(Profile(str(path))).gather()


@pytest.fixture
def by_hand(path) -> ByHand:
    return ByHand(path)


def warm(shape: Shape, step: int) -> bool:
    return step > 1 or shape.steps == 1


def numbers_of(memory, indices):
    return {int(memory.profile.block_numbers[index]) for index in indices}


def test_peak(memory, by_hand):
    for rank, found in memory.ranks.items():
        alive = [
            each
            for call in by_hand.calls
            if call["rank"] == rank
            for each in by_hand.alive(call)
        ]
        _, most = max(alive, key=lambda each: by_hand.bytes_of(each[1]))
        assert found.peak.bytes == by_hand.bytes_of(most) > 0
        assert numbers_of(memory, found.peak.blocks) == set(most)
        expected = Counter()
        for block in most:
            row = by_hand.blocks[block]
            expected[row["category"]] += row["bytes"]
        names = memory.blocks.categories
        got = dict(zip(names, map(int, found.peak.by_category)))
        assert {name: size for name, size in got.items() if size} == dict(expected)


def test_idle_at_the_peak(memory, by_hand):
    for rank, found in memory.ranks.items():
        spans = {
            (block, begin, end)
            for block, begin, end, step in by_hand.intervals(rank)
            if begin <= found.peak.time < end and step == found.peak.call.step
        }
        idle = found.peak.idle
        got = {
            (int(memory.profile.block_numbers[block]), begin, end)
            for block, begin, end in zip(*(column.tolist() for column in idle))
        }
        assert got == spans


def test_intervals(memory, by_hand, shape):
    for index, category in enumerate(memory.blocks.categories):
        expected = sorted(
            end - begin
            for rank in memory.ranks
            for block, begin, end, step in by_hand.intervals(rank)
            if by_hand.blocks[block]["category"] == category and warm(shape, step)
        )
        found = memory.idle_times[index]
        assert found.count == len(expected)
        assert found.below == sum(length < SHORT for length in expected)
        assert found.largest == max(expected, default=0)
        check_quantiles(found, expected)


def test_lifetimes(memory, by_hand, shape):
    for index, category in enumerate(memory.blocks.categories):
        expected = sorted(
            free - malloc
            for call in by_hand.calls
            for block, _, malloc, free in by_hand.lives(call)
            if by_hand.blocks[block]["category"] == category
            and warm(shape, call["step"])
        )
        found = memory.lifetimes[index]
        assert (found.count, found.largest) == (len(expected), max(expected, default=0))
        check_quantiles(found, expected)


def check_quantiles(found, expected):
    """A quantile is the least value of the bin it is in, at most 1/128 below."""
    for share in (0.5, 0.9, 1.0):
        if expected:
            exact = expected[max(0, math.ceil(share * len(expected)) - 1)]
            assert exact * (1 - 1 / 128) <= found.quantile(share) <= exact


def test_reliable(memory, by_hand, shape):
    """The longest interval of each step, the shortest of these."""
    longest = {}
    for rank in memory.ranks:
        for block, begin, end, step in by_hand.intervals(rank):
            if warm(shape, step):
                key = block, rank, step
                longest[key] = max(longest.get(key, 0), end - begin)
    expected = {}
    for (block, _, _), length in longest.items():
        expected[block] = min(expected.get(block, length), length)
    got = memory.reliable
    for index, number in enumerate(memory.profile.block_numbers):
        assert max(got[index], 0) == expected.get(number, 0)


def test_stability(memory, by_hand):
    for rank, found in memory.ranks.items():
        steps = [
            [(event.kind, event.block) for event in by_hand.events(call)]
            for call in by_hand.calls
            if call["rank"] == rank
        ]
        expected = [
            sum(a == b for a, b in zip(one, other)) / max(len(one), len(other))
            for one, other in zip(steps, steps[1:])
        ]
        assert found.same_events == pytest.approx(expected)


def test_share_alike():
    assert share_alike(np.array([1, 2, 3]), np.array([1, 5, 3, 4])) == 0.5


def test_lower_bound(memory, by_hand):
    function = memory.profile.functions[0]
    expected = max(
        sum(
            -(-block["bytes"] // 64) * 64
            for block in by_hand.blocks.values()
            if block["function"] == 0 and block["first"] <= command <= block["last"]
        )
        for command in range(len(function.commands))
    )
    assert lower_bound(function, memory.blocks) == expected


def test_what_a_swap_hides():
    """2 bytes/ns there and 1 back: 3000 bytes need 4500 ns."""
    link = swaps.parse("mine=2,1")
    assert link.hides(3000, 4500) and not link.hides(3001, 4500)
    fast = swaps.Link("fast", 100, 100)
    assert swaps.slowest([fast, link], 3000, 4500) == "mine"
    assert swaps.slowest([fast, link], 3000, 4499) == "fast"
    assert swaps.slowest([fast, link], 3000, 10) == "none"
    sizes, idle = np.array([3000, 3001, 1]), np.array([4500, 4500, 4500])
    assert swaps.hidden(link, sizes, idle) == [2, 3001]


def test_histogram_bins():
    """Bins follow each other, and a number is in the bin that it is least of."""
    values = np.array([*range(5000), 2**40, 2**40 + 2**35, 2**52 - 1])
    bins = intervals.bin_of(values)
    assert (np.diff(bins) >= 0).all() and bins[255] + 1 == bins[256]
    least = intervals.least_of(bins)
    assert (least <= values).all() and (values - least <= values / 128).all()
    assert (intervals.bin_of(least) == bins).all()


def test_overlapping_accesses_leave_no_interval():
    block = np.array([1, 1, 1, 2])
    begin, end = np.array([0, 10, 60, 70]), np.array([50, 20, 65, 80])
    found = intervals.between(block, begin, end)
    assert [column.tolist() for column in found] == [[1], [50], [60]]


def test_summary(memory, shape):
    shown = "\n".join(summary.lines([memory], swaps.LINKS))
    peak = summary.highest(memory).peak
    for expected in [
        "gpt.so  strategy summa, mesh row:2,col:1, cpu",
        text.count(shape.steps, "step"),
        text.size(peak.bytes),
        "h.%d.up" % (shape.layers - 1),
        "gpt2.py:9:0",
        "NVLink-C2C",
        "Stability: " + ("from" if shape.steps > 1 else "one step"),
    ]:
        assert expected in shown


def test_numbers_for_people():
    assert [text.size(n) for n in (0, 1023, 1536, 10 << 20, 5 << 40)] == [
        *("0 bytes", "1023 bytes", "1.50 KiB", "10.0 MiB", "5.00 TiB")
    ]
    assert [text.time(n) for n in (0, 999, 25_000, 1_500_000, 12_000_000_000)] == [
        *("0", "999 ns", "25.0 µs", "1.50 ms", "12.0 s")
    ]
    assert text.percent(1, 0) == "–" and text.count(2000, "step") == "2,000 steps"

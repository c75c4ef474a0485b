# ===- summary.py - The memory report in a terminal -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The memory report in a terminal."""

from typing import Iterator, List, Sequence

import numpy as np

from optimus.report import text
from optimus.report.memory import Memory, RankMemory, lower_bound
from optimus.report.profile import Profile
from optimus.report.runs import missing
from optimus.report.swaps import Link, hidden, slowest

MOST_RANKS = 16
MOST_BLOCKS = 10


def lines(memories: Sequence[Memory], links: Sequence[Link]) -> List[str]:
    found: List[str] = [*heading([memory.profile for memory in memories])]
    found += ["", "Live bytes at the peak of each rank:", *_peaks(memories)]
    for memory in memories[:1]:
        found += ["", *_fragmentation(memory)]
        found += ["", *_largest(memory)]
        found += [
            "",
            "Lifetimes in the arena, from malloc to free:",
            *_lifetimes(memory),
        ]
        found += ["", "Access-time intervals (ATI):", *_intervals(memory)]
        found += ["", *_outliers(memory, links)]
        found += ["", *_swaps(memory, links)]
    if len(memories) > 1:
        found += ["", "Blocks, lifetimes and intervals: of the first file only."]
    return [*found, "", *_stability(memories)]


def heading(profiles: Sequence[Profile]) -> Iterator[str]:
    first = profiles[0]
    value = {key: _shown(value) for key, value in first.trace.items()}
    yield "%s  strategy %s, mesh %s, %s, %s placement" % (
        *(value.get("library", "?"), value.get("strategy", "?")),
        *(value.get("mesh") or "of one rank", value.get("device", "?")),
        value.get("placement", "?"),
    )
    ranks = sum(len(profile.ranks) for profile in profiles)
    steps = sorted({info.step for profile in profiles for info in profile.calls})
    calls = sum(len(profile.calls) for profile in profiles)
    span = "%d to %d" % (steps[0], steps[-1]) if steps else "none"
    yield "%s of %s in %s; %s (%s), %s" % (
        text.count(ranks, "rank"),
        value.get("ranks", "?"),
        text.count(len(profiles), "file"),
        text.count(len(steps), "step"),
        span,
        text.count(calls, "call"),
    )
    if missing(profiles):
        yield "Of %s there is no file; give all of FILE.0, FILE.1, …" % text.count(
            missing(profiles), "process", "processes"
        )
    for profile in profiles:
        ending = profile.trace.get("ending")
        if ending != "finished":
            yield "%s: the run did not end in order (%s)" % (
                profile.path,
                ending or "nothing says how",
            )


def _shown(value) -> str:
    return "" if value is None else str(value)


def _peaks(memories: Sequence[Memory]) -> List[str]:
    found = [
        (memory, rank, each)
        for memory in memories
        for rank, each in sorted(memory.ranks.items())
        if each.peak is not None
    ]
    if not found:
        return ["  no call has a block in an arena"]
    categories = sorted(
        {name for memory in memories for name in memory.blocks.categories}
    )
    rows = [_peak_row(memory, rank, each, categories) for memory, rank, each in found]
    # Ranks of most bytes first, where not all have room.
    if len(rows) > MOST_RANKS:
        order = sorted(range(len(rows)), key=lambda i: -found[i][2].peak.bytes)
        rows = [rows[i] for i in sorted(order[:MOST_RANKS])]
    header = ["rank", "arena", "alive", "of arena", "resident", *categories]
    shown = text.table(header, rows)
    if len(found) > MOST_RANKS:
        shown.append("  and %d ranks of fewer bytes" % (len(found) - MOST_RANKS))
    return shown


def _peak_row(memory: Memory, rank: int, each: RankMemory, categories) -> List[str]:
    resident, peak = memory.resident_by_category, each.peak
    together = dict(zip(memory.blocks.categories, resident + peak.by_category))
    return [
        str(rank),
        text.size(peak.function.arena_bytes),
        text.size(peak.bytes),
        text.percent(peak.bytes, peak.function.arena_bytes),
        text.size(resident.sum()),
        *(text.size(together.get(category, 0)) for category in categories),
    ]


def _fragmentation(memory: Memory) -> List[str]:
    rows = []
    for function in memory.profile.functions:
        bound = lower_bound(function, memory.blocks)
        ratio = "%.3f" % (function.arena_bytes / bound) if bound else "–"
        row = [function.name, text.size(function.arena_bytes), text.size(bound), ratio]
        rows.append([*row, str(len(function.blocks))])
    header = ["Function", "arena", "lower bound", "arena / bound", "blocks"]
    return ["Fragmentation:", *text.table(header, rows)]


def highest(memory: Memory) -> RankMemory:
    """The rank of the highest peak. Some rank must have one."""
    peaked = [each for each in memory.ranks.values() if each.peak is not None]
    return max(peaked, key=lambda each: each.peak.bytes)


def _has_peak(memory: Memory) -> bool:
    return any(each.peak is not None for each in memory.ranks.values())


def _largest(memory: Memory) -> List[str]:
    if not _has_peak(memory):
        return ["No block is alive at any time."]
    peak, blocks = highest(memory).peak, memory.blocks
    order = np.argsort(-blocks.bytes[peak.blocks], kind="stable")[:MOST_BLOCKS]
    title = "Largest of the %s alive at the peak of rank %d, step %d, in %s:" % (
        text.count(len(peak.blocks), "block"),
        *(peak.call.rank, peak.call.step, peak.function.name),
    )
    return [title, *_blocks(memory, peak.blocks[order])]


def _blocks(memory: Memory, indices, extra_header=(), extra=None) -> List[str]:
    blocks = memory.blocks
    rows = [
        [
            text.size(blocks.bytes[index]),
            *(extra(index) if extra else ()),
            blocks.categories[blocks.category[index]],
            blocks.paths[index] or blocks.names[index],
            blocks.sources[index],
        ]
        for index in indices
    ]
    return text.table(["size", *extra_header, "Category", "Path", "Source"], rows)


def _lifetimes(memory: Memory) -> List[str]:
    rows = [
        [name, format(each.count, ","), *_quantiles(each)]
        for name, each in zip(memory.blocks.categories, memory.lifetimes)
        if each.count
    ]
    return text.table(["Category", "blocks", "median", "90 %", "longest"], rows)


def _intervals(memory: Memory) -> List[str]:
    rows = [
        [
            name,
            format(each.count, ","),
            text.percent(each.below, each.count),
            *_quantiles(each),
        ]
        for name, each in zip(memory.blocks.categories, memory.idle_times)
        if each.count
    ]
    header = ["Category", "intervals", "< 25 µs", "median", "90 %", "longest"]
    return text.table(header, rows) if rows else ["  no block is accessed twice"]


def _quantiles(histogram) -> List[str]:
    values = histogram.quantile(0.5), histogram.quantile(0.9), histogram.largest
    return [text.time(value) for value in values]


def _outliers(memory: Memory, links: Sequence[Link]) -> List[str]:
    idle, size = memory.reliable, memory.blocks.bytes
    product = np.maximum(idle, 0).astype(np.float64) * size
    order = np.argsort(-product, kind="stable")[:MOST_BLOCKS]
    order = order[product[order] > 0]

    def extra(index):
        least = int(idle[index])
        return text.time(least), slowest(links, int(size[index]), least)

    title = (
        "Outliers, by ATI × size; ATI: idle once so long in every step on every rank; "
        "link: the slowest that hides a swap:"
    )
    return [title, *_blocks(memory, order, ("ATI", "Link"), extra)]


def _swaps(memory: Memory, links: Sequence[Link]) -> List[str]:
    if not _has_peak(memory):
        return ["Nothing is alive that a swap could move."]
    peak = highest(memory).peak
    size = memory.blocks.bytes[peak.idle.block]
    rows = []
    for link in links:
        number, away = hidden(link, size, peak.idle.length)
        rates = ["%g" % link.to_host, "%g" % link.to_device]
        shares = [text.size(away), text.percent(away, size.sum())]
        rows.append([link.name, *rates, str(number), *shares])
    title = (
        "Swaps: of %s in %s that are idle at that peak, what each link could have moved "
        "away and back, each block by itself:"
        % (text.size(size.sum()), text.count(len(size), "block"))
    )
    header = ["Link", "to host, GB/s", "to device", "blocks", "bytes", "of idle"]
    return [title, *text.table(header, rows)]


def _stability(memories: Sequence[Memory]) -> List[str]:
    shares = [
        share
        for memory in memories
        for rank in memory.ranks.values()
        for share in rank.same_events
    ]
    if not shares:
        return ["Stability: one step was seen; profile more to compare them."]
    return [
        "Stability: from the second step on, %.2f %% of events (malloc, write, read, "
        "free) are those of the step before, in order and size; at least %.2f %% in "
        "every step." % (100 * np.mean(shares), 100 * np.min(shares))
    ]

# ===- placement.py - Jobs on unrelated machines, on paper -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Places jobs on classes of workers so that the last one ends soon: unrelated machines,
since a job may be fast on one class and slow on another whatever others are.

Two lists are tried, the longest job first and the one that loses most elsewhere first
(sufferage), each job where it completes soonest. Then jobs of the class
that ends last are moved, or exchanged with another's, as long as the end comes sooner.
"""

import heapq
import itertools
import math
from typing import Dict, Iterator, List, NamedTuple, Optional

Table = Dict[int, Dict[str, float]]
"""Seconds of a job by class; infinity where it cannot run."""
Free = Dict[str, List[float]]
"""When each worker of a class is free, sorted."""

MOST_IMPROVED = 24
"""Jobs of a class, beyond which nothing is moved."""
MOST_STEPS = 40
ROUNDING = 1e-9
MOST_TRIED = 400
"""Moves and exchanges whose ends are computed, of a list."""


class Placed(NamedTuple):
    jobs: Dict[str, List[int]]
    """By class, in the order in which they begin."""
    ends: Dict[str, float]

    @property
    def end(self) -> float:
        return max(self.ends.values(), default=0.0)


def place(table: Table, free: Free) -> Placed:
    """Jobs that run nowhere are left out."""
    jobs = [job for job in table if min(table[job].values(), default=math.inf) < math.inf]
    longest = sorted(jobs, key=lambda job: (-min(table[job].values()), job))
    dearest = sorted(
        jobs, key=lambda job: (-_loss(table[job]), -min(table[job].values()), job)
    )
    found = [
        _improve(_list(order, table, free), table, free) for order in (longest, dearest)
    ]
    return min(found, key=lambda placed: (placed.end, sum(placed.ends.values())))


def _loss(weights: Dict[str, float]) -> float:
    """Beyond the best class."""
    first, second = (sorted(weights.values()) + [math.inf])[:2]
    return second - first


def _list(jobs: List[int], table: Table, free: Free) -> Placed:
    times = {kind: list(each) for kind, each in free.items()}
    found: Dict[str, List[int]] = {kind: [] for kind in free}
    for job in jobs:
        kind = min(times, key=lambda kind: (times[kind][0] + table[job][kind], kind))
        heapq.heapreplace(times[kind], times[kind][0] + table[job][kind])
        found[kind].append(job)
    for kind, its in found.items():
        its.sort(key=lambda job: (-table[job][kind], job))
    return Placed(
        found, {kind: _end(kind, its, table, free) for kind, its in found.items()}
    )


def _end(
    kind: str, jobs: List[int], table: Table, free: Free, least: float = math.inf
) -> float:
    """When the last of them ends, the longest first; 0 without jobs. Nothing is looked at
    beyond `least`."""
    # No more workers than jobs are of use, the first ones to be free.
    times, end = free[kind][: len(jobs)], 0.0
    for weight in sorted([table[job][kind] for job in jobs], reverse=True):
        its = times[0] + weight
        if its > end:
            end = its
            if end >= least:
                break
        heapq.heapreplace(times, its)
    return end


def _improve(placed: Placed, table: Table, free: Free) -> Placed:
    tries = itertools.count()
    for _ in range(MOST_STEPS):
        better = _step(placed, table, free, tries)
        if better is None:
            break
        placed = better
    return placed


def _step(
    placed: Placed, table: Table, free: Free, tries: Iterator[int]
) -> Optional[Placed]:
    """The best move or exchange of a job of the class that ends last."""
    last = max(placed.ends, key=lambda kind: (placed.ends[kind], kind))
    if len(placed.jobs[last]) > MOST_IMPROVED:
        return None
    found, least = None, placed.ends[last]
    loads = {
        kind: sum(table[job][kind] for job in its) for kind, its in placed.jobs.items()
    }
    # More than this no class can have done by then.
    rooms = {
        kind: sum(least - each for each in its if each < least)
        for kind, its in free.items()
    }
    for job in placed.jobs[last]:
        for kind, weight in table[job].items():
            if kind == last or weight == math.inf or weight >= least:
                continue
            others = placed.jobs[kind] if len(placed.jobs[kind]) <= MOST_IMPROVED else []
            for other in (None, *others):
                if other is not None and table[other][last] >= least:
                    continue
                taken = 0.0 if other is None else table[other][kind]
                if loads[kind] + weight - taken > rooms[kind] * (1 + ROUNDING):
                    continue
                if next(tries) >= MOST_TRIED:
                    break
                change = _exchanged(placed, last, job, kind, other)
                ends = {}
                # The one that takes the job is the likelier to end late.
                for each in (kind, last):
                    ends[each] = _end(each, change[each], table, free, least)
                    if ends[each] >= least:
                        break
                else:
                    found, least = (change, ends), max(ends.values())
    if found is None:
        return None
    change, ends = found
    for kind, its in change.items():
        its.sort(key=lambda job: (-table[job][kind], job))
    return Placed({**placed.jobs, **change}, {**placed.ends, **ends})


def _exchanged(
    placed: Placed, last: str, job: int, kind: str, other: Optional[int]
) -> Dict[str, List[int]]:
    """Both classes' jobs after `job` went to `kind`, and `other`, if any, came back."""
    own = [each for each in placed.jobs[last] if each != job]
    its = [each for each in placed.jobs[kind] if each != other]
    return {last: own if other is None else [*own, other], kind: [*its, job]}

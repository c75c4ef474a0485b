# ===- simulated.py - What a simulation tells ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The table of a simulation, and a bound below which no schedule ends."""

import math
from typing import Dict, List

from optimus.tune.simulate import Result
from optimus.tune.view import clock
from optimus.tune.virtual_pool import Pool


def least_seconds(durations: Dict[int, Dict[str, float]], counts: Dict[str, int]) -> float:
    """A bound on any schedule's end, of the fractional relaxation for unrelated machines:
    by weights that a few hundred multiplicative updates find. A bound for any weights."""
    kinds = list(counts)
    weights = {kind: 1.0 / len(kinds) for kind in kinds}
    longest = max((min(row.values()) for row in durations.values()), default=0.0)
    best = longest
    for round_number in range(400):
        loads = dict.fromkeys(kinds, 0.0)
        total = 0.0
        for row in durations.values():
            # The dual: each job goes where its weighted time is least.
            kind = min(kinds, key=lambda kind: row[kind] * weights[kind] / counts[kind])
            loads[kind] += row[kind] / counts[kind]
            total += row[kind] * weights[kind] / counts[kind]
        best = max(best, total / sum(weights.values()))
        most = max(loads.values()) or 1.0
        rate = 0.5 / math.sqrt(1 + round_number)
        for kind in kinds:
            weights[kind] *= math.exp(rate * loads[kind] / most)
        scale = sum(weights.values())
        weights = {kind: weight / scale for kind, weight in weights.items()}
    return best


def lines(result: Result, pool: Pool, more: Dict[str, float]) -> List[str]:
    """What is told of a simulation; `more` has the end with one more worker of a kind."""
    counts = {kind.name: kind.count for kind in pool.kinds}
    found = [
        "%s: %s"
        % (
            clock(result.seconds),
            ", ".join(
                "%d %s" % (count, name) for name, count in sorted(result.outcomes.items())
            ),
        )
    ]
    bound = least_seconds(result.durations, counts)
    if bound and math.isfinite(bound) and not any(kind.wall_seconds for kind in pool.kinds):
        found.append(
            "no schedule of the trials that are done ends before %s" % clock(bound)
        )
    found.append(
        "%-16s %7s %7s %7s %6s  %s"
        % ("workers", "count", "jobs", "lost", "busy", "with one more")
    )
    for kind in pool.kinds:
        used = result.used[kind.name]
        sooner = 1 - more[kind.name] / result.seconds if result.seconds else 0.0
        found.append(
            "%-16s %7d %7d %7d %5.0f%%  %s (%+.0f %%)"
            % (
                kind.name,
                kind.count,
                used.jobs,
                used.lost,
                100 * used.busy,
                clock(more[kind.name]),
                -100 * sooner,
            )
        )
    return found

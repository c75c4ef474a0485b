# ===- nearest.py - With what a trial would fit ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The least changes of a trial that needs more memory than any worker has: of one value of
its space each, by plans of the compiler.

    model.batch ∈ {8, 16, 32}, 32 needs 900 MiB of 700 → model.batch = 16
"""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from optimus.tune import TuneError, spaces
from optimus.tune.costs import Corrections, Values, planned_bytes
from optimus.tune.domains import Choice, Dependent, Exhaustive, Whole, text_of
from optimus.tune.study import Study, Trial

PARTS = ("model.", "compile.")
"""Names that a program follows from begin so."""


class Change(NamedTuple):
    name: str
    value: Any
    bytes: int
    """Of the process, then."""


def _room(study: Study, corrections: Corrections) -> int:
    """Bytes that a plan may have on the largest of all workers there were."""
    most = max((each["memory"] for each in study.classes.values()), default=0)
    return corrections.room(most)


def lacks_memory(trial: Trial, study: Study, corrections: Corrections) -> bool:
    """Whether it ended since none of the workers there were has enough."""
    prediction = trial.prediction or {"refusal": ""}
    return (
        trial.outcome in ("infeasible", "memory")
        and "refusal" not in prediction
        and bool(study.classes)
        and planned_bytes(prediction) > _room(study, corrections)
    )


def changes(
    space: spaces.Space,
    trial: Trial,
    study: Study,
    corrections: Corrections,
    predict: Callable[[Values], Dict[str, Any]],
) -> List[Change]:
    """Of each name the least one, and of these the least first; none where a name alone
    does not suffice."""
    found, room = [], _room(study, corrections)
    its = spaces.leaves(space, trial.space)
    for leaf in its:
        if not leaf.name.startswith(PARTS):
            continue
        before = trial.values[leaf.name]

        def planned(value: Any, name: str = leaf.name) -> Optional[int]:
            """None where it does not fit."""
            try:
                prediction = predict(_changed(its, trial.values, name, value))
            except TuneError:
                return None
            if "refusal" in prediction or planned_bytes(prediction) > room:
                return None
            return planned_bytes(prediction) + corrections.own_bytes

        for options in _options(leaf.domain, before):
            place = _first(options, lambda value: planned(value) is not None)
            if place is not None:
                value = options[place]
                change = Change(leaf.name, value, planned(value))
                found.append((_distance(before, value), leaf.name, change))
                break
    return [change for *_, change in sorted(found, key=lambda each: each[:2])]


def lines(found: List[Change]) -> List[str]:
    """As `explain` says them."""
    if not found:
        return ["no other value of one name alone would fit"]
    return [
        "would fit with %s = %s: %d MiB" % (each.name, text_of(each.value), each.bytes >> 20)
        for each in found
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _options(domain: Any, before: Any) -> List[Sequence[Any]]:
    """Values to try: smaller numbers, of which a program with less needs less, the nearest
    first; each of other ones by itself."""
    if isinstance(domain, Whole):
        return [range(domain.low, before, domain.step)[::-1]]
    if not isinstance(domain, (Choice, Exhaustive)):
        return []
    if all(map(_is_number, domain.options)):
        return [sorted((each for each in domain.options if each < before), reverse=True)]
    return [[each] for each in domain.options if each != before]


def _first(options: Sequence[Any], fits: Callable[[Any], bool]) -> Optional[int]:
    """The place of the first one that fits, where all behind it do."""
    bad, good = -1, len(options)
    while good - bad > 1:
        middle = (bad + good) // 2
        if fits(options[middle]):
            good = middle
        else:
            bad = middle
    return good if good < len(options) else None


def _changed(leaves: Sequence[spaces.Leaf], values: Values, name: str, value: Any) -> Values:
    """The values with one changed, and those that follow from it by formulas; of a table
    the row stays. Raises TuneError."""
    found = {**values, name: value}
    follow = [leaf for leaf in leaves if isinstance(leaf.domain, Dependent)]
    for _ in follow:
        for leaf in follow:
            if leaf.domain.table is None and leaf.name != name:
                found[leaf.name] = leaf.domain.formula.value(found)
    return found


def _distance(before: Any, value: Any) -> float:
    """Sizes stay where something else changes."""
    if not (_is_number(before) and _is_number(value)):
        return 0.0
    return math.log(before / value) if value > 0 else math.inf

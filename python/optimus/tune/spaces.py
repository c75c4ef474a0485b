# ===- spaces.py - Forests of spaces ---------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A space is a product of domains and of unions of spaces: one of several alternatives,
or one space or none.

    model.layers ∈ {1, 2}, exclusive family {gpt: …, llama: …}, optional drop {…}
    → spaces family=gpt drop=without, family=gpt drop=with, family=llama drop=without, …

There are exponentially many, so they are walked one at a time. A trial carries the
label of its space.
"""

import random
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from optimus.tune import TuneError
from optimus.tune.domains import Dependent

WITHOUT, WITH = "without", "with"


class Leaf(NamedTuple):
    name: str
    """As `train.lr`."""
    domain: Any
    line: int
    """Of the specification; 0 where it has none."""


class Union(NamedTuple):
    """Alternatives, of which a trial has one."""

    name: str
    alternatives: Dict[str, "Space"]
    line: int


class Space(NamedTuple):
    leaves: Tuple[Leaf, ...] = ()
    unions: Tuple[Union, ...] = ()


class Drawn(NamedTuple):
    """One point."""

    values: Dict[str, Any]
    space: str
    """Its label, as `family=gpt drop=with`; empty where there is one space."""


def draw(space: Space, chooser, label: Optional[str] = None) -> Drawn:
    """A point of a space, of the one with a label if there is one. Raises TuneError where
    a dependent value has none."""
    values: Dict[str, Any] = {}
    labels: List[str] = []
    later: List[Tuple[str, Leaf]] = []
    fixed = {} if label is None else choices(space, label)
    _draw(space, chooser, "", fixed, values, labels, later)
    _follow(chooser, values, later)
    return Drawn(values, " ".join(labels))


def _draw(space, chooser, path, fixed, values, labels, later) -> None:
    for leaf in space.leaves:
        if isinstance(leaf.domain, Dependent):
            later.append((path, leaf))
        else:
            # A name has another distribution in each space.
            values[leaf.name] = leaf.domain.draw(chooser, path + leaf.name)
    for union in space.unions:
        names = list(union.alternatives)
        chosen = fixed.get(path + union.name)
        if chosen is None:
            chosen = names[chooser.pick(path + union.name, names)]
        labels.append("%s=%s" % (union.name, chosen))
        inner = "%s%s=%s/" % (path, union.name, chosen)
        _draw(union.alternatives[chosen], chooser, inner, fixed, values, labels, later)


def _follow(chooser, values: Dict[str, Any], later: List[Tuple[str, Leaf]]) -> None:
    while later:
        ready = [
            (path, leaf)
            for path, leaf in later
            if all(name in values for name in leaf.domain.formula.names)
        ]
        if not ready:
            raise TuneError(
                "dependents without values: %s" % ", ".join(leaf.name for _, leaf in later)
            )
        for path, leaf in ready:
            values[leaf.name] = leaf.domain.value(chooser, path + leaf.name, values)
        later = [each for each in later if each not in ready]


def labels(space: Space) -> Iterator[str]:
    """The labels of all spaces, one at a time."""
    yield from _product(list(space.unions))


def _product(unions: List[Union]) -> Iterator[str]:
    if not unions:
        yield ""
        return
    first, *rest = unions
    for name, inner in first.alternatives.items():
        for own in _product(list(inner.unions)):
            for others in _product(rest):
                parts = ["%s=%s" % (first.name, name), own, others]
                yield " ".join(part for part in parts if part)


def _parts(space: Space, label: str) -> Iterator[Tuple[str, Space, Optional[Union], str]]:
    """The spaces within one with a label, the outer ones first: the path of the union
    around, the space, the union and the alternative in it."""
    rest = iter(label.split())

    def walk(space: Space, path: str):
        for union in space.unions:
            name, _, chosen = next(rest, "").partition("=")
            if name != union.name or chosen not in union.alternatives:
                raise TuneError("expected the label of a space, found '%s'" % label)
            inner = union.alternatives[chosen]
            yield path, inner, union, chosen
            yield from walk(inner, "%s%s=%s/" % (path, name, chosen))

    yield "", space, None, ""
    yield from walk(space, "")


def choices(space: Space, label: str) -> Dict[str, str]:
    """The picks of a chooser in the space with a label, by their names."""
    return {
        path + union.name: chosen for path, _, union, chosen in _parts(space, label) if union
    }


def share(space: Space, label: str) -> float:
    """Of even draws, that have this label."""
    found = 1.0
    for _, _, union, _ in _parts(space, label):
        found /= len(union.alternatives) if union else 1
    return found


def leaves(space: Space, label: str) -> List[Leaf]:
    """Of the space with a label."""
    return [leaf for _, inner, _, _ in _parts(space, label) for leaf in inner.leaves]


def draw_label(space: Space, draws: random.Random) -> str:
    """Of an even draw."""
    parts = []
    for union in space.unions:
        name = draws.choice(list(union.alternatives))
        inner = draw_label(union.alternatives[name], draws)
        parts += ["%s=%s" % (union.name, name), *filter(None, [inner])]
    return " ".join(parts)


def names(space: Space) -> Iterator[Leaf]:
    """All leaves, of all alternatives."""
    yield from space.leaves
    for union in space.unions:
        for inner in union.alternatives.values():
            yield from names(inner)


class Misplaced(TuneError):
    """A mistake, with the line of its leaf."""

    def __init__(self, message: str, line: int):
        super().__init__(message)
        self.line = line


def check(space: Space, around: Tuple[Leaf, ...] = ()) -> None:
    """Raises Misplaced for a name that is set twice, and for dependents of unknown
    names or of themselves."""
    from optimus.tune.names import suggestion

    visible = {leaf.name: leaf for leaf in around}
    for leaf in space.leaves:
        if leaf.name in visible:
            where = visible[leaf.name].line
            raise Misplaced("%s is set in line %d, too" % (leaf.name, where), leaf.line)
        visible[leaf.name] = leaf
    for leaf in space.leaves:
        if isinstance(leaf.domain, Dependent):
            for name in leaf.domain.formula.names:
                if name not in visible:
                    raise Misplaced(
                        "%s: expected a name of this space or of one around it, found %s%s"
                        % (leaf.name, name, suggestion(name, visible)),
                        leaf.line,
                    )
            _check_cycle(leaf, visible)
    for union in space.unions:
        for inner in union.alternatives.values():
            check(inner, tuple(visible.values()))


def _check_cycle(leaf: Leaf, visible: Dict[str, Leaf]) -> None:
    done: Set[str] = set()

    def visit(name: str, path: List[str]) -> None:
        if name in path:
            cycle = " ← ".join([*path[path.index(name) :], name])
            raise Misplaced("a cycle of dependents: %s" % cycle, visible[name].line)
        domain = visible[name].domain
        if name in done or not isinstance(domain, Dependent):
            return
        for next_name in domain.formula.names:
            if next_name in visible:
                visit(next_name, [*path, name])
        done.add(name)

    visit(leaf.name, [])

# ===- dehb.py - Brackets that evolve --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""DEHB, as Awad, Mallik and Hutter describe it (IJCAI 2021): Hyperband's brackets over
differential evolution in the unit cube, rand1_bin with F = CR = 0.5 and mutants from
the rung below. In the first round of brackets trials are promoted, later each rung has
new ones. Where the paper leaves something open, it is as in its authors' package, dehb:
a challenger has each coordinate of its mutant by chance, and the parents that a small
rung lacks are mutants of all rungs."""

import random
from typing import Dict, List, NamedTuple, Optional, Tuple

from optimus.tune.journal import Record
from optimus.tune.rungs import INFINITE, Bracket, Brackets
from optimus.tune.spec import Spec
from optimus.tune.study import Study


def dehb_sizes(rungs: int, factor: int, bracket: int) -> List[int]:
    above = rungs - 1 - bracket % rungs
    first = rungs // (above + 1) * factor**above
    return [max(1, first // factor**power) for power in range(above + 1)]


Vector = Dict[str, float]
"""By name, each between 0 and 1."""

PARENTS = 3
"""Of a mutant by rand1."""


class Individual(NamedTuple):
    vector: Vector
    fitness: float = INFINITE
    trial: Optional[int] = None


class Dehb(Brackets):
    """Each rung has a population; a new trial challenges one of it, its parent."""

    sizes = staticmethod(dehb_sizes)
    F, CR = 0.5, 0.5

    def __init__(self, spec: Spec, steps: int):
        super().__init__(spec, steps)
        rungs, factor = len(self.budgets), self.options.factor
        all_sizes = [dehb_sizes(rungs, factor, bracket) for bracket in range(rungs)]
        self._populations = [
            [
                Individual({})
                for _ in range(
                    max(
                        sizes[rung - (rungs - len(sizes))]
                        for sizes in all_sizes
                        if rung >= rungs - len(sizes)
                    )
                )
            ]
            for rung in range(rungs)
        ]
        self._turn = [0] * rungs
        self._parents: Dict[Tuple[int, int], int] = {}
        """By trial and rung, the place in the population."""
        self._vectors: Dict[int, Dict[str, float]] = {}

    def began(self, bracket: Bracket, trial: int, record: Record) -> None:
        rung = bracket.rung
        self._parents[trial, rung] = self._turn[rung]
        self._turn[rung] = (self._turn[rung] + 1) % len(self._populations[rung])
        if record["kind"] == "given":
            self._vectors[trial] = record["more"]["vector"]
        super().began(bracket, trial, record)

    def ended(self, bracket: Bracket, trial: int, value: float) -> None:
        rung = bracket.rung
        if trial in bracket.begun and trial not in bracket.results:
            place = self._parents[trial, rung]
            if value <= self._populations[rung][place].fitness:
                self._populations[rung][place] = Individual(
                    self._vectors[trial], value, trial
                )
        super().ended(bracket, trial, value)

    def job(self, number: int, bracket: Bracket, study: Study) -> Optional[Record]:
        if not bracket.has_room:
            return None
        if number < len(self.budgets) and bracket.place > 0:
            return self._promotion(number, bracket, study)
        # Below the first round every rung has trials of its own.
        return self.new(number, bracket) if self.left > 0 else None

    def _promotion(self, number: int, bracket: Bracket, study: Study) -> Optional[Record]:
        """The best of the rung below that this rung's population has not."""
        there = {each.trial for each in self._populations[bracket.rung]} | set(
            bracket.begun
        )
        below = [
            each for each in self._populations[bracket.rung - 1] if each.fitness < INFINITE
        ]
        for each in sorted(below, key=lambda each: (each.fitness, each.trial)):
            if (
                each.trial in there
                or study.trials[each.trial].end
                or study.trials[each.trial].running
            ):
                continue
            return {
                "trial": each.trial,
                "until": self.until(bracket.rung),
                "bracket": number,
            }
        return None

    def new(self, number: int, bracket: Bracket) -> Record:
        rung = bracket.rung
        draw = random.Random("%d/dehb/%d" % (self.seed, len(self._vectors)))
        target = self._populations[rung][self._turn[rung]]
        vector: Dict[str, float] = {}
        if number > 0:
            vector = self._evolved(target, bracket, draw)
        return {"more": {"bracket": number, "rung": rung, "vector": vector}}

    def _evolved(
        self, target: Individual, bracket: Bracket, draw: random.Random
    ) -> Vector:
        """Nothing while there are too few parents."""
        lower = max(bracket.rung - 1, bracket.first_rung)
        best = sorted(
            (each for each in self._populations[lower] if each.vector),
            key=lambda each: each.fitness,
        )
        pool = [each.vector for each in best[: bracket.sizes[bracket.place]]]
        everyone = [
            each.vector for population in self._populations for each in population
        ]
        everyone = [vector for vector in everyone if vector]
        if len(everyone) < PARENTS:
            return {}
        if len(pool) < PARENTS:
            pool += [
                mutant(parents(everyone, target.vector, draw), self.F, draw)
                for _ in range(PARENTS + 1 - len(pool))
            ]
        changed = mutant(parents(pool, target.vector, draw), self.F, draw)
        return crossed(target.vector, changed, self.CR, draw)


def parents(pool: List[Vector], target: Vector, draw: random.Random) -> List[Vector]:
    """Three of a pool, none of which is the target; random ones where it has fewer."""
    others = [vector for vector in pool if vector != target]
    return draw.sample(others + [{}] * max(0, PARENTS - len(others)), PARENTS)


def mutant(three: List[Vector], scale: float, draw: random.Random) -> Vector:
    """By rand1, perhaps beyond the cube."""
    one, two, other = three
    names = sorted(one) or sorted({*two, *other})
    return {
        name: _of(one, name, draw)
        + scale * (_of(two, name, draw) - _of(other, name, draw))
        for name in names
    }


def crossed(target: Vector, changed: Vector, rate: float, draw: random.Random) -> Vector:
    """Of two vectors by bin: at least one coordinate is of the mutant. One out of range
    is drawn anew, as is one that the target's space has not."""
    names = sorted({*target, *changed})
    taken = {name for name in names if draw.random() < rate}
    if names and not taken:
        taken = {draw.choice(names)}
    found = {}
    for name in names:
        value = _of(changed if name in taken else target, name, draw)
        found[name] = value if 0 <= value <= 1 else draw.random()
    return found


def _of(vector: Vector, name: str, draw: random.Random) -> float:
    return vector[name] if name in vector else draw.random()

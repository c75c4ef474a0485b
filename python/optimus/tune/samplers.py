# ===- samplers.py - Who chooses points ------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Samplers give points and are told what came of them. The random one needs the
standard library alone; a point of it depends on the seed and on the trial's number."""

import random
from typing import Any, Dict, List, Optional

from optimus.tune import TuneError, names
from optimus.tune.spaces import Drawn, Space, draw


class RandomChooser:
    """Draws independently. Each name has a generator of its own, so that another leaf
    in the specification changes no other value."""

    def __init__(self, seed: int, number: int):
        self._key = "%d/%d" % (seed, number)
        self._turns = number

    def _random(self, name: str) -> random.Random:
        return random.Random("%s/%s" % (self._key, name))

    def real(self, name: str, low: float, high: float, is_log: bool) -> float:
        share = self._random(name).random()
        if is_log:
            return low * (high / low) ** share
        return low + (high - low) * share

    def whole(self, name: str, low: int, high: int, step: int) -> int:
        return low + step * self._random(name).randrange((high - low) // step + 1)

    def pick(self, name: str, options: List[Any]) -> int:
        return self._random(name).randrange(len(options))

    def quantile(self, name: str) -> float:
        return max(self._random(name).random(), 1e-12)

    def turn(self, _name: str, count: int) -> int:
        """Trials go round all combinations."""
        index = self._turns % count
        self._turns //= count
        return index


class RandomSampler:
    learns = False
    """Whether points follow from what came of those before."""

    def __init__(self, space: Space, seed: int):
        self._space, self._seed = space, seed

    def ask(
        self, number: int, _more: Dict[str, Any], label: Optional[str] = None
    ) -> Drawn:
        """The point of a trial, of which the rungs keep `more`; of the space with a label
        if there is one."""
        return draw(self._space, RandomChooser(self._seed, number), label)

    def given(self, trial) -> None:
        """One that the journal has."""

    def tell(self, trial) -> None:
        """What came of one; nothing follows from it."""

    def begin_copy(self, folder: str) -> None:
        """For dashboards; there is none."""

    def close(self) -> None:
        """The end of a run."""


class UnitChooser:
    """Maps a vector of the unit cube; a coordinate that it lacks is random. `used` are
    those that a point has."""

    def __init__(self, seed: int, number: int, vector: Dict[str, float]):
        self._vector, self.used = vector, {}
        self._key = "%d/%d" % (seed, number)

    def _share(self, name: str) -> float:
        share = self._vector.get(name)
        if share is None:
            share = random.Random("%s/%s" % (self._key, name)).random()
        self.used[name] = share
        return min(share, 1 - 1e-12)

    def real(self, name: str, low: float, high: float, is_log: bool) -> float:
        share = self._share(name)
        return low * (high / low) ** share if is_log else low + (high - low) * share

    def whole(self, name: str, low: int, high: int, step: int) -> int:
        return low + step * int(self._share(name) * ((high - low) // step + 1))

    def pick(self, name: str, options: List[Any]) -> int:
        return int(self._share(name) * len(options))

    def quantile(self, name: str) -> float:
        return max(self._share(name), 1e-12)

    def turn(self, name: str, count: int) -> int:
        return int(self._share(name) * count)


class UnitSampler(RandomSampler):
    """Points that the rungs choose, as vectors."""

    learns = True

    def ask(
        self, number: int, more: Dict[str, Any], _label: Optional[str] = None
    ) -> Drawn:
        chooser = UnitChooser(self._seed, number, more["vector"])
        drawn = draw(self._space, chooser)
        more["vector"] = chooser.used
        return drawn


def make_sampler(spec):
    """The one that a specification names. Raises TuneError."""
    name = spec.study.sampler
    if spec.study.rungs and spec.study.rungs.method == "dehb":
        if name != "random":
            raise TuneError(
                "sampler: expected none beside the rungs of DEHB, which choose "
                "points themselves, found %s" % name
            )
        return UnitSampler(spec.space, spec.study.seed)
    if name == "random":
        return RandomSampler(spec.space, spec.study.seed)
    # Optuna takes a second to load.
    from optimus.tune import optuna_sampler

    if name not in optuna_sampler.SAMPLERS:
        known = ["random", *optuna_sampler.SAMPLERS]
        raise TuneError(
            "sampler: expected one of %s, found %s%s"
            % (", ".join(known), name, names.suggestion(name, known))
        )
    return optuna_sampler.OptunaSampler(spec)

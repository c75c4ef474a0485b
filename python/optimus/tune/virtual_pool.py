# ===- virtual_pool.py - Workers that need not be here ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A pool for the simulator: classes of workers, read from a TOML file."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from optimus.tune import TuneError, machine, toml_file
from optimus.tune.costs import SECONDS, STRAIGHT, Bend, Corrections, step_ms
from optimus.tune.journal import Record
from optimus.tune.kept import Kept
from optimus.tune.machine import Class
from optimus.tune.study import Trial


class Kind(NamedTuple):
    """Workers of a pool that are equal."""

    name: str
    count: int
    of: Class
    slower: Dict[str, float]
    """A step's time over its prediction, by kind of model or type; "" for all others."""
    overhead: float
    """Seconds of a job beside steps and the making of programs."""
    wall_seconds: Optional[float]
    making: float = 0.0
    """Seconds of building and compiling a program, once for its instructions."""
    bend: Bend = STRAIGHT

    def step_ms(self, trial: Trial) -> float:
        predicted = step_ms(trial.prediction, self.of.key)
        return predicted * self.ratio(trial) * self.bend.at(predicted)

    def ratio(self, trial: Trial) -> float:
        """Of a step over its prediction there."""
        precision = trial.values.get("compile.precision", "f32")
        whole = self.slower.get(trial.model)
        return self.slower.get(precision, self.slower[""]) if whole is None else whole


class Pool(NamedTuple):
    kinds: List[Kind]
    noise: float = 0.05
    """Deviation of a job's time, of its logarithm."""
    losses: float = 0.0
    """Share of jobs that end without a result."""
    seed: int = 0
    predicting: float = 0.0
    """Seconds of predicting a trial, one after the other."""
    profiles: Mapping[str, str] = {}
    """Files by the processors that they are of."""

    def with_one_more(self, name: str) -> "Pool":
        kinds = [
            kind._replace(count=kind.count + (kind.name == name)) for kind in self.kinds
        ]
        return self._replace(kinds=kinds)


DEFAULTS = {
    "name": None,
    "count": 1,
    "cores": 1.0,
    "memory_mib": None,
    "instructions": "avx512f",
    "slower": None,
    "overhead": None,
    "making": None,
    "wall_seconds": None,
    "here": False,
}


def read_pool(path: str, cache: str) -> Pool:
    """A TOML file of [[worker]] tables with name, count, cores, memory_mib, instructions,
    slower, overhead, making, wall_seconds and here, and of noise, losses, seed and predicting. `cache`
    has times of earlier searches on workers that are `here`. Raises TuneError."""
    _, found = toml_file.read(path)
    for key in found:
        if key not in ("worker", "noise", "losses", "seed", "predicting"):
            raise TuneError(
                "%s: expected worker, noise, losses, seed or predicting, found %s"
                % (path, key)
            )
    rows = found.pop("worker", [])
    kinds = [_kind(path, row) for row in rows]
    if not kinds or len({kind.name for kind in kinds}) < len(kinds):
        raise TuneError(
            "%s: expected [[worker]] tables of different names, found %s"
            % (path, ", ".join(kind.name for kind in kinds) or "none")
        )
    kept, profiles = Kept(sum(kind.count for kind in kinds) - 1, cache), {}
    kinds = [
        _known(path, kind, kept, profiles) if row.get("here") else kind
        for row, kind in zip(rows, kinds)
    ]
    pool = Pool(kinds, profiles=profiles, **found)
    if not 0 <= pool.losses < 1 or not 0 <= pool.noise < 10:
        raise TuneError(
            "%s: expected noise of at least 0 and losses from 0 to below 1" % path
        )
    return pool


def _kind(path: str, row: Dict[str, Any]) -> Kind:
    for key in row:
        if key not in DEFAULTS:
            raise TuneError(
                "%s: worker: expected one of %s, found %s"
                % (path, ", ".join(DEFAULTS), key)
            )
    found = {**DEFAULTS, **row}
    for key in ("name", "memory_mib"):
        if found[key] is None:
            raise TuneError("%s: worker: expected %s, found none" % (path, key))
    for key in ("count", "cores", "memory_mib"):
        if not isinstance(found[key], (int, float)) or not found[key] > 0:
            raise TuneError(
                "%s: worker %s: expected %s above 0, found %s"
                % (path, found["name"], key, found[key])
            )
    its_class = Class(
        float(found["cores"]),
        int(found["memory_mib"] * 2**20),
        found["instructions"],
        found["name"],
    )
    part = min(1.0, its_class.cores)
    for key, name in (("overhead", "other_seconds"), ("making", "making_seconds")):
        found[key] = SECONDS[name] / part if found[key] is None else found[key]
    slower = found["slower"]
    if not isinstance(slower, dict):
        slower = {"": slower or 1 / its_class.cores}
    slower.setdefault("", 1 / its_class.cores)
    return Kind(
        found["name"],
        int(found["count"]),
        its_class,
        slower,
        found["overhead"],
        found["wall_seconds"],
        found["making"],
    )


def _known(path: str, kind: Kind, kept: Kept, profiles: Dict[str, str]) -> Kind:
    """One of this processor, by what a search kept of it. Adds its profile."""
    its = kind.of._replace(processor=machine.describe().processor)
    taken, profile = kept.taken(its), kept.profile(its)
    if not taken:
        raise TuneError(
            "%s: worker %s: here: expected what an earlier search kept of %s, found nothing "
            "in %s; run one on such workers" % (path, kind.name, its.key, kept.folder)
        )
    if profile:
        profiles[its.profile] = profile
    return known_kind(kind, its, taken, is_profiled=bool(profile))


def known_kind(kind: Kind, its: Class, taken: Record, is_profiled: bool) -> Kind:
    """Workers of a class, as fast as what was kept of it says; `is_profiled` where steps
    are predicted by the profile of its processor."""
    corrections = Corrections()
    corrections.recall(its.key, taken)
    models = ["", *sorted({model for _, model, *_ in taken["rates"]})]
    terms = {model: corrections.terms(its.key, model, its._asdict()) for model in models}
    rates = {
        model: each.profiled if is_profiled else each.plain for model, each in terms.items()
    }
    return kind._replace(
        of=its,
        slower={model: ratio for model, (ratio, _) in rates.items()},
        overhead=terms[""].other,
        making=terms[""].making,
        bend=rates[""][1],
    )

# ===- virtual_pool.py - Workers that need not be here ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A pool for the simulator: classes of workers, read from a TOML file."""

from typing import Any, Container, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimus.tune import TuneError, machine, toml_file
from optimus.tune.costs import SECONDS, STRAIGHT, Bend, Corrections, mebibytes, step_ms
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
    """Seconds of a job beside steps and the making of programs, at the growth's reference."""
    wall_seconds: Optional[float]
    making: float = 0.0
    """Seconds of building and compiling a program, once for its instructions."""
    bend: Bend = STRAIGHT
    growth: Bend = STRAIGHT
    """Of the overhead, by planned MiB."""

    def overhead_of(self, trial: Trial) -> float:
        return self.overhead * self.growth.at(mebibytes(trial.prediction))

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
    kept = Kept(sum(kind.count for kind in kinds) - 1, cache)
    here = [
        _known(path, kind, kept) for row, kind in zip(rows, kinds) if row.get("here")
    ]
    profiles = {its.profile: kept.profile(its) for its in (kind.of for kind, _ in here)}
    profiles = {name: file for name, file in profiles.items() if file}
    known = {
        kind.name: kind
        for kind in known_kinds(
            [kind for kind, _ in here],
            {kind.of.key: taken for kind, taken in here},
            profiles,
        )
    }
    pool = Pool(
        [known.get(kind.name, kind) for kind in kinds], profiles=profiles, **found
    )
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


def _known(path: str, kind: Kind, kept: Kept) -> Tuple[Kind, Record]:
    """One of this processor, and what a search kept of it."""
    its = kind.of._replace(processor=machine.describe().processor)
    taken = kept.taken(its)
    if not taken:
        raise TuneError(
            "%s: worker %s: here: expected what an earlier search kept of %s, found nothing "
            "in %s; run one on such workers" % (path, kind.name, its.key, kept.folder)
        )
    return kind._replace(of=its), taken


def known_kinds(
    kinds: Sequence[Kind], taken: Mapping[str, Record], profiled: Container[str]
) -> List[Kind]:
    """Workers as fast as what searches kept of their classes says, `taken` by key. What was
    kept of none of a class's models follows from the others, as in a search. Steps are
    predicted by the profiles of the processors in `profiled`."""
    corrections = Corrections()
    for key, each in taken.items():
        corrections.recall(key, each)
    models = sorted({"", *(model for each in taken.values() for _, model, *_ in each["rates"])})
    found = []
    for kind in kinds:
        its = kind.of
        terms = {model: corrections.terms(its.key, model, its._asdict()) for model in models}
        rates = {
            model: each.profiled if its.profile in profiled else each.plain
            for model, each in terms.items()
        }
        found.append(
            kind._replace(
                slower={model: ratio for model, (ratio, _) in rates.items()},
                overhead=terms[""].other[0],
                growth=terms[""].other[1],
                making=terms[""].making,
                bend=rates[""][1],
            )
        )
    return found

# ===- virtual_pool.py - Workers that need not be here ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A pool for the simulator: classes of workers, read from a TOML file."""

from typing import Any, Dict, List, NamedTuple, Optional

from optimus.tune import TuneError, toml_file
from optimus.tune.machine import Class


class Kind(NamedTuple):
    """Workers of a pool that are equal."""

    name: str
    count: int
    of: Class
    slower: Dict[str, float]
    """A step's time over its prediction, by type; "" for all others."""
    overhead: float
    """Seconds of a job beside steps."""
    wall_seconds: Optional[float]

    def ratio(self, values: Dict[str, Any]) -> float:
        return self.slower.get(values.get("compile.precision", "f32"), self.slower[""])


class Pool(NamedTuple):
    kinds: List[Kind]
    noise: float = 0.05
    """Deviation of a job's time, of its logarithm."""
    losses: float = 0.0
    """Share of jobs that end without a result."""
    seed: int = 0

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
    "overhead": 0.5,
    "wall_seconds": None,
}


def read_pool(path: str) -> Pool:
    """A TOML file of [[worker]] tables with name, count, cores, memory_mib, instructions,
    slower, overhead and wall_seconds, and of noise, losses and seed. Raises TuneError."""
    _, found = toml_file.read(path)
    for key in found:
        if key not in ("worker", "noise", "losses", "seed"):
            raise TuneError(
                "%s: expected worker, noise, losses or seed, found %s" % (path, key)
            )
    kinds = [_kind(path, row) for row in found.pop("worker", [])]
    if not kinds or len({kind.name for kind in kinds}) < len(kinds):
        raise TuneError(
            "%s: expected [[worker]] tables of different names, found %s"
            % (path, ", ".join(kind.name for kind in kinds) or "none")
        )
    pool = Pool(kinds, **found)
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
    )

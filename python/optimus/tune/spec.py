# ===- spec.py - What a search is told -------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the specification of a search, a TOML file, or a Python file with such tables:

    [study]                           # all have defaults
    trials = 20
    objectives = ["eval_loss"]

    [model]                           # flags of optimus.models, name is the model
    name = "gpt2"
    layers = { randint = [1, 3] }

    [pool]
    lanes = "auto"                    # trials of a program side by side; a number, or "off"

    [compile]                         # flags of optimus-compile
    [train]                           # flags of optimus-run train
    data = "corpus.txt"               # paths are relative to the file's folder
    lr = { log-uniform = [1e-4, 1e-2] }

    [exclusive.NAME.ALTERNATIVE.model]   # one alternative of NAME, a space of its own
    [optional.NAME.train]                # a space with or without

A mistake is one message, with its line and the nearest name.
"""

import hashlib
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from optimus.tune import TuneError, domains, names, packing, python_file, spaces, toml_file
from optimus.tune.spaces import WITH, WITHOUT, Leaf, Space, Union

GROUPS = ("model", "compile", "train")
MEASURED = ("eval_loss", "loss", "seconds", "peak_bytes")
"""Objectives from a trial's log."""
PREDICTED = ("step_ms", "rank_bytes")
"""Objectives that optimus-compile knows before a trial runs, of its own machine or, as in
step_ms@h100x8, of another one."""
METHODS = ("asha", "hyperband", "dehb")


class Rungs(NamedTuple):
    """How trials are stopped early and go on, as `rungs.py` does it."""

    method: str
    least: int
    """Steps of the lowest rung."""
    factor: int = 3
    """Between two rungs, η."""
    seconds: Optional[float] = None
    """The longest that a rung waits for a job of its bracket."""


class Study(NamedTuple):
    """The table [study]."""

    trials: int = 20
    seed: int = 0
    sampler: str = "random"
    objectives: Tuple[str, ...] = ("eval_loss",)
    hours: Optional[float] = None
    """When no more trials begin."""
    steps: Optional[int] = None
    """Of all trials together, as the two that follow."""
    tokens: Optional[int] = None
    device_seconds: Optional[float] = None
    """Of attempts, times the ranks of each."""
    keep: str = "best"
    """Which checkpoints stay: best or all."""
    rungs: Optional[Rungs] = None


class Spec(NamedTuple):
    path: str
    folder: str
    """To which the paths in it are relative."""
    digest: str
    """Of all that it says."""
    study: Study
    space: Space
    lanes: packing.Lanes = packing.OFF
    """How many trials of one program a worker may have at a time (packing.py)."""


class SpecError(TuneError):
    """A mistake in a specification, as `FILE:LINE: message`."""


def read(path: str) -> Spec:
    """Raises SpecError."""
    if path.endswith(".py"):
        lines, found = python_file.read(path, SpecError)
    else:
        text, found = toml_file.read(path, SpecError)
        lines = lines_of(text)
    folder = os.path.dirname(os.path.abspath(path))
    digest = hashlib.sha256(repr(found).encode()).hexdigest()
    return _Reader(path, lines).spec(found, folder, digest)


def lines_of(text: str) -> Dict[Tuple[str, ...], int]:
    """The line of each table and key, as far as lines alone tell."""
    part = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
    path = r"%s(?:\s*\.\s*%s)*" % (part, part)
    found: Dict[Tuple[str, ...], int] = {}
    table: Tuple[str, ...] = ()

    def parts(text: str) -> Tuple[str, ...]:
        return tuple(each.strip("\"'") for each in re.findall(part, text))

    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*(%s)\s*\]" % path, line)
        key = re.match(r"\s*(%s)\s*=" % path, line)
        if header:
            table = parts(header[1])
            for depth in range(1, len(table) + 1):
                found.setdefault(table[:depth], number)
        elif key:
            found.setdefault((*table, *parts(key[1])), number)
    return found


class _Reader:
    def __init__(self, path: str, lines: Dict[Tuple[str, ...], int]):
        self._path, self._lines = path, lines

    def spec(self, found: Dict[str, Any], folder: str, digest: str) -> Spec:
        study = self._study(found.pop("study", {}))
        lanes = self._lanes_of(found.pop("pool", {}))
        space = self._space(found, ())
        try:
            spaces.check(space)
        except spaces.Misplaced as error:
            raise self._error(error.line, str(error)) from None
        self._check_objectives(study, space)
        return Spec(self._path, folder, digest, study, space, lanes)

    def _error(self, where: Any, message: object) -> SpecError:
        line = where if isinstance(where, int) else self._line(where)
        return SpecError("%s:%d: %s" % (self._path, line, message))

    def _line(self, path: Tuple[str, ...]) -> int:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _table(self, found: Any, path: Tuple[str, ...]) -> Dict[str, Any]:
        if not isinstance(found, dict):
            raise self._error(
                path, "%s: expected a table, found %s" % (".".join(path), found)
            )
        return found

    def _space(self, found: Dict[str, Any], path: Tuple[str, ...]) -> Space:
        leaves: List[Leaf] = []
        unions: List[Union] = []
        for name, inner in found.items():
            here = (*path, name)
            inner = self._table(inner, here)
            if name in GROUPS:
                leaves += self._leaves(name, inner, here)
            elif name == "exclusive":
                unions += [self._union(each, inner[each], (*here, each)) for each in inner]
            elif name == "optional":
                unions += [
                    self._optional(each, inner[each], (*here, each)) for each in inner
                ]
            else:
                known = [*GROUPS, "exclusive", "optional", *([] if path else ["study", "pool"])]
                raise self._error(
                    here,
                    "expected one of the tables %s, found %s%s"
                    % (", ".join(known), name, names.suggestion(name, known)),
                )
        return Space(tuple(leaves), tuple(unions))

    def _leaves(
        self, group: str, found: Dict[str, Any], path: Tuple[str, ...]
    ) -> List[Leaf]:
        leaves = []
        for flag, inner in found.items():
            name, here = "%s.%s" % (group, flag), (*path, flag)
            try:
                names.check(name)
            except TuneError as error:
                raise self._error(here, error) from None
            try:
                domain = domains.parse(inner)
            except TuneError as error:
                raise self._error(here, "%s: %s" % (name, error)) from None
            leaves.append(Leaf(name, domain, self._line(here)))
        return leaves

    def _union(self, name: str, found: Any, path: Tuple[str, ...]) -> Union:
        found = self._table(found, path)
        if not found:
            raise self._error(
                path, "exclusive %s: expected alternatives, found none" % name
            )
        self._check_label(name, path)
        spaces = {}
        for each, inner in found.items():
            self._check_label(each, (*path, each))
            spaces[each] = self._space(self._table(inner, (*path, each)), (*path, each))
        return Union(name, spaces, self._line(path))

    def _optional(self, name: str, found: Any, path: Tuple[str, ...]) -> Union:
        self._check_label(name, path)
        inner = self._space(self._table(found, path), path)
        return Union(name, {WITHOUT: Space(), WITH: inner}, self._line(path))

    def _check_label(self, name: str, path: Tuple[str, ...]) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise self._error(
                path, "expected a name of letters, digits, _ . and -, found '%s'" % name
            )

    def _study(self, found: Any) -> Study:
        found = dict(self._table(found, ("study",)))
        for name in found:
            if name not in Study._fields:
                raise self._error(
                    ("study", name),
                    "study.%s: expected one of %s%s"
                    % (
                        name,
                        ", ".join(Study._fields),
                        names.suggestion(name, Study._fields),
                    ),
                )
        study = Study()._replace(**found)
        self._check_whole("trials", study.trials, 1)
        self._check_whole("seed", study.seed, 0)
        for name in ("steps", "tokens"):
            if getattr(study, name) is not None:
                self._check_whole(name, getattr(study, name), 1)
        for name in ("hours", "device_seconds"):
            value = getattr(study, name)
            if value is not None and not self._is_positive(value):
                raise self._error(
                    ("study", name),
                    "study.%s: expected a number above 0, found %s" % (name, value),
                )
        self._check_word("keep", study.keep, ("best", "all"))
        return study._replace(
            objectives=self._objectives(study.objectives), rungs=self._rungs(study.rungs)
        )

    def _lanes_of(self, found: Any) -> packing.Lanes:
        for name in self._table(found, ("pool",)):
            if name != "lanes":
                raise self._error(("pool", name), "pool.%s: expected lanes" % name)
        lanes = found.get("lanes", packing.OFF)
        is_number = isinstance(lanes, int) and not isinstance(lanes, bool)
        if lanes in (packing.AUTO, packing.OFF) or (
            is_number and 2 <= lanes <= packing.MOST
        ):
            return lanes
        raise self._error(
            ("pool", "lanes"),
            "pool.lanes: expected %s, %s or a number from 2 to %d, found %s"
            % (packing.AUTO, packing.OFF, packing.MOST, lanes),
        )

    @staticmethod
    def _is_positive(value: Any) -> bool:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 < value < 1e9
        )

    def _check_whole(self, name: str, value: Any, least: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            path = ("study", *name.split("."))
            raise self._error(
                path,
                "study.%s: expected a whole number of at least %d, found %s"
                % (name, least, value),
            )

    def _check_word(self, name: str, value: Any, words: Tuple[str, ...]) -> None:
        if value not in words:
            path = ("study", *name.split("."))
            raise self._error(
                path,
                "study.%s: expected %s, found %s%s"
                % (name, " or ".join(words), value, names.suggestion(str(value), words)),
            )

    def _objectives(self, found: Any) -> Tuple[str, ...]:
        if isinstance(found, str):
            found = [found]
        if not isinstance(found, (list, tuple)) or not found:
            raise self._error(
                ("study", "objectives"),
                "study.objectives: expected a list of names, found %s" % (found,),
            )
        for each in found:
            word, _, machine = str(each).partition("@")
            known = PREDICTED if machine else (*MEASURED, *PREDICTED)
            self._check_word("objectives", word if machine else each, known)
        return tuple(found)

    def _rungs(self, found: Any) -> Optional[Rungs]:
        if found is None:
            return None
        found = dict(self._table(found, ("study", "rungs")))
        for name in found:
            if name not in Rungs._fields:
                raise self._error(
                    ("study", "rungs", name),
                    "study.rungs.%s: expected one of %s%s"
                    % (
                        name,
                        ", ".join(Rungs._fields),
                        names.suggestion(name, Rungs._fields),
                    ),
                )
        rungs = Rungs(found.pop("method", None), found.pop("least", None), **found)
        self._check_word("rungs.method", rungs.method, METHODS)
        self._check_whole("rungs.least", rungs.least, 1)
        self._check_whole("rungs.factor", rungs.factor, 2)
        if rungs.seconds is not None and not self._is_positive(rungs.seconds):
            raise self._error(
                ("study", "rungs", "seconds"),
                "study.rungs.seconds: expected a number above 0, found %s" % rungs.seconds,
            )
        return rungs

    def _check_objectives(self, study: Study, space: Space) -> None:
        leaves = {leaf.name: leaf for leaf in spaces.names(space)}
        for name in ("model.name", "train.data", "train.steps"):
            if name not in leaves:
                raise self._error(1, "expected %s, found none" % name)
        if "eval_loss" in study.objectives and "train.eval-data" not in leaves:
            raise self._error(
                ("study", "objectives"),
                "the objective eval_loss needs train.eval-data, found none; loss is that of the last step",
            )
        if study.rungs and not isinstance(leaves["train.steps"].domain, domains.Fixed):
            raise self._error(
                leaves["train.steps"].line,
                "study.rungs needs one number of train.steps, the highest rung",
            )
        if study.rungs and leaves["train.steps"].domain.value <= study.rungs.least:
            raise self._error(
                ("study", "rungs", "least"),
                "study.rungs.least: expected fewer steps than train.steps, %s, found %d"
                % (leaves["train.steps"].domain.value, study.rungs.least),
            )

# ===- predictor.py - What the compiler says of trials ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Asks the compiler for bytes and steps of trials before they run: by its own prices, by
the profiles of measured processors, and for machines that objectives name.

What a worker would build first, the text of the model, is there by then, and is kept for
it."""

import os
import threading
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from optimus.arguments import Mistake
from optimus.models.__main__ import program
from optimus.planning import Fault, Requests, Said, plan, plan_text
from optimus.tune import TuneError, names
from optimus.tune.costs import Values, ranks_of

OWN_PRICES = {
    *("compile.machine-profile", "compile.profile", "compile.tune-products"),
    *("compile.target", "compile.offload", "compile.sync"),
}
"""Names of programs that are priced as they say."""
FOR_A_MACHINE = {
    *("compile.machine-profile", "compile.profile", "compile.mcpu", "compile.target"),
}
"""Names without which a program is planned for another machine."""
GIVING_WAY = 19
"""The niceness of compilers: trials come first."""
PROBE = "--layers=1 --hidden=8 --heads=1 --seq=8 --vocab=8 --batch=1"
TEXTS = 4
"""Of models, which are at hand."""


class Predictor:
    """Asks the compiler, once for a program that it knows; from several threads."""

    def __init__(
        self,
        folder: str,
        niceness: Callable[[], int] = lambda: GIVING_WAY,
        profiles: Callable[[], Mapping[str, str]] = dict,
        objectives: Sequence[str] = (),
        keep: Callable[[List[str], str], None] = lambda _model, _text: None,
    ):
        """`niceness` is that of compilers, `profiles` are the files of measured
        processors, by their names. Objectives such as step_ms@h100x8 are
        predicted, too. `keep` is given the text of each model. Raises TuneError for unknown
        machines."""
        self._folder, self._niceness, self._profiles = folder, niceness, profiles
        self._idle: List[Requests] = []
        """Compilers that answer nobody."""
        self._keep = keep
        self._texts: "OrderedDict[Tuple[str, ...], str]" = OrderedDict()
        self._building = threading.Lock()
        self._wanted = [name for name in objectives if "@" in name]
        self._known: Dict[Tuple[str, ...], Dict[str, Any]] = {}
        for name in self._wanted:
            machine = name.partition("@")[2]
            probe = ["gpt2", *PROBE.split()]
            found = plan(probe, flags_for(machine, {}), self._call)
            if not found.report:
                raise TuneError("the objective %s: %s" % (name, found.reason))

    def predict(self, values: Values) -> Dict[str, Any]:
        """`rank_bytes`, `ranks`, `step_ms` and the `tokens` of a step, of a trial's
        program, or its `refusal`; and `by_profile` the step on measured processors."""
        model = names.arguments(values, "model")
        flags = names.arguments(values, "compile")
        profiles = {} if OWN_PRICES & values.keys() else self._profiles()
        found = dict(self._known_plan(model, flags, profiles))
        steps, _ = found.pop("by_kind", {}), found.pop("needs", "")
        by_profile = found.pop("by_profile", {})
        if "refusal" not in found:
            microbatches = int(values.get("train.microbatches", 1))
            found["step_ms"] = _step_ms(steps, microbatches)
            found["tokens"] *= microbatches
            if by_profile:
                found["by_profile"] = {
                    name: _step_ms(kinds, microbatches)
                    for name, kinds in by_profile.items()
                }
        for name in self._wanted if "refusal" not in found else ():
            kind, _, machine = name.partition("@")
            there = self._known_plan(model, flags_for(machine, values))
            if "refusal" in there:
                return {"refusal": "%s: %s" % (machine, there["refusal"])}
            if there["needs"]:
                return {"refusal": "%s: %s" % (machine, there["needs"])}
            found[name] = (
                _step_ms(there["by_kind"], int(values.get("train.microbatches", 1)))
                if kind == "step_ms"
                else there[kind]
            )
        return found

    def _known_plan(
        self, model: List[str], flags: List[str], profiles: Mapping[str, str] = {}
    ) -> Dict[str, Any]:
        """The program that trains is planned without a profile; one plan has its prices by
        all."""
        key = (*model, "--", *flags, "--", *sorted(profiles))
        if key not in self._known:
            self._known[key] = self._plan(model, flags, profiles)
        return self._known[key]

    def _plan(
        self, model: List[str], flags: List[str], profiles: Mapping[str, str]
    ) -> Dict[str, Any]:
        flags = flags + ["--also-price=" + path for path in profiles.values()]
        try:
            found = plan_text(self._text(model), flags, self._call)
        except Mistake as mistake:
            return {"refusal": str(mistake).partition("\n")[0]}
        except Fault as fault:
            return {"refusal": str(fault)}
        if not found.report:
            return {"refusal": found.reason}
        functions = found.report["schedule"].values()
        kinds = {each["kind"]: each["predicted_step_ms"] for each in functions}
        by_profile = {
            name: {each["kind"]: each["also_priced_ms"][path] for each in functions}
            for name, path in profiles.items()
        }
        ranks = ranks_of(found.report.get("mesh") or "")
        sizes = found.report["model"]
        limit = found.limit
        needs = "" if found.fits else "a rank needs %d MiB, %s has %d" % (
            found.report["rank_bytes"] >> 20,
            limit["of"],
            limit["bytes"] >> 20,
        )
        return {
            "rank_bytes": found.report["rank_bytes"],
            "needs": needs,
            "ranks": ranks,
            "tokens": sizes["batch"] * sizes["sequence"],
            "by_kind": kinds,
            "by_profile": by_profile,
            **(_lane_bytes(found.report["memory"]) if ranks == 1 else {}),
        }

    def _call(self, arguments: List[str], text: str) -> Said:
        """Of a compiler, from any thread."""
        try:
            requests = self._idle.pop()
        except IndexError:
            requests = Requests(self._folder)
        try:
            return requests.call(arguments, text, self._niceness())
        finally:
            self._idle.append(requests)

    def close(self) -> None:
        """Ends the compilers that answer nobody."""
        while self._idle:
            self._idle.pop().close()

    def _text(self, model: List[str]) -> str:
        """Of a model. Raises Mistake."""
        key = tuple(model)
        with self._building:
            if key not in self._texts:
                _, self._texts[key] = program(model)
                self._keep(model, self._texts[key])
                if len(self._texts) > TEXTS:
                    self._texts.popitem(last=False)
            return self._texts[key]


def flags_for(machine: str, values: Values) -> List[str]:
    """Of optimus-compile, to plan a trial for a machine: a GPU's name, or the path of a
    profile of the trial's own target."""
    is_path = os.sep in machine
    out = FOR_A_MACHINE - ({"compile.target", "compile.mcpu"} if is_path else set())
    kept = {name: value for name, value in values.items() if name not in out}
    more = ["--machine-profile=" + machine, "--tune-products=false"]
    return [
        *names.arguments(kept, "compile", leave_out=("tune-products",)),
        *more,
        *([] if is_path else ["--target=cuda"]),
    ]


def _lane_bytes(memory: Mapping[str, Mapping[str, int]]) -> Dict[str, int]:
    """The most that a function holds once a lane, and once a thread whatever lanes it
    has."""
    own = ("arena", "scratch")
    return {
        "lane_bytes": max(
            each["total"] - sum(each[part] for part in own) for each in memory.values()
        ),
        "thread_bytes": max(
            sum(each[part] for part in own) for each in memory.values()
        ),
    }


def _step_ms(kinds: Mapping[str, float], microbatches: int) -> float:
    """Of a step: the accumulation of all microbatches but the last, which updates."""
    return kinds["train"] + (microbatches - 1) * kinds.get("accumulate", kinds["train"])

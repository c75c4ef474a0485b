# ===- planning.py - What the compiler knows before anything runs ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builds a model and lets optimus-compile plan it up to the placement of buffers, a
second or less: the bytes of a rank and the predicted time of a step."""

import json
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional

from optimus.arguments import Mistake
from optimus.models.__main__ import program
from optimus.tools import find_tool

COMPILER = "optimus-compile"


class Fault(Exception):
    """The compiler failed by a fault of its own; what it said."""


class Plan(NamedTuple):
    """What optimus-compile says of a program with some flags."""

    report: Optional[Dict[str, Any]] = None
    """Of --report-json."""
    refusal: str = ""
    """Why there is none."""
    is_of_model: bool = False
    """The model's arguments are refused, before the compiler sees them."""

    @property
    def reason(self) -> str:
        """The refusal without what it explains."""
        return self.refusal.partition("\n")[0]

    @property
    def limit(self) -> Dict[str, Any]:
        """What a rank may hold."""
        return min(self.report["limits"], key=lambda limit: limit["bytes"])

    @property
    def fits(self) -> bool:
        return bool(self.report) and self.report["rank_bytes"] <= self.limit["bytes"]

    @property
    def milliseconds(self) -> float:
        """Of a training step; on a cluster, where it was simulated there."""
        finalists = self.report.get("finalists")
        if finalists:
            return finalists[0]["step_ms"]
        functions = self.report["schedule"].values()
        step = next(each for each in functions if each["kind"] == "train")
        return step["predicted_step_ms"]


def plan(
    model: List[str], flags: List[str], folder: Optional[str] = None, prefix: List[str] = []
) -> Plan:
    """Plans a model, by the arguments of optimus.models, with flags of optimus-compile.
    Paths are relative to `folder`; `prefix` is a command that starts the compiler.
    Raises Fault, and UnavailableError without a compiler."""
    try:
        _, text = program(model)
    except Mistake as mistake:
        return Plan(refusal=str(mistake), is_of_model=True)
    return plan_text(text, flags, folder, prefix)


def plan_text(
    text: str, flags: List[str], folder: Optional[str] = None, prefix: List[str] = []
) -> Plan:
    """As `plan`, of a model's text."""
    outputs = ["--compile-to=place", "-o", "/dev/null", "--report-json", "-"]
    result = subprocess.run(
        [*prefix, find_tool(COMPILER), "-", *flags, *outputs],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
    )
    said = result.stderr.strip()
    if result.returncode == 0:
        return Plan(json.loads(result.stdout))
    if result.returncode != 1:
        ended = "%s ended with exit code %d" % (COMPILER, result.returncode)
        raise Fault("%s\n%s" % (ended, said))
    # The table of what was weighed comes before, where to read on behind.
    said = said.partition("error: ")[2] or said
    return Plan(refusal=said.partition("\n`optimus-compile --help`")[0])

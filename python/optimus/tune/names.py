# ===- names.py - The flags that a search may choose -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Names of leaves are those of flags: `model.*` of optimus.models, `compile.*` of
optimus-compile, `train.*` of `optimus-run train`. The tools themselves say what there
is."""

import functools
from typing import Any, Dict, Iterable, List, Optional, Set

from optimus import help_page
from optimus.arguments import suggestion
from optimus.tools import find_tool
from optimus.tune import TuneError, programs
from optimus.tune.domains import text_of

PLACES = {"model": ["name", "folder"], "compile": [], "train": []}
"""Arguments by position, which come before the flags."""

OWN = {
    "model": {"output", "help", "version"},
    "compile": {
        "o",
        "output",
        "help",
        "version",
        "compile-to",
        "compile-from",
        "report-json",
        "also-price",
        "report",
        "plan",
        "dump-phases-to",
        "kernel-cache",
        "lanes",
    },
    "train": {
        "save",
        "resume",
        "until",
        "lanes",
        "keep-best",
        "log-json",
        "overwrite",
        "help",
        "version",
        "help-all",
        "profile",
        "profile-steps",
    },
}
"""Flags that the tuner sets."""


def flags_in_help(text: str) -> Set[str]:
    """The flags that a page of --help lists, without hyphens."""
    names = (name for option in help_page.parse(text).flags for name in option.names)
    return {name[2:] for name in names if name.startswith("--")}


@functools.lru_cache(maxsize=None)
def known(group: str) -> frozenset:
    """The names in a group, `model`, `compile` or `train`, without the group."""
    if group == "model":
        from optimus.models.__main__ import flags_of_models

        found = flags_of_models()
    else:
        program = "optimus-compile" if group == "compile" else "optimus-run"
        command = [find_tool(program), *(["train"] if group == "train" else []), "--help"]
        found = flags_in_help(programs.call(command))
    return frozenset((found | set(PLACES[group])) - OWN[group])


def check(name: str) -> None:
    """Raises TuneError unless a leaf may have this name."""
    group, _, flag = name.partition(".")
    if flag in OWN.get(group, ()):
        raise TuneError("%s: expected another name; optimus-tune sets this one" % name)
    if flag not in known(group):
        raise TuneError(
            "%s: there is no such flag of %s%s"
            % (
                name,
                _program(group),
                suggestion(name, ["%s.%s" % (group, each) for each in known(group)]),
            )
        )


def _program(group: str) -> str:
    programs = {"model": "optimus.models", "compile": "optimus-compile"}
    return programs.get(group, "optimus-run train")


def arguments(
    values: Dict[str, Any],
    group: str,
    leave_out: Iterable[str] = (),
    only: Optional[Iterable[str]] = None,
) -> List[str]:
    """The command line of a group's values, sorted by name."""
    places = [
        values["%s.%s" % (group, name)]
        for name in PLACES[group]
        if "%s.%s" % (group, name) in values
    ]
    found = [text_of(value) for value in places]
    for name in sorted(values):
        its_group, _, flag = name.partition(".")
        if its_group != group or flag in PLACES[group] or flag in leave_out:
            continue
        if only is not None and flag not in only:
            continue
        found += _flag(flag, values[name])
    return found


def _flag(flag: str, value: Any) -> List[str]:
    if isinstance(value, bool):
        return ["--" + flag] if value else []
    # With '=', since a negative number would be taken for a flag.
    return ["--%s=%s" % (flag, text_of(value))]

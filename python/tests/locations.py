# ===- locations.py - Reading locations and ids of values -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads what IR says of where its commands and buffers come from."""

import re
from typing import Dict, List, NamedTuple, Optional

COMMANDS = ("attention", "attention_grad", "collective_start", "copy", "gemm",
            "launch", "wait")


class Command(NamedTuple):
    function: str
    kind: str
    line: str
    location: str
    """Written out, without aliases."""

    @property
    def path(self) -> Optional[str]:
        found = re.search(r'"((?:[^"\\]|\\.)*)"\(', self.location)
        return found.group(1) if found else None

    @property
    def phase(self) -> str:
        found = re.search(r"#optimus\.origin<phase = (\w+)", self.location)
        return found.group(1) if found else "forward"


class Program:
    """A module of the exec level, as text with locations."""

    def __init__(self, text: str):
        self._aliases: Dict[str, str] = dict(
            re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE)
        )
        self.commands: List[Command] = []
        self.values: Dict[str, List[str]] = {}
        """The ids in each function, in the order of its buffers."""
        function = None
        for line in text.splitlines():
            if found := re.search(r"func\.func (?:private )?@(\w+)", line):
                function = found.group(1)
                self.values[function] = []
            found = re.search(r"\bexec\.(\w+) .* loc\((#loc\d*)\)$", line)
            if not found:
                continue
            kind, alias = found.groups()
            if kind in COMMANDS:
                location = self._resolve(self._aliases[alias])
                self.commands.append(Command(function, kind, line, location))
            if listed := re.search(r"values = \[([^\]]*)\]", line):
                self.values[function] += re.findall(r'"([^"]*)"', listed.group(1))

    def _resolve(self, location: str) -> str:
        return re.sub(
            r"#loc\d*", lambda found: self._resolve(self._aliases[found.group()]), location
        )

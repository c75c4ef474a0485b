# ===- help_page.py - Pages of --help -----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads what our tools print for --help, whoever parses their flags: CLI11, LLVM or
argparse.

    Options:
      -o,--output FILE REQUIRED   the file

is an option with the names -o and --output, the value FILE and that text.
"""

import re
from typing import List, NamedTuple, Tuple

_NAME = r"-{1,2}[A-Za-z][A-Za-z0-9_-]*"
# A name, another one behind a comma, or a description behind two spaces.
_ENTRY = re.compile(r"^ {2,4}(\S.*?)(?:  +(\S.*))?$")
_CONTINUED = re.compile(r"^ {13,}(\S.*)$")
_HEADING = re.compile(r"^(\S.*):$")
_ARGPARSE_COMMANDS = {"COMMAND", "MODEL"}


class Option(NamedTuple):
    names: Tuple[str, ...]
    """With hyphens; of a positional argument its name alone."""
    value: str
    """What stands for its value, as FILE; empty for a flag."""
    choices: Tuple[str, ...]
    """All that the value may be, where the page has them in braces."""
    note: str
    """As "required" and "needs --save"."""
    text: str

    @property
    def is_positional(self) -> bool:
        return not self.names[0].startswith("-")


class Section(NamedTuple):
    title: str
    options: List[Option]


class Page(NamedTuple):
    summary: str
    usage: str
    sections: List[Section]
    commands: List[Tuple[str, str]]
    """Names of subcommands, and what they do."""

    @property
    def options(self) -> List[Option]:
        return [option for section in self.sections for option in section.options]

    @property
    def flags(self) -> List[Option]:
        return [option for option in self.options if not option.is_positional]


def parse(text: str) -> Page:
    """Raises ValueError for a text that is no such page."""
    before, usage, rest = _split_usage(text)
    sections: List[Section] = []
    commands: List[Tuple[str, str]] = []
    prose, entries = before, []
    title = "Options"
    for line in rest:
        heading, entry = _HEADING.match(line), _ENTRY.match(line)
        continued = _CONTINUED.match(line)
        if continued and entries:
            entries[-1][1].append(continued[1])
        elif entry:
            entries.append([entry[1], [entry[2]] if entry[2] else [], title, line])
        elif heading:
            title = heading[1][0].upper() + heading[1][1:].partition("; ")[0]
        elif not entries:
            prose.append(line)
    for head, words, title, line in entries:
        described = " ".join(words)
        is_deep = title == "Positional arguments" and line.startswith("    ")
        if title == "Subcommands" or is_deep:
            commands.append((head.split()[0], described))
        elif head not in _ARGPARSE_COMMANDS:
            _add(sections, title, head, described)
    # LLVM's begins with the tool and its version.
    summary = re.sub(r"^optimus-\S+ .*?\): ", "", " ".join(" ".join(prose).split()))
    return Page(summary, usage, sections, commands)


def _split_usage(text: str) -> Tuple[List[str], str, List[str]]:
    """The lines before, those of the usage as one, and the lines behind."""
    lines = text.splitlines()
    for begin, line in enumerate(lines):
        if re.match(r"[Uu]sage: ", line):
            end = begin + 1
            while end < len(lines) and lines[end].startswith("  ") and lines[end].strip():
                end += 1
            usage = " ".join(" ".join(lines[begin:end]).split())
            return lines[:begin], usage.partition(": ")[2], lines[end:]
    raise ValueError("expected a page of --help, found no usage in %r" % text[:80])


def _add(sections: List[Section], title: str, head: str, text: str) -> None:
    if not sections or sections[-1].title != title:
        sections.append(Section(title, []))
    # Flags of MLIR stand several on a line, without a text.
    if head.startswith("--mlir-"):
        sections[-1].options.extend(_option(part, "") for part in [head, *text.split()])
    else:
        sections[-1].options.append(_option(head, text))


def _option(head: str, text: str) -> Option:
    core, *conditions = re.split(r"\s+(?=Needs: |Excludes: |REQUIRED\b)", head)
    notes = [
        condition.replace("Needs: ", "needs ")
        .replace("Excludes: ", "not with ")
        .replace("REQUIRED", "required")
        for condition in conditions
    ]
    core = core.replace("{false}", "")
    if core.endswith(" ..."):
        core = core[: -len(" ...")]
        notes.append("may be given again")
    names = tuple(re.findall(r"(?:^|, ?| )(%s)" % _NAME, core)) if core[0] == "-" else ()
    if not names:
        name, _, rest = core.partition(" ")
        return Option((name,), "", (), ", ".join(notes), text)
    # Behind the last name; argparse has the value behind each.
    value = core[core.rindex(names[-1]) + len(names[-1]) :].lstrip(" =")
    # NAME=constant has a default, and PATTERN=AXES has none.
    default = re.fullmatch(r"([A-Z]+)=(.*[^A-Z0-9,].*|[0-9.]+)", value)
    if default:
        value = default[1]
        notes.append("default: " + default[2])
    choices = re.fullmatch(r"\{(.*)\}", value)
    return Option(
        names,
        value.strip("<>"),
        tuple(choices[1].split(",")) if choices else (),
        ", ".join(notes),
        text,
    )

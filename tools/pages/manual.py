# ===- manual.py - Manual pages ----------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes a tool's page for man, in the macros of man(7)."""

from typing import Iterator, List

from commands import Command
from optimus import __version__
from optimus.help_page import Option, Section

EXIT_CODES = (
    ("0", "Done."),
    ("1", "The input is wrong; the message says what was expected and found."),
    ("2", "A fault of ours."),
)


def write(tool: Command, others: List[str]) -> str:
    """`others` are names of further tools."""
    title = '.TH %s 1 "" "Optimus %s" "Optimus"' % (_escape(tool.name.upper()), __version__)
    summary = tool.summary.partition(". ")[0].rstrip(".")
    lines = [title, ".SH NAME", _escape("%s - %s" % (tool.name, summary))]
    lines += [".SH SYNOPSIS", *_synopsis(tool)]
    lines += [".SH DESCRIPTION", _text(tool.summary)]
    lines += _options(tool.page.sections, ".SH")
    for command in list(tool.walk())[1:]:
        lines += [".SH %s" % _escape(command.subcommand.upper()), *_synopsis(command)]
        lines += [".PP", _text(command.summary), *_options(command.page.sections, ".SS")]
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES:
        lines += [".TP", code, _text(meaning)]
    seen = [".BR %s (1)" % _escape(other) for other in others if other != tool.name]
    lines += [".SH SEE ALSO", *(line + "," for line in seen[:-1]), *seen[-1:]]
    return "\n".join(lines) + "\n"


def _synopsis(command: Command) -> Iterator[str]:
    rest = command.page.usage.partition(command.words[-1])[2]
    yield r"\fB%s\fR%s" % (_escape(" ".join(command.words)), _escape(rest))


def _options(sections: List[Section], macro: str) -> Iterator[str]:
    for section in sections:
        yield '%s "%s"' % (macro, _escape(section.title.upper()))
        for option in section.options:
            yield ".TP"
            yield _head(option)
            note = " (%s)" % option.note if option.note else ""
            yield _text(option.text + note)


def _head(option: Option) -> str:
    value = "|".join(option.choices) or option.value
    head = ", ".join(r"\fB%s\fR" % _escape(name) for name in option.names)
    return head + (r" \fI%s\fR" % _escape(value) if value else "")


def _text(text: str) -> str:
    escaped = _escape(text.strip())
    # At the beginning of a line both would start a macro.
    return r"\&" + escaped if escaped[:1] in (".", "'", "") else escaped


def _escape(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")

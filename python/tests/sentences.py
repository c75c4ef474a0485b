# ===- sentences.py - The sentences of sources and pages ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds the sentences of comments, docstrings, TableGen's descriptions, texts in
strings, and pages."""

import re
from bisect import bisect_right
from pathlib import Path
from typing import Iterator, List, NamedTuple, Pattern

# A bullet or a row of columns does not go on the sentence before it.
NEW_PARAGRAPH = re.compile(r"(?:[-*+]|\d+\.)\s|.*\S {2,}\S")
NO_PROSE = re.compile(r"$|[=-]{3}|```")
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")

# Strings and characters, since they may hold the mark of a comment.
C_TOKENS = re.compile(
    r'R"(?P<end>\w*)\(.*?\)(?P=end)"'
    r"|'(?:[^'\\\n]|\\.)'"
    r'|"(?P<string>(?:[^"\\\n]|\\.)*)"'
    r"|//[/!]*<?(?P<comment>[^\n]*)",
    re.S,
)
HASH_COMMENT = re.compile(r"^[ \t]*#(?!!)(?P<comment>.*)$", re.M)
DOCSTRING = re.compile(r'^[ \t]*r?"""(?P<comment>.*?)"""', re.M | re.S)
DESCRIPTION = re.compile(r"\[\{(?P<comment>.*?)\}\]", re.S)
FENCED = re.compile(r"^[ \t]*```.*?```$", re.M | re.S)


class Sentence(NamedTuple):
    line: int
    text: str


class _Line(NamedTuple):
    number: int
    text: str


def _blanked(pattern: Pattern, text: str) -> str:
    """`text` with spaces in the place of matches; lines stay."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _paragraphs(lines: List[_Line]) -> Iterator[List[_Line]]:
    part: List[_Line] = []
    for line in lines:
        ends = NO_PROSE.match(line.text)
        follows = part and line.number - part[-1].number <= 1
        if ends or not follows or NEW_PARAGRAPH.match(line.text):
            if part:
                yield part
            part = []
        if not ends:
            part.append(line)
    if part:
        yield part


def _sentences(lines: List[_Line]) -> Iterator[Sentence]:
    for part in _paragraphs(lines):
        text = " ".join(line.text for line in part)
        begins = [0]
        for line in part[:-1]:
            begins.append(begins[-1] + len(line.text) + 1)
        # Code is one word, whatever it consists of.
        hidden = re.sub(r"`[^`]*`", lambda code: "`" * len(code[0]), text)
        begin = 0
        for end in [*SENTENCE_END.finditer(hidden), None]:
            line = part[bisect_right(begins, begin) - 1]
            yield Sentence(line.number, hidden[begin : end.start() if end else None])
            begin = end.end() if end else begin


def _lines(pattern: Pattern, text: str, group: str = "comment") -> List[_Line]:
    """The lines of what the group matches, with empty ones where a match does not go
    on the one before it."""
    lines: List[_Line] = []
    number, offset, end, column = 1, 0, 0, 0
    for found in pattern.finditer(text):
        if found[group] is None:
            continue
        begin = found.start(group)
        number += text.count("\n", offset, begin)
        offset = begin
        before, column = column, begin - text.rfind("\n", 0, begin)
        between = text[end : found.start()]
        end = found.end()
        if between.strip() or group == "comment" and column != before:
            lines.append(_Line(number, ""))
        for more, line in enumerate(found[group].split("\n")):
            # Comments in a description's code keep their mark.
            lines.append(_Line(number + more, line.strip().lstrip("/").strip()))
    return lines


def _lines_of_page(text: str) -> List[_Line]:
    """Cells of tables stand by themselves, and so do headings."""
    lines: List[_Line] = []
    for number, line in enumerate(_blanked(FENCED, text).split("\n"), 1):
        parts = re.split(r"(?<!\\)\|", line) if line.startswith("|") else [line]
        for part in parts:
            # An empty line ends a paragraph.
            lines += [_Line(number, re.sub(r"^[#>\s]+", "", part).strip())]
            lines += [_Line(number, "")] * (len(parts) > 1 or line.startswith("#"))
    return lines


def sentences(path: Path) -> Iterator[Sentence]:
    text = path.read_text()
    if path.suffix == ".md":
        yield from _sentences(_lines_of_page(text))
    elif path.suffix == ".py":
        yield from _sentences(_lines(HASH_COMMENT, text))
        yield from _sentences(_lines(DOCSTRING, text))
    elif path.suffix in (".txt", ".cmake"):
        yield from _sentences(_lines(HASH_COMMENT, text))
    else:
        if path.suffix == ".td":
            text = _blanked(FENCED, text)
            yield from _sentences(_lines(DESCRIPTION, text))
            text = _blanked(DESCRIPTION, text)
        yield from _sentences(_lines(C_TOKENS, text))
        yield from _sentences(_lines(C_TOKENS, text, "string"))

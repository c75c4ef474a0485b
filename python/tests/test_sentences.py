# ===- test_sentences.py - One fact a sentence ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""No sentence of a comment, a description, a help, a message or a page has two
relative words."""

import re
from pathlib import Path

import pytest

from sentences import sentences
from tools import REPOSITORY

PARTS = [
    *("docs", "include", "lib", "support", "runtime", "tools", "python", "bench"),
    *("unittests", "cmake", "scripts"),
]
SUFFIXES = (".md", ".h", ".cpp", ".c", ".inc", ".fbs", ".td", ".py", ".cmake")

RELATIVE = re.compile(r"\b(?:that|what|which|who|whom|whose)\b", re.IGNORECASE)


def crowded(path: Path):
    """The sentences with two relative words, as (line, sentence)."""
    return [s for s in sentences(path) if len(RELATIVE.findall(s.text)) > 1]


def sources():
    yield from sorted(REPOSITORY.glob("*.md"))
    for part in PARTS:
        for path in sorted((REPOSITORY / part).rglob("*")):
            if path.suffix in SUFFIXES or path.name == "CMakeLists.txt":
                yield path


def test_sentences_state_one_fact():
    found = [
        "%s:%d: %s" % (path.relative_to(REPOSITORY), sentence.line, sentence.text)
        for path in sources()
        for sentence in crowded(path)
    ]
    advice = "name the thing, then say one fact about it (CONTRIBUTING.md)"
    assert found == [], "\n".join([advice, *found])


SENTENCE = "What lies there is what was"


@pytest.mark.parametrize(
    "name, text, line",
    [
        ("a.h", "/// Fine.\n/// %s\n/// before.\nint a;\n" % SENTENCE, 2),
        ("a.cpp", "int a; // %s so.\n" % SENTENCE, 1),
        ("a.cpp", 'say("the rank // "\n    "that sends what is there");\n', 1),
        ("a.td", 'let summary = "%s";\n' % SENTENCE, 1),
        ("a.td", "let description = [{\n  Fine.\n\n  * %s so.\n}];\n" % SENTENCE, 4),
        ("a.py", "def f():\n    '''x'''\n    # Fine. %s so.\n" % SENTENCE, 3),
        ("a.py", 'def f():\n    """Fine: it\n    lies.\n\n    %s."""\n' % SENTENCE, 5),
        ("a.md", "# A page\n\nFine.\n%s so.\n" % SENTENCE, 4),
        ("a.md", "| a | b |\n|---|---|\n| x | %s |\n" % SENTENCE, 3),
    ],
)
def test_a_crowded_sentence_is_found(tmp_path, name, text, line):
    (tmp_path / name).write_text(text)
    assert [sentence.line for sentence in crowded(tmp_path / name)] == [line]


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.h", "int a; ///< that is\nint b; ///< what is\n"),
        ("a.h", "// The rank that sends.\n//\n// What arrives\n"),
        ("a.h", "/// sends     what is there\n/// receives  what comes\n"),
        ("a.cpp", 'f("what", x, "that"); // those that are\n'),
        ("a.td", 'Option<"a", "that it takes">, Option<"b", "what it takes">\n'),
        ("a.md", "```\nwhat that which\n```\nThe word `that what` is code.\n"),
        ("a.md", "* the rank that sends\n* what arrives\n"),
    ],
)
def test_other_sentences_are_not(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert crowded(tmp_path / name) == []

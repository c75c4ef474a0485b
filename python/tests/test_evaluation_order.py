# ===- test_evaluation_order.py - Arguments that depend on their order ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds calls in C++ with an argument that changes a variable of another one: Clang
evaluates arguments from the first, g++ from the last."""

import re

import pytest

from tools import REPOSITORY

NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S
)
CHANGES = re.compile(
    r"\bstd::(?:move|exchange)\(\s*(?P<taken>\w+(?:(?:\.|->)\w+)*)"
    r"|(?:\+\+|--)(?P<first>\w+)|\b(?P<then>\w+)(?:\+\+|--)"
)
LAMBDA = re.compile(r"\bauto (?P<name>\w+) =\s*\[&")
ASSIGNED = re.compile(
    r"OPTRT_ASSIGN_OR_RETURN\(\s*(?P<macro>\w+),|(?<![\w.>])(?P<name>\w+)(?:\s*=[^=]|\.reset\()"
)
NOT_CALLS = re.compile(r"(?:\b(?:if|while|for|switch|catch|return)|\b[A-Z][A-Z_]+)\s*$")


def without_comments(text):
    """Without strings, too; every character stays where it is."""
    return NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def parts_of(text, begin):
    """The text within a bracket by its commas, as (place, text)."""
    depth, start, parts = 0, begin + 1, []
    for at in range(begin, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0:
                return [*parts, (start, text[start:at])]
        elif depth == 1 and text[at] in ",;":
            parts.append((start, text[start:at]))
            start = at + 1
    return []


def changed_by_lambdas(text):
    """By the name of a lambda what it assigns to, by reference."""
    found = {}
    for match in LAMBDA.finditer(text):
        body = "".join(part for _, part in parts_of(text, text.find("{", match.end())))
        own = set(re.findall(r"[\w>&*\]]\s+[&*]?(\w+)\s*=[^=]", body))
        names = {each["macro"] or each["name"] for each in ASSIGNED.finditer(body)}
        found[match["name"]] = names - own
    return found


def uses(part, name):
    """Whether an argument reads a variable, or a part of it."""
    return re.search(r"(?<![\w.>:])%s\b(?!\s*::)" % re.escape(name), part) is not None


def unordered(text):
    """Such calls, as (line, variable)."""
    text, found = without_comments(text), []
    by_lambdas = changed_by_lambdas(text)
    for match in re.finditer(r"(?<=[\w>\]])\s*\(", text):
        parts = parts_of(text, match.end() - 1)
        if len(parts) < 2 or NOT_CALLS.search(text[max(0, match.start() - 40) : match.start()]):
            continue
        for at, part in parts:
            names = {next(filter(None, each.groups())) for each in CHANGES.finditer(part)}
            for called in re.findall(r"\b(\w+)\(", part):
                names |= by_lambdas.get(called, set())
            others = " , ".join(other for place, other in parts if place != at)
            line = text.count("\n", 0, at) + 1
            found += [(line, name) for name in sorted(names) if uses(others, name)]
    return found


def test_no_argument_depends_on_the_order():
    sources = [
        path
        for folder in "bench include lib runtime support tools unittests".split()
        for pattern in ("*.cpp", "*.h", "*.inc")
        for path in sorted((REPOSITORY / folder).rglob(pattern))
    ]
    assert len(sources) > 1000
    found = {
        str(path.relative_to(REPOSITORY)): calls
        for path in sources
        if (calls := unordered(path.read_text()))
    }
    assert found == {}, "evaluate these arguments before the call"


@pytest.mark.parametrize(
    "code, names",
    [
        ("f(std::move(x), x.size());", ["x"]),
        ("f(x->size(), std::exchange(x, {}));", ["x"]),
        ("f(std::move(x.a), x.b);", []),
        ("f(x->a, std::move(x->b));", []),
        ("f(std::move(x), y.x, x::size());", []),
        ("T{std::move(x), x.size()};", []),
        ("f(i++, g(i));", ["i"]),
        ("for (int i = 0; i != n; ++i)", []),
        ("MACRO(x, f(std::move(x)));", []),
        ('f(std::move(x), "x"); // f(++x, x)', []),
        ("auto make = [&]() { w = g(); };\nf(make(), *w);", ["w"]),
        ("auto make = [&]() { w.reset(); };\nf(make(), *w);", ["w"]),
        ("auto m = [&]() { OPTRT_ASSIGN_OR_RETURN(w, g()); };\nf(m(), *w);", ["w"]),
        ("auto make = [&]() { int w = 1; };\nf(make(), *w);", []),
        ("auto make = [&]() { w = g(); };\nf(make, *w);", []),
    ],
)
def test_such_calls_are_found(code, names):
    assert [name for _, name in unordered(code)] == names

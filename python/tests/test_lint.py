# ===- test_lint.py - Mistakes that make tests pass in silence ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Finds directives in lit tests that their tool would pass over, passes with a choice
by the kind of an operation where an interface should answer, functions known by
name, calls of MPI with unused return codes, tools with more than a main in their
main, and in Python unused imports, tests behind others of their name and fixtures
before those of conftest.py."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tools import REPOSITORY

LIT_TESTS = [
    path
    for path in sorted((REPOSITORY / "test").rglob("*.mlir"))
    if "Inputs" not in path.parts
]

SUFFIXES = "NEXT|SAME|EMPTY|NOT|DAG|LABEL|COUNT-[0-9]+"


def mistakes(text):
    """What is wrong with a lit test, as (line number or 0, message)."""
    run = " ".join(re.findall(r"RUN:(.*)", text))
    given = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", run)
    prefixes = {prefix for names in given for prefix in names.split(",")} | {"CHECK"}
    # A prefix with or without a suffix is a directive only before a colon.
    directive = re.compile(
        r"//\s*(?:%s)(?:-(?:%s))?(?P<rest>\S*)"
        % ("|".join(map(re.escape, sorted(prefixes))), SUFFIXES)
    )
    found = []
    directives = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = directive.match(line.strip())
        if match and re.match(r"(\{LITERAL\})?:", match["rest"]):
            directives += 1
        elif match and not re.match(r"[a-z]", match["rest"]):
            found.append((number, "no directive to FileCheck: %s" % line.strip()))
    if not run:
        found.append((0, "no RUN line"))
    if directives and "FileCheck" not in run:
        found.append((0, "has CHECK lines but does not run FileCheck"))
    if "FileCheck" in run and not directives:
        found.append((0, "runs FileCheck without CHECK lines"))
    if re.search(r"expected-(error|warning|remark)", text) and not re.search(
        r"-verify-diagnostics", run
    ):
        found.append((0, "expects diagnostics without -verify-diagnostics"))
    return found


@pytest.mark.parametrize(
    "path", LIT_TESTS, ids=[str(p.relative_to(REPOSITORY)) for p in LIT_TESTS]
)
def test_lit_test(path: Path):
    assert mistakes(path.read_text()) == []


RUN = "// RUN: optimus-opt %s | FileCheck %s\n"


@pytest.mark.parametrize(
    "text",
    [
        RUN + "// CHECK-LABEL: @f\n// CHECK-COUNT-2: add\n// CHECK-NOT: mul\n",
        RUN + "// CHECK{LITERAL}: [[0]]\n// Checked above.\n",
        "// RUN: optimus-opt %s | FileCheck %s --check-prefix=PAD\n// PAD-DAG: x\n",
        "// RUN: optimus-opt %s -verify-diagnostics\n// expected-error {{no}}\n",
    ],
)
def test_sound(text):
    assert mistakes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        RUN + "// CHECK: x\n// CHECK-SAME y\n",
        RUN + "// CHECK: x\n// CHECK y\n",
        RUN + "// CHECK: x\n// CHECK-LABLE: y\n",
        RUN,
        "// CHECK: x\n",
        "// RUN: optimus-opt %s\n// CHECK: x\n",
        "// RUN: optimus-opt %s\n// expected-error {{no}}\n",
        "// RUN: optimus-opt %s | FileCheck %s --check-prefix=PAD\n// PAD: x\n// PAD-DAG x\n",
    ],
)
def test_mistaken(text):
    assert mistakes(text) != []


# What an operation knows of itself it says through an interface.
KIND_TESTS = [
    r"\bTypeSwitch<\s*(?:mlir::)?Operation\b",
    r"\bisa(?:_and_nonnull|_and_present)?<\s*[\w:]*Op\s*,\s*[\w:]*Op\b",
    r"\bgetName\(\)\s*\.\s*(?:getStringRef|getIdentifier|stripDialect)\(\)\s*(?:[=!]=|\.\s*(?:starts|ends)_with)",
    r"""\bgetName\(\)\s*\.\s*getDialectNamespace\(\)""",
    r"""[=!]=\s*"(?:optimus|ccl|exec)\.""",
    r"""\b(?:starts|ends)_with\(\s*"(?:optimus|ccl|exec)\.""",
]


def kind_tests(text):
    """Where C++ code asks of which kind an operation is, as (line, code)."""
    return [
        (text.count("\n", 0, match.start()) + 1, match[0])
        for pattern in KIND_TESTS
        for match in re.finditer(pattern, text)
    ]


def excepted():
    """The files that may, from the table in docs/architecture.md."""
    text = (REPOSITORY / "docs/architecture.md").read_text()
    rows = dict(re.findall(r"^\| `(lib/\S+\.cpp)` \| (.+) \|$", text, re.M))
    assert all(reason.strip() for reason in rows.values())
    return set(rows)


def test_passes_ask_interfaces():
    found = {}
    for path in sorted((REPOSITORY / "lib").rglob("*")):
        if path.suffix in (".cpp", ".h") and (lines := kind_tests(path.read_text())):
            found[str(path.relative_to(REPOSITORY))] = lines
    message = (
        "let the operation say it through an interface (docs/add-an-op.md), or give "
        "the reason in the table of docs/architecture.md"
    )
    known = excepted()
    assert {file: found[file] for file in found if file not in known} == {}, message
    missing = sorted(file for file in known if not (REPOSITORY / file).exists())
    assert missing == [], "docs/architecture.md excepts files that do not exist"


@pytest.mark.parametrize(
    "code",
    [
        "return TypeSwitch<Operation *, Value>(op)",
        "llvm::TypeSwitch<mlir::Operation *>(op)",
        "if (isa<AddOp, MulOp>(op))",
        "if (isa<ccl::AllGatherOp,\n        ReshardOp>(op))",
        'op->getName().getStringRef() == "ccl.matmul"',
        'op->getName().stripDialect() != "matmul"',
        'name == "optimus.add"',
        'name.starts_with("optimus.")',
        "op.getName().getDialectNamespace() ==",
    ],
)
def test_kind_test_is_found(code):
    assert kind_tests(code) != []


@pytest.mark.parametrize(
    "code",
    [
        "return TypeSwitch<Attribute, Value>(attr)",
        "if (isa<HeadOpInterface>(op))",
        "if (auto add = value.getDefiningOp<AddOp>())",
        "withPart(loc, each->getName().stripDialect())",
    ],
)
def test_other_code_is_not(code):
    assert kind_tests(code) == []


FUNCTION_NAMES = [
    r'"@?(?:train|eval|grad)_step"',
    r"""\b(?:lookupSymbol(?:<[\w:]+>)?|findFunction|run|submit|checkTraffic)\(\s*"(?!loss"|grad")""",
    r'\bgetSymName\(\)\s*[!=]=\s*"',
]


def functions_by_name(text):
    """Where C++ code knows a function of a library by its name."""
    code = re.sub(r"//[^\n]*", "", text)
    return [match[0] for pattern in FUNCTION_NAMES for match in re.finditer(pattern, code)]


def test_functions_are_asked_for_by_kind():
    found = {}
    for folder in ("include", "lib", "runtime", "support", "tools"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            tests = {"unittests", "testing"} & set(path.parts)
            if path.suffix in (".cpp", ".h", ".td", ".fbs") and not tests:
                if names := functions_by_name(path.read_text()):
                    found[str(path.relative_to(REPOSITORY))] = names
    assert found == {}, "ask for a kind: findEntry() of Entries.h, or of Manifest.h"


@pytest.mark.parametrize(
    "code",
    [
        'session.run("train_step")',
        'module.lookupSymbol<func::FuncOp>("update")',
        'manifest.findFunction("accumulate")',
        'function.getSymName() == "forward"',
        'for (StringRef name : {"eval_step"})',
    ],
)
def test_function_by_name_is_found(code):
    assert functions_by_name(code) != []


@pytest.mark.parametrize(
    "code",
    [
        "session.run(function->name)",
        'module.lookupSymbol<func::FuncOp>("loss")',
        "/// As train_step, findFunction(name)",
        "findEntry(module, EntryKind::Train)",
    ],
)
def test_function_by_kind_is_not(code):
    assert functions_by_name(code) == []


ROOMS = ("base", "model", "program", "session")


def rooms_above(room, text):
    """Headers that code of `room` includes, of rooms built on it."""
    above = "|".join(ROOMS[ROOMS.index(room) + 1 :]) or "none"
    return re.findall(r'#include "(?:%s)/[^"]*"' % above, text)


def test_rooms_of_the_runtime_stand_on_each_other():
    found = {}
    for room in ROOMS:
        folder = REPOSITORY / "runtime" / room
        sources = [*folder.rglob("*.cpp"), *folder.rglob("*.h")]
        assert sources
        for path in sources:
            if headers := rooms_above(room, path.read_text()):
                found[str(path.relative_to(REPOSITORY))] = headers
    assert found == {}, "a room includes of those before it: " + ", ".join(ROOMS)


def test_a_room_above_is_found():
    assert rooms_above("model", '#include "program/BoundProgram.h"\n') != []
    assert rooms_above("session", '#include "program/BoundProgram.h"\n') == []


def unchecked_calls_of_mpi(text):
    """The numbers of lines that call MPI without a use of the result."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(r"(?<!operator )\bMPI_[A-Z][a-z_]+\(", line.split("//")[0])
        and not re.search(r"[!=]= MPI_SUCCESS|\bwarnOfMpi\(", line)
    ]


def test_return_codes_of_mpi_are_checked():
    found = {}
    for path in sorted((REPOSITORY / "runtime" / "ccl" / "mpi").iterdir()):
        if path.suffix in (".cpp", ".h"):
            if lines := unchecked_calls_of_mpi(path.read_text()):
                found[path.name] = lines
    assert found == {}, "use OPTIMUS_MPI_CHECK or warnOfMpi (Mpi.h)"


@pytest.mark.parametrize(
    "code", ["  MPI_Barrier(comm);", "(void)MPI_Abort(MPI_COMM_WORLD, 1);"]
)
def test_unchecked_call_of_mpi_is_found(code):
    assert unchecked_calls_of_mpi(code) == [1]


def lines_of_code(text):
    """Without comments, blank lines and what is included."""
    return [
        line
        for line in (line.split("//")[0].strip() for line in text.splitlines())
        if line and not line.startswith("#include")
    ]


def test_mains_are_short():
    long = {}
    for path in sorted((REPOSITORY / "tools").glob("*/*.cpp")):
        code = lines_of_code(path.read_text())
        if any(re.match(r"int main\(", line) for line in code) and len(code) >= 100:
            long[path.name] = len(code)
    assert long == {}, "what a tool does is a library, which tests can call"


def test_lines_of_code_are_counted():
    assert lines_of_code("// a\n#include <b>\n\nint c; // d\n  }\n") == ["int c;", "}"]


TESTS = REPOSITORY / "python/tests"


def is_test(path):
    return path.parent == TESTS


def python_sources():
    """All files in Python, some of which only their first line calls so."""
    for folder in ("bench", "python", "scripts", "test", "tools"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix == "" and path.is_file():
                with path.open("rb") as file:
                    if re.match(rb"#!.*\bpython", file.readline(200)):
                        yield path
            elif path.suffix == ".py":
                yield path


ASKS = ("usefixtures", "getfixturevalue")


@functools.cache
def tree_of(path):
    return ast.parse(path.read_bytes())


def strings_in(node):
    return [
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def fixtures(tree):
    """Functions that are fixtures, by name."""
    found = {}
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", []):
            keywords = getattr(decorator, "keywords", [])
            if ast.unparse(getattr(decorator, "func", decorator)) == "pytest.fixture":
                given = [each.value.value for each in keywords if each.arg == "name"]
                found[given[0] if given else node.name] = node
    return found


def unused_imports(tree, fixtures_of={}):
    """As (line, name). A parameter may be a fixture, with those it needs itself, by the
    modules that have it; strings are names in annotations, in __all__ and where fixtures
    are asked for. `import a as a` is for those who import this."""
    imported, used, annotations = {}, set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                used.add(node.id)
        elif isinstance(node, ast.Call):
            if getattr(node.func, "attr", "") in ASKS:
                used.update(strings_in(node))
        elif isinstance(node, ast.arg):
            used.add(node.arg)
            annotations.append(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            annotations.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            annotations.append(node.returns)
        elif isinstance(node, ast.Assign):
            if getattr(node.targets[0], "id", "") == "__all__":
                used.update(strings_in(node.value))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            of_module = fixtures_of.get(getattr(node, "module", None), {})
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                if alias.name != alias.asname:
                    imported.setdefault(name, node.lineno)
                if name in of_module:
                    used.update(each.arg for each in of_module[name].args.args)
    for text in (text for node in annotations if node for text in strings_in(node)):
        used.update(re.findall(r"\w+", text))
    return sorted((line, name) for name, line in imported.items() if name not in used)


def test_python_imports_what_it_uses():
    trees = {path: tree_of(path) for path in python_sources()}
    tests = {path.stem: fixtures(tree) for path, tree in trees.items() if is_test(path)}
    found = {
        str(path.relative_to(REPOSITORY)): names
        for path, tree in trees.items()
        if (names := unused_imports(tree, tests if is_test(path) else {}))
    }
    assert found == {}, "remove these imports"


@pytest.mark.parametrize(
    "code, names",
    [
        ("import os\nfrom a import b as c, d\nd(1)\n", [(1, "os"), (2, "c")]),
        ("def f():\n    import a.b\n", [(2, "a")]),
        ("from a import b\nb = 1\n", [(1, "b")]),
        ("from a import b\ndef test(b): pass\n", []),
        ("from a import B, C, D\ndef f(x: 'B[C]') -> 'D': pass\n", []),
        ("from a import b, c\n__all__ = ['b']\n", [(1, "c")]),
        ("from a import b\nmarks = pytest.mark.usefixtures('b')\n", []),
        ("import a.b\na.b()\n", []),
        ("from a import b as b\n", []),
        ("from other import one, two\ndef test(one): pass\n", []),
        ("from other import one, two\ndef test(two): pass\n", [(1, "one")]),
    ],
)
def test_unused_imports_are_found(code, names):
    other = "@pytest.fixture\ndef two(): pass\n@pytest.fixture\ndef one(two): pass\n"
    tests = {"other": fixtures(ast.parse(other))}
    assert unused_imports(ast.parse(code), tests) == names


def hidden_tests(tree):
    """Names of tests, as (line, name), that a later one of the same scope has."""
    found = []
    for scope in ast.walk(tree):
        if not isinstance(scope, (ast.Module, ast.ClassDef)):
            continue
        last = {}
        for node in scope.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                if node.name in last:
                    found.append((last[node.name], node.name))
                last[node.name] = node.lineno
    return found


def test_no_test_or_fixture_hides_another():
    common = fixtures(tree_of(TESTS / "conftest.py")).keys()
    assert {"tools", "session", "text"} <= common
    found = {}
    for path in sorted(TESTS.glob("*.py")):
        tree = tree_of(path)
        names = [] if path.name == "conftest.py" else sorted(fixtures(tree).keys() & common)
        if names := names + hidden_tests(tree):
            found[path.name] = names
    assert found == {}, "give them names of their own"


def test_hidden_tests_and_fixtures_are_found():
    code = """
@pytest.fixture
def one(): pass
@pytest.fixture(scope="module", name="two")
def other(): pass
def test_a(one): pass
def test_b(): pass
class TestC:
    def test_b(self): pass
def test_a(): pass
"""
    assert list(fixtures(ast.parse(code))) == ["one", "two"]
    assert hidden_tests(ast.parse(code)) == [(6, "test_a")]

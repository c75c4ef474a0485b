# ===- test_python_compile.py - The package, from a program to a library ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""compile() runs optimus-compile; the package is there without the runtime; its stubs
are of the module that there is."""

import ast
import gc
import os
import sys

import pytest

from optimus.models import gpt2
from optimus.models.functions import functions_of
from tools import REPOSITORY, call, succeed

CONFIG = gpt2.Config(1, 16, 2, 8, 32, batch=4)


@pytest.fixture
def compiles(tools, monkeypatch):
    monkeypatch.setenv("OPTIMUS_BIN_DIR", str(tools.binaries))


def test_functions_of_a_builder_are_compiled(optimus, compiles):
    functions = functions_of(gpt2, CONFIG, ["forward", "loss"])
    library = optimus.compile(functions, mesh={"row": 1, "col": 2}, strategy="summa")
    assert library.report["mesh"] == "row:1,col:2"
    assert [axis["size"] for axis in library.manifest["mesh"]] == [1, 2]
    kinds = {each["entry"]["kind"] for each in library.manifest["functions"]}
    assert {"train", "eval", "forward"} <= kinds
    # A temporary file, as long as the library.
    path = library.path
    assert path.exists()
    del library
    gc.collect()
    assert not path.exists()


def test_flags_are_those_of_the_compiler(optimus, compiles, tmp_path):
    program, output = tmp_path / "gpt.mlir", tmp_path / "gpt.so"
    program.write_text(gpt2.build(CONFIG).text())
    flags = {"accumulate": True, "layout": ["*.mlp.c_fc.weight=row,col"], "optimizer": "sgd"}
    library = optimus.compile(program, output=output, mesh="row:2,col:1", **flags)
    assert library.path == output and output.exists()
    assert library.manifest["optimizer"] == "sgd"
    assert "accumulate" in {each["entry"]["kind"] for each in library.manifest["functions"]}
    assert optimus.Library(output).report is None


def test_diagnostics_are_the_compilers(optimus, compiles, tmp_path):
    with pytest.raises(optimus.CompileError, match="unknown strategy 'none'") as raised:
        optimus.compile(gpt2.build(CONFIG), strategy="none")
    assert raised.value.exit_code == 1
    assert len(raised.value.diagnostics) == 1 and raised.value.command[1] == "-"
    program = tmp_path / "bad.mlir"
    program.write_text(gpt2.build(CONFIG).text().replace("optimus.add", "optimus.odd", 1))
    with pytest.raises(optimus.CompileError, match="bad.mlir:[0-9]+:[0-9]+: error: ") as raised:
        optimus.compile(program)
    assert "optimus.odd" in raised.value.diagnostics[0]
    with pytest.raises(optimus.CompileError, match="no layout fits the memory budget"):
        optimus.compile(gpt2.build(CONFIG), memory_budget="1KiB")
    with pytest.raises(optimus.ProgramError, match="@loss: expected a function beside @loss"):
        optimus.compile([gpt2.build(CONFIG), gpt2.build(CONFIG)])
    with pytest.raises(optimus.ArgumentTypeError, match="path of a program or functions"):
        optimus.compile([3])


def test_without_a_compiler(optimus, monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMUS_BIN_DIR", str(tmp_path))
    with pytest.raises(optimus.UnavailableError, match="expected optimus-compile in %s" % tmp_path):
        optimus.compile(gpt2.build(CONFIG))


def test_the_package_is_there_without_the_runtime():
    """Its builders, by the standard library alone."""
    code = """
import sys
import optimus
from optimus.models import gpt2, __main__

assert "numpy" not in sys.modules and "optimus.session" not in sys.modules
assert set(optimus.__all__) <= set(dir(optimus)) and optimus.compile
try:
    optimus.Session
except optimus.UnavailableError as error:
    print(error)
"""
    paths = {"PYTHONPATH": str(REPOSITORY / "python")}
    said = succeed(call([sys.executable, "-c", code], env=dict(os.environ, **paths)))
    assert "ninja -C build optimus_python" in said and "build/python to PYTHONPATH" in said


def members(node):
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


def test_stubs_are_of_the_module(optimus):
    from optimus import runtime

    module = runtime.module()
    stubs = ast.parse((REPOSITORY / "python/optimus/_runtime.pyi").read_text())
    classes = [each for each in stubs.body if isinstance(each, ast.ClassDef)]
    functions = [each for each in stubs.body if isinstance(each, ast.FunctionDef)]
    public = {name for name in dir(module) if not name.startswith("_")}
    assert public == {"version"} | {each.name for each in classes + functions}
    for each in classes:
        stated = members(each) - {"__init__"}
        found = vars(getattr(module, each.name)).keys()
        assert {name for name in found if not name.startswith("_") or name in stated} == stated

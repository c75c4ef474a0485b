# ===- hostile.py - Tools in folders and under limits of their own --------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Runs the compiler's tools as a machine and a user may: with little memory,
streams that are full, signals; and looks at what is left."""

import os
import resource
import subprocess

import pytest

from tools import Model, TIMEOUT_SECONDS

MODEL = Model(layers=1, hidden=8, heads=2, sequence=8, vocabulary=16, batch=2)

IDENTITY = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
"""
RANGES = "id,lower,upper,size\n0,0,2,64\n1,1,3,64\n"


@pytest.fixture
def program(tools):
    return tools.program(MODEL)


@pytest.fixture
def folder(tmp_path):
    """Where a tool works, with inputs and a TMPDIR of its own."""
    (tmp_path / "f.mlir").write_text(IDENTITY)
    (tmp_path / "ranges.csv").write_text(RANGES)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def start(tools, folder, tool, *arguments, limits={}, **options):
    """A tool in its folder; `limits` are resource limits."""

    def limit():
        for which, value in limits.items():
            resource.setrlimit(which, (value, value))

    environment = dict(os.environ, TMPDIR=str(folder / "tmp"))
    environment.update(options.pop("environment", {}))
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options}
    command = tools.command(tool, *arguments)
    return subprocess.Popen(
        [os.path.abspath(command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=options.pop("preexec", limit),
        **options,
    )


def run(tools, folder, tool, *arguments, **options):
    process = start(tools, folder, tool, *arguments, **options)
    try:
        output, message = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(
        process.args, process.returncode, output, message
    )


def refuse(result, *words, tool="optimus-"):
    """One message of the tool's, exit code 1, and no trace of a crash."""
    assert result.returncode == 1, (result.returncode, result.stderr)
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1, result.stderr
    for word in words:
        assert str(word) in errors[0], result.stderr
    for trace in ("Stack dump", "LLVM ERROR", "terminate called", "internal error"):
        assert trace not in result.stderr


def accept(result):
    assert result.returncode == 0, result.stderr
    return result


def left_in(folder):
    """Files left by a tool, besides the test's own."""
    known = {"f.mlir", "ranges.csv", "tmp"}
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if str(path.relative_to(folder)) not in known
    )

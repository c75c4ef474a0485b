# ===- test_compiled_models.py - Models that were compiled before -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A model is compiled again where its program, its flags or the compiler changed,
and only there."""

import os
import shutil
import time
from pathlib import Path

import pytest

from compiled_models import UNUSED_SECONDS, CompiledModels


class Builds:
    """A made-up compiler, and how often it was asked."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.compiler = folder / "compiler"
        shutil.copyfile("/bin/true", self.compiler)
        self.source = folder / "a.mlir"
        self.source.write_text("program")
        self.count = 0

    def compile(self, path: Path) -> None:
        self.count += 1
        path.write_text("output %d" % self.count)

    def get(self, *flags: str, name="out.so") -> str:
        models = CompiledModels(self.folder / "kept", self.compiler)
        path = self.folder / name
        models.get(self.source, flags, path, self.compile)
        return path.read_text()


@pytest.fixture
def builds(tmp_path) -> Builds:
    return Builds(tmp_path)


def test_the_same_is_compiled_once(builds):
    assert [builds.get("--a"), builds.get("--a")] == ["output 1"] * 2
    # A test may spoil its copy.
    (builds.folder / "out.so").write_text("spoilt")
    assert builds.get("--a") == "output 1"


def test_what_changed_is_compiled_again(builds):
    assert builds.get("--a") == "output 1"
    assert builds.get("--b") == "output 2"
    assert builds.get("--a", name="out.mlir") == "output 3"
    builds.source.write_text("another program")
    assert builds.get("--a") == "output 4"
    with open(builds.compiler, "ab") as file:
        file.write(b"another version")
    assert builds.get("--a") == "output 5"


def test_what_fails_is_not_kept(builds):
    def fail(path):
        path.write_text("half")
        raise AssertionError("exit code 1")

    models = CompiledModels(builds.folder / "kept", builds.compiler)
    with pytest.raises(AssertionError):
        models.get(builds.source, ["--a"], builds.folder / "out.so", fail)
    assert builds.get("--a") == "output 1"


def test_what_is_not_used_goes(builds):
    builds.get("--a")
    builds.get("--b")
    old, new = sorted((builds.folder / "kept").iterdir(), key=lambda path: path.read_text())
    os.utime(old, (0, time.time() - UNUSED_SECONDS - 60))
    CompiledModels(builds.folder / "kept", builds.compiler).remove_unused()
    assert list((builds.folder / "kept").iterdir()) == [new]

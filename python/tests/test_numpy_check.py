# ===- test_numpy_check.py - Machines without NumPy -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What needs NumPy says so in one message, and the rest does without."""

import os
import sys

import pytest

from tools import REPOSITORY, call, succeed

SAID = "%s cannot load NumPy: there is none; install it (Debian's python3-numpy, " % sys.executable


@pytest.fixture
def python(tmp_path):
    """Runs Python without NumPy."""
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('there is none')")
    paths = "%s:%s" % (tmp_path, REPOSITORY / "python")
    environment = dict(os.environ, PYTHONPATH=paths)
    return lambda *arguments: call([sys.executable, *arguments], env=environment)


@pytest.mark.parametrize(
    "module, program",
    [
        ("optimus.data", "optimus.data"),
        ("optimus.generate", "optimus-generate"),
        ("optimus.report", "optimus-report"),
        ("optimus.serve", "optimus-serve"),
    ],
)
def test_programs(python, module, program):
    result = python("-m", module, "--help")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("%s: error: %s" % (program, SAID))
    assert len(result.stderr.splitlines()) == 1


def test_the_package(python):
    result = python("-c", "import optimus; optimus.Library, optimus.compile; optimus.Session")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("optimus.errors.UnavailableError: " + SAID)
    assert "During handling" not in result.stderr
    for module in ("optimus.models", "optimus.tune"):
        assert "usage: " in succeed(python("-m", module, "--help"))

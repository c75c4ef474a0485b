# ===- test_rotation.py - Tests that take turns ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Each test that rotates runs in exactly one turn."""

import subprocess
import sys
from pathlib import Path

import pytest

from selection import TURNS
from tools import REPOSITORY

SUITE = """
import pytest

@pytest.mark.rotates
@pytest.mark.parametrize("case", range(12))
def test_many(case):
    pass

@pytest.mark.rotates
def test_one():
    pass

def test_always():
    pass
"""

# The hooks of this folder's.
CONFTEST = """
import importlib.util, sys
sys.path[:0] = [%r]
spec = importlib.util.spec_from_file_location("ours", sys.path[0] + "/conftest.py")
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
globals().update({name: hook for name, hook in vars(ours).items() if name.startswith("pytest_")})
"""


@pytest.fixture
def suite(tmp_path):
    """Runs SUITE under the conftest of these tests; the tests that ran."""
    tests = Path(__file__).parent
    (tmp_path / "conftest.py").write_text(CONFTEST % str(tests))
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text((REPOSITORY / "python/pytest.ini").read_text())

    def run(*flags):
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *flags]
        output = subprocess.run(
            [*command, str(tmp_path / "test_suite.py")],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ).stdout
        lines = output.splitlines()
        return output, [line.split()[0] for line in lines if " PASSED" in line]

    return run


def test_all_turns_run_each_test_once(suite):
    ran = []
    for turn in range(TURNS):
        output, passed = suite("--rotate", str(turn))
        assert "rotation: --rotate %d" % turn in output
        assert 1 <= sum("test_many" in name for name in passed) <= 2
        assert sum("test_always" in name for name in passed) == 1
        ran += [name for name in passed if "test_always" not in name]
    assert len(ran) == len(set(ran)) == 13


def test_without_rotation_all_run(suite):
    output, passed = suite()
    assert "rotation: none" in output
    assert len(passed) == 14


def test_a_commit_has_its_turn(suite):
    first, again = suite("--rotate")[1], suite("--rotate")[1]
    assert first == again and len(first) < 14

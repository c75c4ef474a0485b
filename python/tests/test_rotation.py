# ===- test_rotation.py - Tests that take turns ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Each test that rotates runs in exactly one turn, and of variants one in each."""

import json
import re
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

@pytest.mark.rotates("together")
@pytest.mark.parametrize("case", range(3))
def test_some(case):
    pass

@pytest.mark.rotates("together")
def test_another():
    pass

@pytest.mark.variants
@pytest.mark.parametrize("case", range(3))
def test_variants(case):
    pass

def test_always():
    pass
"""

# The hooks of this folder's.
CONFTEST = """
import importlib.util, sys
sys.path[:0] = [%r, %r]
spec = importlib.util.spec_from_file_location("ours", sys.path[0] + "/conftest.py")
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
globals().update({name: hook for name, hook in vars(ours).items() if name.startswith("pytest_")})
"""


RUNS = """
import json, sys, pytest
for flags in json.loads(sys.argv[1]):
    pytest.main(["test_suite.py", "-v", "-p", "no:cacheprovider", *flags])
"""


@pytest.fixture
def suite(tmp_path):
    """Runs SUITE under the conftest of these tests, with each of some flags; for each
    what was said, and the tests that ran."""
    tests = Path(__file__).parent
    (tmp_path / "conftest.py").write_text(CONFTEST % (str(tests), str(tests.parent)))
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text((REPOSITORY / "python/pytest.ini").read_text())

    def run(*runs):
        output = subprocess.run(
            [sys.executable, "-c", RUNS, json.dumps(runs)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ).stdout
        start, *outputs = re.split("^=+ test session starts =+$", output, flags=re.M)
        assert (start, len(outputs)) == ("", len(runs)), output
        ran = re.compile(r"^(\S+) PASSED", re.M)
        return [(each, ran.findall(each)) for each in outputs]

    return run


def test_all_turns_run_each_test_once(suite):
    ran, seen = [], set()
    for turn, (output, passed) in enumerate(suite(*(["--rotate=%d" % n] for n in range(TURNS)))):
        assert "rotation: --rotate %d" % turn in output
        assert 1 <= sum("test_many" in name for name in passed) <= 2
        assert sum("test_always" in name for name in passed) == 1
        assert sum("test_some" in name or "test_another" in name for name in passed) in (0, 4)
        variants = [name for name in passed if "test_variants" in name]
        assert len(variants) == 1
        seen.update(variants)
        ran += [name for name in passed if not re.search("test_always|test_variants", name)]
    assert len(ran) == len(set(ran)) == 17
    assert len(seen) == 3


def test_a_commit_has_its_turn(suite):
    (output, everything), (_, first), (_, again) = suite([], ["--rotate"], ["--rotate"])
    assert "rotation: none" in output
    assert len(everything) == 21
    assert first == again and len(first) < 21

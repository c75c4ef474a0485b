# ===- test_junit_totals.py - The totals that scripts/test prints -----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A suite that crashed or ran nothing never counts as passed."""

import subprocess
import sys

import pytest

from tools import REPOSITORY

PASSED = '<testcase classname="a" name="passes" status="run"/>'
FAILED = '<testcase name="fails"><failure message="1 != 2"/></testcase>'
ERROR = '<testcase name="breaks"><error message="no fixture"/></testcase>'
SKIPPED = """<testcase name="skips" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>skipped: mpirun is not installed</system-out></testcase>"""
GTEST_SKIPPED = """<testcase classname="Mpi.Trains" name="Mpi.Trains" status="notrun">
<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>MpiTest.cpp:26: Skipped
built without the MPI back-end
[  SKIPPED ] Mpi.Trains (0 ms)</system-out></testcase>"""
PREVENTED = """<testcase name="absent" status="notrun">
<skipped message="Unable to find executable"/></testcase>"""


@pytest.fixture
def totals(tmp_path):
    """Runs the program on (exit status, test cases) of one suite each."""

    def run(*suites):
        arguments = []
        for number, (status, cases) in enumerate(suites):
            report = tmp_path / ("%d.xml" % number)
            if cases is not None:
                report.write_text("<testsuites><testsuite>%s</testsuite></testsuites>" % cases)
            arguments.append("suite%d=%d:%s" % (number, status, report))
        script = str(REPOSITORY / "scripts" / "junit_totals.py")
        result = subprocess.run(
            [sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True
        )
        return result.returncode, result.stdout.splitlines()

    return run


@pytest.mark.parametrize(
    "suites, status, last",
    [
        ([(0, PASSED)], 0, "1 passed, 0 failed"),
        ([(0, PASSED), (0, PASSED + PASSED)], 0, "3 passed, 0 failed"),
        ([(0, PASSED + SKIPPED)], 0, "1 passed, 0 failed, 1 skipped"),
        ([(1, PASSED + FAILED)], 1, "1 passed, 1 failed"),
        ([(1, PASSED + ERROR)], 1, "1 passed, 1 failed"),
        # A failure that the exit status hides.
        ([(0, PASSED + FAILED)], 1, "1 passed, 1 failed"),
        # A crash after, or before, the report was written.
        ([(0, PASSED), (139, PASSED)], 1, "2 passed, 1 failed"),
        ([(0, PASSED), (139, None)], 1, "1 passed, 1 failed"),
        ([(0, PASSED), (0, None)], 1, "1 passed, 1 failed"),
        ([(0, PASSED), (0, "<testcase")], 1, "1 passed, 1 failed"),
        ([(0, PASSED), (0, "")], 1, "1 passed, 1 failed"),
        # A program that was not built.
        ([(0, PASSED + PREVENTED)], 1, "1 passed, 1 failed"),
        ([], 1, "0 passed, 0 failed"),
    ],
)
def test_totals(totals, suites, status, last):
    code, lines = totals(*suites)
    assert (code, lines[-1]) == (status, last)


def test_skips_say_why(totals):
    _, lines = totals((0, PASSED + SKIPPED + GTEST_SKIPPED))
    assert "skipped: suite0: skips: mpirun is not installed" in lines
    assert "skipped: suite0: Mpi.Trains: built without the MPI back-end" in lines


def test_names_what_failed(totals):
    _, lines = totals((1, FAILED))
    assert "failed: suite0: fails" in lines

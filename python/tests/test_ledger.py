# ===- test_ledger.py - The time that suites may take -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The suites together may take what scripts/ledger.json allows, on a slow machine
longer."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tools import REPOSITORY, load_script

SCRIPT = REPOSITORY / "scripts" / "ledger.py"
LEDGER = json.loads(SCRIPT.with_suffix(".json").read_text())


@pytest.fixture
def ledger():
    return load_script(SCRIPT)


@pytest.fixture
def check(tmp_path):
    """Whether these times pass, with what is printed. Times are those of the ledger,
    this machine's cores included."""

    def run(slowness, **factors):
        report = tmp_path / "ledger.xml"
        seconds = LEDGER["reference_seconds"] * slowness
        suites = [
            "%s=%f:%f:%f" % (name, 60 * minutes * factors.get(name, 0.99), seconds, seconds)
            for name, minutes in LEDGER["minutes"].items()
        ]
        result = subprocess.run(
            [sys.executable, str(SCRIPT), "check", str(report), *suites],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        (case,) = ElementTree.parse(report).getroot().iter("testcase")
        return case.find("failure") is None, result.stdout

    return run


def test_the_ledger_has_every_suite():
    assert set(LEDGER["minutes"]) == {"set-up", "build", "lit", "ctest", "pytest"}
    assert sum(LEDGER["minutes"].values()) <= 16


def test_what_is_allowed_passes(check):
    assert check(slowness=1)[0]


def test_one_suite_may_use_the_room_of_another(check):
    passes, table = check(slowness=1, ctest=1.2, build=0.8)
    assert passes
    (line,) = [line for line in table.splitlines() if line.startswith("ctest")]
    assert line.endswith("over")


def test_more_than_all_may_take_fails(check, ledger):
    passes, table = check(slowness=1, pytest=5)
    assert not passes
    assert "scripts/ledger.json allows" in table


def test_a_slow_machine_may_take_longer(check):
    assert check(slowness=6, pytest=5, build=5)[0]


def test_fewer_cores_may_take_longer(ledger):
    suites = ["lit=10:%f:%f" % ((LEDGER["reference_seconds"],) * 2)]
    one, two, eight = (ledger.rows(LEDGER, suites, cores)[0].allowed for cores in (1, 2, 8))
    assert one == 2 * two
    assert two == eight == 60 * LEDGER["minutes"]["lit"]


def test_the_reference_job_takes_time():
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "reference"], stdout=subprocess.PIPE, text=True, check=True
    )
    assert float(result.stdout) > 0.1

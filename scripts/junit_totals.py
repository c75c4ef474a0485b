# ===- junit_totals.py - The totals of several test suites -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Adds up the JUnit reports of test suites.

    junit_totals.py NAME=STATUS:REPORT.xml ...

STATUS is the exit status of the suite's command. Prints failed tests, skipped tests
with reasons, and last a line "N passed, N failed[, N skipped]"; exits with 1 if
anything failed. A suite that has no report, reports no test, or failed without
reporting a failed test counts as one failure.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from typing import List, NamedTuple


class Suite(NamedTuple):
    passed: int
    failed: List[str]
    skipped: List[str]


def _reason(case, skipped) -> str:
    """Why a test was skipped: GoogleTest and scripts say so in their output."""
    output = case.findtext("system-out") or ""
    said = re.search(r": Skipped\n(.+)", output) or re.search(r"skipped: (.+)", output)
    return said[1].strip() if said else skipped.get("message") or "no reason given"


def _was_prevented(case, skipped) -> bool:
    """ctest reports a test it could not start, for want of its program, as
    skipped; a test skipped by itself has a message that begins with SKIP_."""
    return case.get("status") == "notrun" and not (
        skipped.get("message") or ""
    ).startswith("SKIP_")


def read(report: str, status: int) -> Suite:
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return Suite(0, ["no report (exit status %d): %s" % (status, error)], [])
    passed, failed, skips = 0, [], []
    for case in cases:
        # ctest gives a test's name as its class too.
        parts = dict.fromkeys([case.get("classname"), case.get("name")])
        name = ".".join(filter(None, parts))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif skipped is None:
            passed += 1
        elif _was_prevented(case, skipped):
            failed.append("%s: %s" % (name, skipped.get("message")))
        else:
            skips.append("%s: %s" % (name, _reason(case, skipped)))
    if not cases:
        failed.append("no test (exit status %d)" % status)
    elif status != 0 and not failed:
        failed.append("exit status %d, but no test failed" % status)
    return Suite(passed, failed, skips)


def main(arguments: List[str]) -> int:
    suites = {}
    for argument in arguments:
        name, status, report = re.fullmatch(r"(\w+)=(\d+):(.+)", argument).groups()
        suites[name] = read(report, int(status))
    for name, suite in suites.items():
        for what in suite.skipped:
            print("skipped: %s: %s" % (name, what))
    for name, suite in suites.items():
        for what in suite.failed:
            print("failed: %s: %s" % (name, what))
    for name, (passed, failed, skipped) in suites.items():
        counts = (name, passed, len(failed), len(skipped))
        print("%-8s %5d passed, %d failed, %d skipped" % counts)
    passed = sum(suite.passed for suite in suites.values())
    failed = sum(len(suite.failed) for suite in suites.values())
    skipped = sum(len(suite.skipped) for suite in suites.values())
    line = "%d passed, %d failed" % (passed, failed)
    print(line + (", %d skipped" % skipped if skipped else ""), flush=True)
    return 1 if failed or not suites else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# ===- ledger.py - The time that test suites may take -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Holds the time of test suites against scripts/ledger.json.

    ledger.py reference                            seconds of the reference job, now
    ledger.py check REPORT.xml NAME=SECONDS:BEFORE:AFTER ...

The ledger has the minutes of each suite on a machine of two cores whose reference
job takes `reference_seconds`. A suite's allowance grows with the reference job
just before and after it, so that a slow or busy machine fails nothing. `check`
prints the table and writes a JUnit report of one test, which fails where all
suites together take longer than all allowances.
"""

import json
import multiprocessing
import os
import re
import sys
import time
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path
from typing import List, NamedTuple

LEDGER = Path(__file__).with_suffix(".json")
# Cores of the machine whose minutes the ledger has.
CORES = 2


def _job(_) -> None:
    """Something of what builds and tests do: an interpreter's loops,
    tables of strings, and passes over memory."""
    words = {}
    for number in range(1_200_000):
        word = "%x" % (number * 2654435761 % 65521)
        words[word] = words.get(word, 0) + 1
    data = ",".join(sorted(words)).encode() * 8
    for level in (1, 6, 6, 6, 6):
        data = zlib.decompress(zlib.compress(data, level))
    sorted(range(800_000), key=lambda number: number * 2654435761 % 65521)


def measure() -> float:
    """Seconds of the reference job on all cores at once."""
    cores = len(os.sched_getaffinity(0))
    begin = time.monotonic()
    with multiprocessing.Pool(cores) as pool:
        pool.map(_job, range(cores), chunksize=1)
    return time.monotonic() - begin


def slowness() -> float:
    """The job's time of a processor now, beside that on the ledger's machine. Others
    beside it count as far as they slow the processor down."""
    begin = time.process_time()
    _job(0)
    reference = json.loads(LEDGER.read_text())["reference_seconds"]
    return (time.process_time() - begin) / reference


class Row(NamedTuple):
    name: str
    seconds: float
    allowed: float


def rows(ledger: dict, suites: List[str], cores: int) -> List[Row]:
    found = []
    for suite in suites:
        match = re.fullmatch(r"([\w-]+)=([\d.]+):([\d.]+):([\d.]+)", suite)
        name, seconds = match[1], float(match[2])
        slowness = (float(match[3]) + float(match[4])) / 2 / ledger["reference_seconds"]
        # The reference job occupies every core, whatever their number.
        slowness *= max(1.0, CORES / cores)
        found.append(Row(name, seconds, 60 * ledger["minutes"][name] * slowness))
    return found


def _clock(seconds: float) -> str:
    return "%d:%02d" % divmod(round(seconds), 60)


def check(report: str, suites: List[str]) -> None:
    table = rows(json.loads(LEDGER.read_text()), suites, len(os.sched_getaffinity(0)))
    table.append(
        Row("all", sum(row.seconds for row in table), sum(row.allowed for row in table))
    )
    for row in table:
        over = "  over" if row.seconds > row.allowed else ""
        print("%-8s %6s of %6s%s" % (row.name, _clock(row.seconds), _clock(row.allowed), over))
    case = ElementTree.Element("testcase", classname="ledger", name="total")
    total = table[-1]
    if total.seconds > total.allowed:
        said = "the suites took %s, scripts/ledger.json allows %s on this machine"
        said %= (_clock(total.seconds), _clock(total.allowed))
        print("ledger: %s; make tests faster, or move slow variants behind --long" % said)
        ElementTree.SubElement(case, "failure", message=said)
    suite = ElementTree.Element("testsuite", name="ledger")
    suite.append(case)
    ElementTree.ElementTree(suite).write(report)


def main(arguments: List[str]) -> int:
    if arguments == ["reference"]:
        print("%.3f" % measure())
    elif len(arguments) > 2 and arguments[0] == "check":
        check(arguments[1], arguments[2:])
    else:
        print(__doc__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

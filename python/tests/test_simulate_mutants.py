# ===- test_simulate_mutants.py - Runs that nobody made --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`optimus-simulate --run` with changed profiles: an answer, or one message and exit code
1. Of clusters and files of changes 4,000 mutants are unit tests (MutantsTest)."""

import contextlib
import json
import random
import sqlite3

import pytest

from simulation import MODEL, simulate

pytestmark = pytest.mark.rotates

VALUES = [0, -1, 1, 7, 2**31, 2**62, -(2**63), 1e300, "", "gemm", "no such", b"\0\xff", None]


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa", "--accumulate")


@pytest.fixture(scope="module")
def profile(tools, library, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.profile"
    simulate(tools, library, "--profile", path)
    return path.read_bytes()


def change_values(path, drawn):
    """Of one to three columns, in some rows or all."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        for _ in range(drawn.randint(1, 3)):
            table = drawn.choice(tables)
            column = drawn.choice(
                [row[1] for row in database.execute(f"PRAGMA table_info({table})")])
            rows = drawn.choice(["", f" WHERE rowid % {drawn.randint(1, 9)} = 0", " LIMIT 1"])
            sql = f"UPDATE {table} SET {column} = ?" + rows.replace(
                " LIMIT 1", f" WHERE rowid = (SELECT min(rowid) FROM {table})")
            with contextlib.suppress(sqlite3.Error):
                database.execute(sql, (drawn.choice(VALUES),))
        database.commit()


def change_bytes(path, drawn):
    data = bytearray(path.read_bytes())
    for _ in range(drawn.randint(1, 20)):
        data[drawn.randrange(len(data))] = drawn.randrange(256)
    path.write_bytes(data[: drawn.choice([len(data), drawn.randrange(len(data))])])


@pytest.mark.parametrize("change", [change_values, change_bytes])
def test_changed_runs_are_simulated_or_refused(tools, library, profile, tmp_path, change):
    path = tmp_path / "run.profile"
    codes = []
    for seed in range(40):
        path.write_bytes(profile)
        change(path, random.Random(seed))
        found = tools.call(
            "optimus-simulate", library, "--run", path, "--scale", "gemm=0.5", "--json", "-")
        codes.append(found.returncode)
        if found.returncode == 0:
            assert json.loads(found.stdout)["step_ms"] >= 0, seed
        else:
            assert found.returncode == 1, (seed, found.stderr)
            assert found.stderr.count("error: ") == 1, (seed, found.stderr)
    assert 1 in codes

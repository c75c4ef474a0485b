# ===- test_report_input.py - Inputs that are no profiles -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""One message with the expected and the found value, the place and the remedy; exit
code 1; nothing written."""

import os
import sqlite3

import pytest

import synthetic_profile
from optimus.report.__main__ import main
from synthetic_profile import Shape


@pytest.fixture
def path(tmp_path):
    synthetic_profile.write(tmp_path / "run.profile", Shape(layers=60))
    return tmp_path / "run.profile"


def test_launcher(tools, path):
    assert "Stability" in tools.run("optimus-report", "memory", path)
    assert tools.run("optimus-report", "--version").startswith("optimus-report ")
    for command in ("memory", "timeline", "export"):
        assert "--incomplete" in tools.run("optimus-report", command, "--help")


def refused(capfd, *arguments) -> str:
    """The one line that a command says."""
    assert main([*map(str, arguments)]) == 1
    out, error = capfd.readouterr()
    assert out == "" and error.startswith("optimus-report: error: ")
    assert error.count("\n") == 1 and "Traceback" not in error
    return error


def change(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("command", ["memory", "timeline", "export"])
def test_no_profile(command, tmp_path, capfd):
    flags = ["--format=perfetto", "-o", tmp_path / "out"] if command == "export" else []
    for name, content in [("text", b"not a profile\n" * 9), ("empty", b"")]:
        (tmp_path / name).write_bytes(content)
        said = refused(capfd, command, tmp_path / name, *flags)
        assert "expected an SQLite database" in said and name in said
    assert "No such file" in refused(capfd, command, tmp_path / "none", *flags)
    assert "directory" in refused(capfd, command, tmp_path, *flags)
    assert not (tmp_path / "out").exists()


def test_a_pipe_that_may_never_begin(tmp_path, capfd):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(capfd, "memory", tmp_path / "pipe")


def test_another_database(tmp_path, capfd):
    change(tmp_path / "other.db", "CREATE TABLE t(x)")
    assert "no profile" in refused(capfd, "memory", tmp_path / "other.db")


def test_another_version(path, capfd):
    change(path, "PRAGMA user_version = 7")
    said = refused(capfd, "memory", path)
    assert "version 7" in said and "reads version 2" in said


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_cut_short(path, share, capfd):
    size = os.path.getsize(path)
    os.truncate(path, int(size * share))
    said = refused(capfd, "memory", path)
    assert "damaged" in said or "no table" in said


def test_bytes_overwritten(path, capfd):
    """Whatever is read then, there is no traceback."""
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xa5" * 64
    path.write_bytes(data)
    assert "damaged" in refused(capfd, "memory", path)


def test_not_closed(path, capfd):
    change(path, "UPDATE trace SET value = 0 WHERE key = 'complete'")
    said = refused(capfd, "memory", path)
    assert "not closed" in said and "--incomplete" in said
    assert main(["memory", str(path), "--incomplete"]) == 0


@pytest.mark.parametrize(
    "statement, named",
    [
        ("UPDATE accesses SET block = 9999 WHERE command = 3", "block 9999"),
        ("UPDATE commands SET waits_for = 9999 WHERE kind = 'wait'", "command 9999"),
        ("UPDATE commands SET queue = 9 WHERE command = 1", "queue 9"),
        ("UPDATE blocks SET first = 9999 WHERE space = 'arena'", "command 9999"),
        ("UPDATE calls SET function = 5 WHERE call = 2", "function 5"),
        ("UPDATE spans SET transfers = '[[9999,1,2]]' WHERE call = 2", "command 9999"),
        ("UPDATE spans SET commands = json_set(commands, '$[#]', json('[1,2]'))", "command"),
        ("INSERT INTO allocations SELECT call % 2, 150, 5, 1, 2, 3, 4 FROM calls", "two places"),
        ("UPDATE blocks SET bytes = 'much' WHERE space = 'arena'", "damaged"),
        ("UPDATE ranks SET coordinates = '{'", "damaged"),
        ("UPDATE spans SET commands = '[[9,1]]' WHERE call = 3", "times of call 3 end"),
        ("UPDATE spans SET commands = '[[1,2,3]]' WHERE call = 3", "damaged"),
        ("UPDATE spans SET commands = '[[1,' WHERE call = 3", "damaged"),
        ("UPDATE calls SET step = NULL WHERE call = 3", "damaged"),
        ("UPDATE blocks SET last = 1 WHERE block = 150", "blocks end"),
        ("UPDATE blocks SET bytes = -5 WHERE block = 150", "sizes"),
        ("UPDATE trace SET value = 'x' WHERE key = 'process'", "damaged"),
        ("DELETE FROM spans", "found none"),
        ("DROP TABLE accesses", "'accesses'"),
        ("UPDATE calls SET begin = NULL", "no call"),
    ],
)
def test_not_consistent(path, statement, named, capfd):
    change(path, statement)
    assert named in refused(capfd, "memory", path)


def test_different_runs(path, tmp_path, capfd):
    other = tmp_path / "other.profile"
    synthetic_profile.write(other, Shape(model_hash="ffff", process=1))
    assert "model_hash 'a1b2'" in refused(capfd, "memory", path, other)


def test_one_process_twice(path, capfd):
    assert "process 0 in both" in refused(capfd, "memory", path, path)


def test_runs_one_after_the_other(tmp_path, capfd):
    files = [tmp_path / "run.0", tmp_path / "run.1"]
    for process, file in enumerate(files):
        origin = Shape().origin_unix_ns + 10**12 * process
        shape = Shape(processes=2, process=process, origin_unix_ns=origin)
        synthetic_profile.write(file, shape)
    said = refused(capfd, "memory", *files)
    assert "begins 1000.0 s after" in said


def test_missing_process_is_said(tmp_path, capfd):
    file = tmp_path / "run.0"
    synthetic_profile.write(file, Shape(processes=3))
    assert main(["memory", str(file)]) == 0
    assert "Of 2 processes there is no file" in capfd.readouterr().out


def test_output_is_input(path, tmp_path, capfd):
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link"):
        assert "is the file that is read" in refused(capfd, "memory", path, "-o", name)
    assert path.read_bytes() == before


def test_output_that_cannot_be_written(path, tmp_path, capfd):
    said = refused(capfd, "memory", path, "-o", tmp_path / "none" / "page.html")
    assert "there is no folder" in said


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--rank", "7"], "found 7"),
        (["--steps", "x"], "found 'x'"),
        (["--steps", "9:12"], "found 9:12"),
        (["--link", "fast"], "found 'fast'"),
        (["--link", "fast=1,0"], "found 'fast=1,0'"),
        (["--colour"], "--colour"),
    ],
)
def test_flags(path, flags, named, capfd):
    assert named in refused(capfd, "memory", path, *flags)


@pytest.mark.parametrize("command", ["memory", "timeline"])
def test_sql_of_the_file_does_not_run(path, command, capfd):
    """A view may take for ever, or call what the process has."""
    change(
        path,
        "ALTER TABLE calls RENAME TO kept",
        "CREATE VIEW calls AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)"
        " SELECT i AS call, 0 AS rank, 0 AS step, 0 AS function, 1 AS begin, 2 AS end"
        " FROM n",
    )
    assert "no table 'calls'" in refused(capfd, command, path)

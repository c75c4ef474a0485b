# ===- test_output.py - What -o may be -------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Outputs are whole or not there, whatever their name leads to."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from optimus import output
from optimus.output import OutputError
from tools import default_signals

PACKAGE = Path(__file__).resolve().parents[1]


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    output.write(str(path), "new")
    assert path.read_text() == "new"
    assert permissions(path) == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_links_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/other")
    (tmp_path / "folder" / "other").symlink_to("file")
    for text in ("made", "replaced"):
        output.write(str(tmp_path / "link"), text)
        assert (tmp_path / "folder" / "file").read_text() == text
    assert (tmp_path / "folder" / "other").is_symlink()


def test_a_pipe_is_written_to(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    # More than a pipe holds.
    text = "x" * 200_000
    reader.start()
    # Until the reader is there.
    while True:
        try:
            output.write(str(path), text)
            break
        except OutputError as error:
            assert "nobody reads from it" in str(error)
    reader.join()
    assert found == [text]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize(
    "name, why",
    [
        ("", "expected the name of a file"),
        ("folder", "it is a folder"),
        ("folder/", "it is a folder"),
        ("missing/", "it is a folder"),
        ("folder/..", "it is a folder"),
        ("missing/file", "there is no folder '"),
        ("file/file", "there is no folder '"),
        ("socket", "it is a socket"),
        ("pipe", "nobody reads from it"),
        ("loop", "it is a symbolic link that leads nowhere"),
        ("dangling", "there is no folder '"),
        ("zero\0byte", "embedded null byte"),
        ("n" * 300, "File name too long"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_what_cannot_be_written(tmp_path, monkeypatch, name, why):
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    Path("file").write_text("old")
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    os.symlink("missing/file", "dangling")
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    server.close()
    before = sorted(os.listdir())
    with pytest.raises(OutputError) as error:
        output.write(name, "new")
    assert str(error.value).startswith("cannot write '%s': " % name)
    assert why in str(error.value)
    assert sorted(os.listdir()) == before
    assert Path("file").read_text() == "old"


def test_a_disk_is_not_written(tmp_path, monkeypatch):
    disk = os.stat_result([stat.S_IFBLK | 0o600, *[0] * 9])
    monkeypatch.setattr(os, "stat", lambda path: disk)
    with pytest.raises(OutputError, match="it is a disk"):
        output.write(str(tmp_path / "disk"), "new")


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("old")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="out': No space left on device"):
        output.write(str(path), "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


# Says that its temporary file is there, and waits to be ended. It wakes up often:
# Python acts on a signal between instructions, and one that comes just before a
# sleep waits for its end.
WRITER = """
import os, sys, time
from optimus import output
def wait(descriptor):
    print(flush=True)
    for _ in range(600):
        time.sleep(0.1)
os.fsync = wait
output.write(sys.argv[1], "new")
"""


def end_while_it_writes(path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        env=dict(os.environ, PYTHONPATH=str(PACKAGE)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=default_signals,
    )
    process.stdout.readline()
    (temporary,) = [name for name in os.listdir(path.parent) if name != path.name]
    assert temporary.startswith(".%s.optimus-tmp-%d-" % (path.name, process.pid))
    process.send_signal(number)
    process.communicate()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_the_old_file(tmp_path, number):
    path = tmp_path / "out"
    path.write_text("old")
    assert end_while_it_writes(path, number) == -number
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    assert end_while_it_writes(path, signal.SIGKILL) == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    assert path.read_text() == "old"
    output.write(str(path), "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_a_writer_at_work_is_left_alone(tmp_path):
    beside = tmp_path / ".out.optimus-tmp-1-1"
    with open(beside, "w") as file:
        output.fcntl.flock(file, output.fcntl.LOCK_EX)
        output.write(str(tmp_path / "out"), "new")
    assert beside.exists()


def test_others_write_a_file_whole(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(ZeroDivisionError), output.replacing(str(path)) as name:
        open(name, "w").write("half")
        assert path.read_text() == "old"
        1 / 0
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out"]
    with output.replacing(str(path)) as name:
        open(name, "w").write("new")
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(OutputError, match="expected a regular file"):
        with output.replacing("/dev/null"):
            pass

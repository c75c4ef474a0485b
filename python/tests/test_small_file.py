# ===- test_small_file.py - Files that a user names -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Whatever a name stands for, reading it ends, bounded, and says why not."""

import os
import socket
import threading

import pytest

from optimus import small_file


def refused(read, path, most=4):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError) as found:
        read(str(path), most)
    assert os.listdir("/proc/self/fd") == before
    return found.value.strerror


def test_files(tmp_path):
    path = tmp_path / "file"
    for content in (b"", b"1234"):
        path.write_bytes(content)
        assert small_file.read(str(path), 4) == content == small_file.read_or_wait(str(path), 4)
    path.write_bytes(b"12345")
    for read in (small_file.read, small_file.read_or_wait):
        assert refused(read, path) == "expected at most 4 bytes"
        assert refused(read, tmp_path) == "Is a directory"
        assert refused(read, tmp_path / "none") == "No such file or directory"
        assert refused(read, "/dev/zero").startswith(("it is not", "expected at most"))
    assert refused(small_file.read, "a\0b") == "embedded null byte"


def test_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert refused(small_file.read, path) == "it is not a regular file"
    writer = threading.Thread(target=lambda: path.write_bytes(b"1234"))
    writer.start()
    assert small_file.read_or_wait(str(path), 4) == b"1234"
    writer.join()


def test_sockets(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert refused(small_file.read, tmp_path / "socket") == "No such device or address"

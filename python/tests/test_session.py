# ===- test_session.py - What the processes of one test run share ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Threads stand for processes here: locks tell open files apart, not who
opened them."""

import fcntl
import threading
import time

import pytest

from session import Session


@pytest.fixture
def sessions(tmp_path):
    """What two processes of one run have."""
    return [Session(tmp_path / "shared") for _ in range(2)]


def test_a_file_is_made_once(sessions):
    made = []

    def make(path):
        path.write_text("half")
        time.sleep(0.05)
        path.write_text("whole")
        made.append(path)

    found = []
    threads = [
        threading.Thread(
            target=lambda each=each: found.append(each.once("x", make).read_text())
        )
        for each in sessions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["whole", "whole"]
    assert len(made) == 1


def test_what_failed_is_made_again(sessions):
    def fail(path):
        path.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        sessions[0].once("x", fail)
    path = sessions[1].once("x", lambda path: path.write_text("whole"))
    assert path.read_text() == "whole"


def is_free(lock):
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_who_is_alone_waits_for_others_and_they_wait(sessions, tmp_path):
    order = []

    def test(session, name, alone):
        with session.machine(alone):
            order.append(name)

    with sessions[0].machine(alone=False):
        together = threading.Thread(target=test, args=(sessions[1], "together", False))
        together.start()
        together.join()
        alone = threading.Thread(target=test, args=(sessions[1], "alone", True))
        alone.start()
        while is_free(tmp_path / "shared" / "gate"):
            time.sleep(0.001)
        later = threading.Thread(target=test, args=(sessions[0], "later", False))
        later.start()
        time.sleep(0.05)
        assert order == ["together"]
    alone.join()
    later.join()
    assert order == ["together", "alone", "later"]

# ===- test_tune_worker.py - Jobs of a worker ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A worker runs a job at a time, and stops one when it is told to."""

import fcntl
import json
import os
import subprocess
import sys
import time

import pytest


BEAT = {"beat": True}


def start(*command):
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=paths),
    )


@pytest.fixture
def worker():
    process = start("-m", "optimus.tune.worker")
    assert "hello" in hear(process)
    yield process
    process.stdin.close()
    assert process.wait(60) == 0


def hear(process):
    """What is no sign of life."""
    while (message := json.loads(process.stdout.readline())) == BEAT:
        pass
    return message


def tell(process, message):
    process.stdin.write((json.dumps(message) + "\n").encode())
    process.stdin.flush()


def job(folder, number, *commands):
    listed = [
        {"name": "train", "argv": ["sh", "-c", text], "log": str(folder / "log")}
        for text in commands
    ]
    return {"job": number, "folder": str(folder), "cwd": str(folder), "commands": listed}


def test_a_job_is_stopped_and_another_follows(worker, tmp_path):
    # It says that it has begun, and saves when it is told to end.
    saves = "trap 'echo saved >state; exit 143' TERM; echo >begun; sleep 600 & wait"
    tell(worker, job(tmp_path, 1, saves, "echo never >second"))
    end = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.01)
    tell(worker, {"stop": True})
    result = hear(worker)
    assert (result["job"], result["code"]) == (1, 143)
    assert (tmp_path / "state").read_text() == "saved\n"
    assert not (tmp_path / "second").exists()
    # One that comes too late stops nothing.
    tell(worker, {"stop": True})
    tell(worker, job(tmp_path, 2, "exit 0"))
    assert hear(worker)["code"] == 0


@pytest.mark.parametrize(
    "text, is_full",
    [
        ("echo x: error: No space left on device; exit 1", True),
        ("echo 'x: error: the disk has room for 3 bytes; make room'; exit 1", True),
        ("echo x: error: no such flag; exit 1", False),
    ],
)
def test_a_full_disk_is_told_apart(worker, tmp_path, text, is_full):
    tell(worker, job(tmp_path, 1, text))
    result = hear(worker)
    assert (result["code"], result["disk"]) == (1, is_full)
    assert not list(tmp_path.glob("room-*"))


def test_where_nothing_can_be_written_a_job_has_ended(worker, tmp_path):
    (tmp_path / "file").write_text("in the way of a folder")
    tell(worker, job(tmp_path / "file", 1, "exit 0"))
    result = hear(worker)
    assert result["code"] == 2 and "cannot write %s/file: " % tmp_path in result["said"]


def test_a_job_is_stopped_while_another_worker_makes_its_program(worker, tmp_path):
    """Stops that come along with their jobs, and later."""
    made = str(tmp_path / "made")
    waiting = job(tmp_path, 1, "echo never >begun")
    waiting["commands"][0].update(name="compile", makes=made)
    with open(made + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        both = "".join(json.dumps(each) + "\n" for each in (waiting, {"stop": True}))
        worker.stdin.write(both.encode())
        worker.stdin.flush()
        assert hear(worker)["code"] == 143
        tell(worker, waiting)
        time.sleep(0.1)
        tell(worker, {"stop": True})
        result = hear(worker)
    assert (result["job"], result["phase"], result["code"]) == (1, "compile", 143)
    assert not (tmp_path / "begun").exists()
    # Nothing of it is left for the next one.
    tell(worker, waiting)
    assert hear(worker)["code"] == 0 and (tmp_path / "begun").exists()


def test_a_worker_gives_signs_of_life_at_work_and_idle(tmp_path):
    text = "from optimus.tune import worker; worker.BEAT = 0.05; worker.main([])"
    process = start("-c", text)
    assert "hello" in json.loads(process.stdout.readline())
    assert json.loads(process.stdout.readline()) == BEAT
    # It ends once the test has heard beats of the job.
    tell(process, job(tmp_path, 1, "while test ! -e heard; do sleep 0.02; done"))
    for _ in range(4):
        assert json.loads(process.stdout.readline()) == BEAT
    (tmp_path / "heard").touch()
    assert hear(process)["code"] == 0
    process.stdin.close()
    assert process.wait(60) == 0


def test_the_end_of_the_scheduler_ends_a_job(worker, tmp_path):
    tell(worker, job(tmp_path, 1, "echo >begun; exec sleep 600"))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)

# ===- test_tune_files.py - Files by their hashes ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Searches whose workers share no folder with the scheduler; Slurm's commands are
stand-ins, and jobs are scripts."""

import errno
import os
import signal

import pytest

from optimus.tune import TuneError, files, worker
from optimus.tune.domains import parse
from optimus.tune.spaces import Leaf, Space
from test_tune_slurm import SPACE, cluster, ends, search

WITH_DATA = Space((*SPACE.leaves, Leaf("train.data", parse("A=data.txt"), 4)))


@pytest.fixture
def hosts(tmp_path, monkeypatch, cluster):
    """The folder in which workers have theirs; the scheduler has other files."""
    (tmp_path / "data.txt").write_text("to be or not to be")
    (tmp_path / "hosts").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "hosts"))
    return tmp_path / "hosts"


def trial(tmp_path, number=0):
    return tmp_path / "study" / "trials" / ("%06d" % number)


def test_a_checkpoint_goes_on_with_another_worker(tmp_path, monkeypatch, hosts):
    script = (
        "cp $OLDPWD/data.txt copy && mkdir -p checkpoint && pwd >>checkpoint/state && "
        "if [ $(wc -l <checkpoint/state) = 1 ]; then exit 2; fi"
    )
    _, records = search(
        tmp_path, monkeypatch, script, trials=2, space=WITH_DATA, files="sent"
    )
    assert ends(records) == [0, 1]
    assert [each["why"] for each in records if each["kind"] == "lost"] == ["fault"] * 2
    for number in range(2):
        first, second = (trial(tmp_path, number) / "checkpoint/state").read_text().split()
        assert first != second
        assert all(each.startswith(str(hosts)) for each in (first, second))
        assert (trial(tmp_path, number) / "copy").read_text() == "to be or not to be"
    assert not (tmp_path / "study/incoming").exists()
    (base,) = hosts.iterdir()
    assert list(base.iterdir()) == [], "the last worker leaves nothing"


@pytest.mark.rotates
def test_what_is_saved_after_a_signal_comes_back(tmp_path, monkeypatch, hosts):
    def watch(record, _now):
        if record["kind"] == "started":
            os.kill(os.getpid(), signal.SIGTERM)

    save = "mkdir -p checkpoint; echo saved >checkpoint/state; kill $!; exit 143"
    script = "sleep 60 & trap '%s' TERM; wait" % save
    number, _ = search(
        tmp_path, monkeypatch, script, watch=watch, workers=1, trials=1, files="sent"
    )
    assert number == signal.SIGTERM
    assert (trial(tmp_path) / "checkpoint/state").read_text() == "saved\n"


@pytest.mark.rotates
def test_a_file_that_changes_is_no_file_of_a_job(tmp_path, monkeypatch, hosts):
    monkeypatch.setattr(files, "hash_of", lambda path: "0" * 64)
    _, records = search(
        tmp_path, monkeypatch, "true", trials=1, space=WITH_DATA, files="sent"
    )
    (end,) = (each for each in records if each["kind"] == "ended")
    assert end["outcome"] == "failed"
    assert "a file of the job changed, or is gone: 0000" in end["message"]


@pytest.mark.parametrize(
    "path, is_kept",
    [
        ("study/trials/000007/log.jsonl", True),
        ("study/programs/a.so", True),
        ("study/programs/b.so", False),
        ("study/journal.jsonl", False),
        ("study/trials/000007/../../journal.jsonl", False),
        ("study/trials/000007", False),
        ("/study/trials/000007/x", False),
    ],
)
def test_a_worker_writes_what_its_job_keeps(tmp_path, path, is_kept):
    places = ["study/trials/000007/", "study/programs/a.so"]
    sender = files.Sender(
        {"spec": str(tmp_path), "study": str(tmp_path)}, files.Hashes(), str(tmp_path / "new")
    )
    sender.describe([], places)
    said = []
    empty = files.hashlib.sha256(b"").hexdigest()

    class Lines:
        readline = staticmethod(lambda: files.json.dumps({"file": path}))

    def serve():
        message = {"kept": {path: [empty, 0]}}
        sender.serve(message, Lines, lambda *each: said.append(each), lambda: None)

    if is_kept:
        serve()
        sender.take()
        assert (tmp_path / path.partition("/")[2]).exists()
    else:
        with pytest.raises(ValueError, match="no job keeps"):
            serve()
        assert said == []


@pytest.mark.parametrize("path", ["{}/outside.txt", "../outside.txt", "A=../outside.txt"])
def test_data_elsewhere_are_refused(tmp_path, path):
    (tmp_path / "outside.txt").write_text("x")
    (tmp_path / "spec").mkdir()
    values = {"train.data": path.format(tmp_path), "train.lr": 0.1}
    with pytest.raises(TuneError, match="train.data: expected a path in .*spec.*, found"):
        list(files.inputs_of(values, str(tmp_path / "spec")))


def test_data_are_found_by_their_flags(tmp_path):
    for name in ("a.bin", "a.bin.json", "b.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "store").mkdir()
    values = {"train.data": "A=a.bin,B=store", "train.eval-data": "b.txt", "model.name": "c"}
    assert list(files.inputs_of(values, str(tmp_path))) == [
        "a.bin",
        "a.bin.json",
        "store",
        "b.txt",
    ]


def test_a_worker_whose_disk_is_full_reads_a_file_to_its_end(monkeypatch):
    """What follows on the connection are messages again."""
    class Full:
        @staticmethod
        def write(_piece):
            raise OSError(errno.ENOSPC, "No space left on device")

    sent = b'{"piece": 3}\nabc{"piece": 4}\nde}\n{"piece": 0}\n{"stop": true}\n'
    reading, writing = os.pipe()
    os.write(writing, sent)
    os.close(writing)
    given = worker.Worker()
    monkeypatch.setattr(given, "_say", lambda message: None)
    monkeypatch.setattr(worker.os, "read", lambda _, count, read=os.read: read(reading, count))
    monkeypatch.setattr(given, "_hears", lambda *each: [0])
    with pytest.raises(OSError, match="No space left"):
        given._fetch("0" * 64, Full)
    assert given._line() == b'{"stop": true}'
    os.close(reading)


def test_a_link_is_no_folder_for_workers(tmp_path, monkeypatch):
    """Folders beside its own, which a worker removes, would be others'."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = tmp_path / "home" / "mail"
    kept.mkdir(parents=True)
    (kept / "lock").touch()
    (tmp_path / ("optimus-tune-%d" % os.getuid())).symlink_to(tmp_path / "home")
    with pytest.raises(OSError, match="expected a folder of this user .* or a link"):
        files.Mirror("name")
    assert (kept / "lock").exists()

# ===- test_tune_dask.py - Workers on a cluster of Dask ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Searches whose workers are tasks of Dask.distributed, on processes of this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from optimus.tune import TuneError, dask, wheels
from test_tune import command, ends, history, journal, run, running, write_spec
from tools import succeed

CLUSTER = """
import sys, distributed
if __name__ == "__main__":
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
    cluster.close()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Its address. Ours need not be importable there."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "cluster.py").write_text(CLUSTER)
    try:
        dask.load()
    except TuneError as error:
        pytest.skip(str(error))
    environment = {**os.environ, "PYTHONPATH": os.environ.get("OPTIMUS_TUNE_CACHE", wheels.CACHE)}
    process = subprocess.Popen(
        [sys.executable, folder / "cluster.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=folder,
    )
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(60)


@pytest.fixture
def folder(tmp_path, text):
    (tmp_path / "text.txt").write_bytes(text.read_bytes()[:4000])
    return tmp_path


@pytest.mark.rotates
@pytest.mark.parametrize("files", ["shared", "sent"])
def test_trials_run_on_dask_and_a_killed_worker_is_replaced(tools, folder, cluster, files):
    """The history is that of local workers."""
    write_spec(folder, trials=4, steps=100)
    succeed(run(tools, folder, "-o", folder / "local"))
    (folder / "pool.toml").write_text(
        "[dask]\nscheduler = '%s'\nhost = '127.0.0.1'\npoll_seconds = 0.5\nfiles = '%s'\n"
        % (cluster, files)
    )
    study = folder / "study"
    process = subprocess.Popen(
        command(
            tools, "run", folder / "spec.toml", "--pool", folder / "pool.toml", "-o", study
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    victim, deadline = None, time.monotonic() + 60
    while victim is None:
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            if any(each["kind"] == "started" for each in journal(study)):
                victim = next(iter(workers_of(study)), None)
    os.kill(victim, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert history(study) == history(folder / "local")
    assert {end["outcome"] for end in ends(study).values()} == {"done"}
    names = {each["worker"] for each in journal(study) if each["kind"] == "worker"}
    assert names == {"d0", "d1"}
    assert not running(folder)
    assert list((study / "dask").glob("*.json")) == [], "the secret is gone"


def workers_of(study):
    """Those with its files, or where files are sent, with folders of this execution."""
    marks = [str(study), *(path.stem for path in (study / "dask").glob("*.json"))]
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % each, encoding="utf-8") as file:
                line = file.read().split("\0")
            place = " ".join([*line, os.readlink("/proc/%s/cwd" % each)])
            if "optimus.tune.worker" in line and any(mark in place for mark in marks):
                yield int(each)


@pytest.mark.parametrize(
    "text, message",
    [
        ("workers = 2", "dask: expected scheduler, its address, found none"),
        ("scheduler = 3", "dask: scheduler: expected a text, found 3"),
        ("scheduler = 'tcp://a:1'\nworkers = 0", "workers: expected a whole number above 0"),
        ("schedule = 'tcp://a:1'", "dask: expected one of files, host, poll_seconds"),
        (
            "scheduler = 'tcp://a:1'\nfiles = 'mailed'",
            "files: expected shared or sent, found mailed",
        ),
        ("scheduler = 'tcp://a:1'\n[slurm]", "expected one table"),
    ],
)
def test_a_mistake_in_a_pool_is_one_message(tmp_path, text, message):
    (tmp_path / "pool.toml").write_text("[dask]\n" + text)
    with pytest.raises(TuneError, match=message):
        dask.read_pool(str(tmp_path / "pool.toml"))


def test_without_dask_its_pool_is_refused_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMUS_TUNE_CACHE", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TuneError, match="expected Dask.distributed.*scripts/setup --tune"):
        dask.client_of(dask.Settings("tcp://127.0.0.1:1"))


@pytest.mark.rotates
def test_a_scheduler_that_is_not_there_is_one_message(tools, folder, monkeypatch):
    try:
        dask.load()
    except TuneError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(dask, "SECONDS", 1)
    with pytest.raises(TuneError, match="cannot reach Dask's scheduler at tcp://127.0.0.1:1: "):
        dask.client_of(dask.Settings("tcp://127.0.0.1:1"))

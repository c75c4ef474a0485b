# ===- test_job_secrets.py - Who may join a job ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks that meet over TCP listen where others are, and nowhere else; beyond their host
they need a secret."""

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from test_launchers import (
    FLAGS,
    RANKS,
    by_torchrun,
    finish,
    library,
    nothing_is_left,
    ports,
    size_of,
    start,
    wait_until,
    with_flags_of_rank_2,
)
from tools import call

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def own_address():
    """Of this host, other than the loopback device's; nothing where it has none."""
    words = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True).stdout
    return next((word for word in words.split() if word.count(".") == 3), None)


def listening(processes):
    """The addresses at which these processes listen."""
    sockets = set()
    for process in processes:
        for descriptor in Path("/proc/%d/fd" % process).iterdir():
            sockets.add(os.readlink(descriptor)[len("socket:[") : -1])
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in sockets:
            number = int(words[1].split(":")[0], 16).to_bytes(4, "little")
            found.add(socket.inet_ntoa(number))
    return found


def by_secret(secrets, host="127.0.0.1"):
    """By hand, each with its secret."""

    def launcher(rank, ranks, port):
        flags = ["--rank", rank, "--ranks", ranks]
        flags += ["--rendezvous", "%s:%d" % (host, port)]
        secret = secrets[rank]
        return list(map(str, flags)), {"OPTIMUS_JOB_SECRET": secret} if secret else {}

    return launcher


@pytest.mark.parametrize("beyond", [False, True])
def test_ranks_listen_only_where_others_are(tools, library, text, tmp_path, beyond):
    host = own_address() if beyond else "127.0.0.1"
    if not host:
        pytest.skip("this host has no other address than the loopback device's")
    log = tmp_path / "log"
    command = tools.train_command(library, text, 1_000_000, *FLAGS, log=log)
    jobs = start(command, by_secret(["a secret"] * RANKS, host))
    wait_until(lambda: size_of(log))
    found = listening([job.pid for job in jobs])
    assert found == ({"0.0.0.0"} if beyond else {"127.0.0.1"})
    jobs[0].send_signal(signal.SIGTERM)
    assert finish(jobs)[0][0] == 128 + signal.SIGTERM


def test_another_secret_is_said_by_both_sides(tools, library, text):
    command = tools.train_command(library, text, 1, *FLAGS)
    secrets = ["a secret"] * (RANKS - 1) + ["another"]
    results = finish(start(command, by_secret(secrets)))
    assert [code for code, _, _ in results] == [1] * RANKS
    (by_host, by_guest) = [errors for _, _, errors in results if "error:" in errors]
    assert re.search(
        r"rank 3 \(process \d+ on \S+\) has another secret of the job than "
        r"rank 0 \(process \d+ on \S+\); give all ranks the same",
        by_host,
    ), by_host
    assert re.search(
        r"rank 3 \(process \d+ on \S+\) at .*: rank 0 \(process \d+ on \S+\) "
        r"has another secret of the job; give all ranks the same",
        by_guest,
    ), by_guest


def test_beyond_this_host_ranks_need_a_secret(tools, library, text, tmp_path):
    host = own_address()
    if not host:
        pytest.skip("this host has no other address than the loopback device's")
    command = tools.train_command(library, text, 1, *FLAGS)
    flags, _ = by_secret([None] * RANKS, host)(1, RANKS, next(ports))
    result = call([*command, *flags])
    assert result.returncode == 1
    assert "rank 1 meets rank 0 at %s:" % host in result.stderr
    assert "OPTIMUS_JOB_SECRET or --secret-file" in result.stderr
    # Rank 0 makes one, with which the others meet it.
    port = next(ports)
    flags, _ = by_secret([None] * RANKS, host)(0, RANKS, port)
    jobs = start([*command, *flags], lambda *_: ([], {}), ranks=1)
    (secret,) = re.findall("OPTIMUS_JOB_SECRET=(.*)", jobs[0].stderr.readline())
    kept = tmp_path / "secret"
    kept.touch(mode=0o600)
    kept.write_text(secret + "\n")
    for rank in range(1, RANKS):
        flags, _ = by_secret([None] * RANKS, host)(rank, RANKS, port)
        flags += ["--secret-file", str(kept), "--bind", host]
        jobs += start([*command, *flags], lambda *_: ([], {}), ranks=1)
    results = finish(jobs)
    assert [code for code, _, _ in results] == [0] * RANKS, results


def test_a_launcher_that_starts_ranks_elsewhere_needs_a_secret(tools, library, text):
    def elsewhere(rank, ranks, port):
        flags, variables = by_torchrun(rank, ranks, port)
        return flags, {**variables, "MASTER_ADDR": "192.0.2.1"}

    command = tools.train_command(library, text, 1, *FLAGS)
    results = finish(start(command, elsewhere))
    assert [code for code, _, _ in results] == [1] * RANKS
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "torchrun started 4 processes, which meet at 192.0.2.1:" in message
    assert "export OPTIMUS_JOB_SECRET=" in message


@pytest.mark.parametrize(
    "content, mode, message",
    [
        (None, 0o600, "secret"),
        ("\n", 0o600, "is empty"),
        ("known", 0o644, "is open to other users; chmod 600 it"),
    ],
)
def test_secret_files_that_are_none(tools, library, text, tmp_path, content, mode, message):
    kept = tmp_path / "secret"
    if content is not None:
        kept.write_text(content)
        kept.chmod(mode)
    flags = ["--rank", 0, "--ranks", 4, "--rendezvous", "127.0.0.1:%d" % next(ports)]
    command = tools.train_command(library, text, 1, *flags, "--secret-file", kept)
    result = call(command)
    assert result.returncode == 1
    assert message in result.stderr and str(kept) in result.stderr


def test_a_rank_without_its_secret_says_so(tools, library, text, tmp_path):
    """To rank 0 it is just one that does not come."""
    command = tools.train_command(library, text, 1, *FLAGS, "--timeout", 2)
    launcher = with_flags_of_rank_2("--secret-file", tmp_path / "none")
    results = finish(start(command, launcher))
    assert [code for code, _, _ in results] == [1] * RANKS
    assert "error: rank 2: --secret-file: cannot open %s" % (tmp_path / "none") in results[2][2]
    assert "rank 2 of 4 did not come" in results[0][2]

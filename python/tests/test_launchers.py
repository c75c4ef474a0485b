# ===- test_launchers.py - Who starts ranks, and where they meet ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks as threads, over MPI and over TCP are the same ranks, whoever started
them; what cannot meet is refused by name."""

import contextlib
import itertools
import json
import os
import platform
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    Model,
    call,
    mpirun,
    read_log,
    succeed,
)

MODEL = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
RANKS = 4
FLAGS = ["--threads-per-rank", 1, "--lr", 3e-3]

needs_mpirun = pytest.mark.skipif(
    not shutil.which("mpirun"), reason="mpirun is not installed"
)
# Ports that Linux gives to nobody by itself, from 62000 to 65480 and round again;
# other workers begin elsewhere.
worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
ports = (
    62000 + number % 175 * 20 for number in itertools.count(44 * worker + os.getpid() % 40)
)


def by_hand(rank, ranks, port):
    flags = ["--rank", rank, "--ranks", ranks, "--rendezvous", "127.0.0.1:%d" % port]
    return list(map(str, flags)), {}


def by_torchrun(rank, ranks, port):
    return [], dict(
        RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="localhost",
        MASTER_PORT=str(port),
        TORCHELASTIC_RUN_ID="none",
        TORCHELASTIC_USE_AGENT_STORE="True",
    )


def by_srun(rank, ranks, port):
    return [], dict(
        SLURM_JOB_ID=str(port),
        SLURM_STEP_ID="0",
        SLURM_STEP_NUM_TASKS=str(ranks),
        SLURM_PROCID=str(rank),
        SLURM_LOCALID=str(rank),
        SLURM_STEP_NODELIST="localhost",
    )


# After so many synchronizations of a rank's device, bit 3 of which byte.
FLIP = "20:0"

LAUNCHERS = [by_hand, by_torchrun, by_srun]

started = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    """A failing test's processes end with it."""
    yield
    while started:
        job = started.pop()
        if job.poll() is None:
            job.kill()
            job.communicate()


def start(command, launcher, ranks=RANKS, numbers=None, **options):
    """Starts the processes of a job as a launcher does."""
    port = next(ports)
    jobs = []
    for rank in numbers or range(ranks):
        flags, variables = launcher(rank, ranks, port)
        jobs.append(
            subprocess.Popen(
                [*command, *flags],
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                **options,
            )
        )
        started.append(jobs[-1])
    return jobs


def finish(jobs):
    """(exit code, output, errors) of each."""
    said = [job.communicate(timeout=TIMEOUT_SECONDS) for job in jobs]
    return [(job.returncode, *texts) for job, texts in zip(jobs, said)]


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, "row:2,col:2", "summa")


def saved(folder):
    names = ("model.safetensors", "optimizer.safetensors")
    return [(folder / name).read_bytes() for name in names]


@pytest.fixture(scope="module")
def threads(tools, library, text, tmp_path_factory):
    """What ranks as threads make of three steps."""
    folder = tmp_path_factory.mktemp("threads") / "saved"
    succeed(call(tools.train_command(library, text, 3, *FLAGS, "--save", folder)))
    return saved(folder)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_same_bits_over_tcp(tools, library, text, tmp_path, threads, launcher):
    command = tools.train_command(
        library, text, 3, *FLAGS, "--save", tmp_path / "saved"
    )
    results = finish(start(command, launcher))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    assert "4 ranks (tcp)" in results[0][1]
    # One speaks.
    assert [output for _, output, _ in results[1:]] == [""] * (RANKS - 1)
    assert saved(tmp_path / "saved") == threads


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="DNNL_MAX_CPU_ISA names instructions of x86",
)
def test_ranks_on_unlike_processors_are_said(tools, library, text):
    """As on a cluster of processors with and without AVX."""

    def run(differs):
        def launch(rank, ranks, port):
            flags, _ = by_hand(rank, ranks, port)
            least = {"DNNL_MAX_CPU_ISA": "SSE41"}
            return flags, least if rank in differs else {}

        jobs = start(tools.train_command(library, text, 1, *FLAGS), launch)
        results = finish(jobs)
        assert [code for code, _, _ in results] == [0] * RANKS
        return [
            line
            for _, _, errors in results
            for line in errors.splitlines()
            if "compute differently" in line
        ]

    (line,) = run({2, 3})
    assert re.search(r"rank 0 by oneDNN [0-9.]+ with AVX\w*, attention with \w+", line)
    assert re.search(r"rank 2 by oneDNN [0-9.]+ with SSE41, attention with base", line)
    assert run(set()) == run(set(range(RANKS))) == []


@pytest.mark.variants
@needs_mpirun
@pytest.mark.parametrize("backend", ["mpi", "tcp"])
def test_the_same_bits_under_mpirun(
    tools, library, text, tmp_path, threads, backend
):
    flags = [*FLAGS, "--backend", backend, "--save", tmp_path / "saved"]
    command = tools.train_command(library, text, 3, *flags)
    assert "4 ranks (%s)" % backend in succeed(call([*mpirun(RANKS), *command]))
    assert saved(tmp_path / "saved") == threads


def serve_pmi(proxy, entries, barrier):
    """Answers a rank as MPICH's mpiexec does over PMI_FD."""
    with proxy, proxy.makefile("rw") as lines:
        for line in lines:
            words = dict(word.split("=", 1) for word in line.split())
            if words["cmd"] == "put":
                entries[words["key"]] = words["value"]
            elif words["cmd"] == "barrier_in":
                barrier.wait(TIMEOUT_SECONDS)
            answers = {
                "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                "get_my_kvsname": "my_kvsname kvsname=kvs_%d" % os.getpid(),
                "put": "put_result rc=0 msg=success",
                "barrier_in": "barrier_out",
                "get": "get_result rc=0 msg=success value=%s"
                % entries.get(words.get("key")),
                "finalize": "finalize_ack",
            }
            lines.write("cmd=%s\n" % answers[words["cmd"]])
            lines.flush()


@pytest.mark.parametrize("backend", [[], ["--backend", "tcp"]])
def test_the_same_bits_under_the_mpiexec_of_mpich(
    tools, library, text, tmp_path, threads, backend
):
    flags = [*FLAGS, *backend, "--save", tmp_path / "saved"]
    command = tools.train_command(library, text, 3, *flags)
    entries, barrier = {}, threading.Barrier(RANKS)
    ends = [socket.socketpair() for _ in range(RANKS)]
    for proxy, _ in ends:
        arguments = (proxy, entries, barrier)
        threading.Thread(target=serve_pmi, args=arguments, daemon=True).start()

    def by_mpiexec(rank, ranks, port):
        descriptor = ends[rank][1].fileno()
        os.set_inheritable(descriptor, True)
        variables = dict(PMI_RANK=rank, PMI_SIZE=ranks, PMI_FD=descriptor)
        variables["MPI_LOCALRANKID"] = rank
        return [], {name: str(value) for name, value in variables.items()}

    results = finish(start(command, by_mpiexec, close_fds=False))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    assert "4 ranks (tcp)" in results[0][1]
    assert saved(tmp_path / "saved") == threads


def wait_until(condition):
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def size_of(path):
    return path.stat().st_size if path.exists() else 0


# What launchers set when they start a job again: torchrun --max-restarts, and
# srun in a script that sbatch --requeue has queued again.
RESTARTS = [
    (by_torchrun, "TORCHELASTIC_RESTART_COUNT"),
    (by_srun, "SLURM_RESTART_COUNT"),
    (by_hand, "ATTEMPT"),
]


def log_lines(log):
    return log.read_text().count("\n") if log.exists() else 0


@pytest.mark.variants
@pytest.mark.parametrize("launcher, count", RESTARTS)
def test_a_restarted_job_goes_on(tools, library, text, tmp_path, launcher, count):
    """A rank dies, and the launcher starts the same command again."""
    steps = 400
    folder, log, whole = (tmp_path / name for name in ("saved", "log", "whole"))
    flags = [*FLAGS, "--save", folder, "--save-every", 2, "--timeout", 60]
    command = tools.train_command(library, text, steps, *flags, "--resume", log=log)

    def restarted(attempt):
        def variables(rank, ranks, port):
            flags, known = launcher(rank, ranks, port)
            return flags, {**known, count: str(attempt)}

        return variables

    jobs = start(command, restarted(0))
    end = time.monotonic() + TIMEOUT_SECONDS
    # The save after step 6 has waited for the end of the one after step 4.
    while log_lines(log) < 8 and time.monotonic() < end:
        time.sleep(0.005)
    jobs[2].send_signal(signal.SIGKILL)
    results = finish(jobs)
    assert results[2][0] == -signal.SIGKILL, "the job was over before it was killed"
    reached = json.loads((folder / "state.json").read_text())["step"]
    assert 4 <= reached < steps
    # Without --resume it would begin anew, over what it has: refused.
    careless = [word for word in command if word != "--resume"]
    before = saved(folder)
    results = finish(start(careless, restarted(1)))
    assert [code for code, _, _ in results] == [1] * RANKS
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "has a checkpoint of step %d" % reached in message
    assert "--resume" in message and saved(folder) == before
    # A shorter way to the end than the whole run's.
    last = str(reached + 4)
    command[command.index("--steps") + 1] = last
    results = finish(start(command, restarted(1)))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    assert "going on after step %d" % reached in results[0][1]
    tools.train(library, text, last, *FLAGS, log=whole)
    taken, expected = (
        [(line["step"], line["loss"]) for line in read_log(path)] for path in (log, whole)
    )
    assert taken == expected


@pytest.mark.parametrize("having", [0, 1])
def test_machines_that_do_not_share_the_folder_are_told(
    tools, text, tmp_path, having
):
    """One machine has a checkpoint and another has none: neither is right."""
    library = tools.library(MODEL, "data:2", "data")
    folders = [tmp_path / "machine-0", tmp_path / "machine-1"]
    for folder in folders:
        folder.mkdir()
    flags = [*FLAGS, "--save", "saved", "--resume"]
    command = tools.train_command(library, text, 3, *flags)
    command[0] = os.path.abspath(command[0])
    succeed(call(command, cwd=str(folders[having])))
    port = next(ports)
    jobs = []
    for rank, folder in enumerate(folders):
        where, variables = by_torchrun(rank, 2, port)
        jobs += start(
            [*command, *where], lambda *_: ([], variables), numbers=[rank], cwd=str(folder)
        )
    results = finish(jobs)
    assert [code for code, _, _ in results] == [1, 1], results
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "disagree on the checkpoint of --resume" in message
    assert "none" in message and "step 3 with" in message




@needs_mpirun
@pytest.mark.parametrize("terminal", [False, True])
def test_lines_are_rewritten_only_where_mpirun_is_on_a_terminal(
    tools, library, text, terminal
):
    command = [*mpirun(RANKS), *tools.train_command(library, text, 3, *FLAGS)]
    environment = {**os.environ, "TERM": "xterm"}
    if not terminal:
        # Rank 0 has a terminal all the same, of mpirun's.
        output = succeed(call(command, env=environment))
        assert "\x1b" not in output and "step 3/3 | loss" in output
        return
    control, screen = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=screen) as job:
        os.close(screen)
        output = b""
        # Its end is an error.
        with contextlib.suppress(OSError):
            while part := os.read(control, 4096):
                output += part
    os.close(control)
    assert job.returncode == 0
    assert b"\x1b[K" in output


def test_a_killed_rank_is_named(tools, library, text, tmp_path):
    log = tmp_path / "log"
    command = tools.train_command(library, text, 1_000_000, *FLAGS, log=log)
    jobs = start(command, by_hand)
    wait_until(lambda: size_of(log))
    jobs[2].send_signal(signal.SIGKILL)
    results = finish(jobs)
    assert [code for code, _, _ in results] == [1, 1, -signal.SIGKILL, 1]
    said = "".join(errors for _, _, errors in results)
    place = "; rank 2 ran as process %d on " % jobs[2].pid
    assert re.search("error: rank 2 died; it .*" + place, said), said
    assert said.count("optimus-run: error:") == 1, said


def descendants(process):
    children = Path("/proc/%d/task/%d/children" % (process, process)).read_text()
    below = [descendants(int(child)) for child in children.split()]
    return sum(below, [int(child) for child in children.split()])


def start_ranks(backend, command):
    """The processes that this test started, and those of the job."""
    if backend == "tcp":
        jobs = start(command, by_hand)
        return jobs, [job.pid for job in jobs]
    prefix = mpirun(RANKS) if backend == "mpi" else []
    jobs = start([*prefix, *command], lambda *_: ([], {}), ranks=1)
    if backend == "mpi":
        wait_until(lambda: len(descendants(jobs[0].pid)) >= RANKS)
    return jobs, [jobs[0].pid, *descendants(jobs[0].pid)]


@pytest.mark.variants
@pytest.mark.parametrize(
    "backend", ["threads", pytest.param("mpi", marks=needs_mpirun), "tcp"]
)
def test_a_suspended_job_goes_on(tools, library, text, tmp_path, backend):
    log, timeout = tmp_path / "log", 1.5
    flags = [*FLAGS, "--timeout", timeout]
    command = tools.train_command(library, text, 1_000_000, *flags, log=log)
    jobs, processes = start_ranks(backend, command)
    # Twice, since a rank that waits for none when it is stopped shows little.
    for _ in range(2):
        before = size_of(log)
        wait_until(lambda: size_of(log) > before)
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        time.sleep(2 * timeout)
        for process in processes:
            os.kill(process, signal.SIGCONT)
    # Whoever was to blame would be named by now.
    time.sleep(timeout)
    jobs[0].send_signal(signal.SIGUSR1)
    results = finish(jobs)
    errors = "".join(errors for _, _, errors in results)
    assert "optimus-run: error:" not in errors, errors
    assert "SIGUSR1" in results[0][1] + errors


def test_a_rank_that_is_stopped_alone_is_named(tools, library, text, tmp_path):
    log = tmp_path / "log"
    flags = [*FLAGS, "--timeout", 1.5]
    command = tools.train_command(library, text, 1_000_000, *flags, log=log)
    jobs = start(command, by_hand)
    wait_until(lambda: size_of(log))
    jobs[2].send_signal(signal.SIGSTOP)
    results = finish([job for job in jobs if job is not jobs[2]])
    jobs[2].kill()
    finish([jobs[2]])
    assert [code for code, _, _ in results] == [1] * 3
    said = "".join(errors for _, _, errors in results)
    assert re.search(r"error: rank 2 (was not heard of for|stalled)", said), said


def test_a_rank_that_does_not_come_is_named(tools, library, text):
    command = tools.train_command(library, text, 1, *FLAGS, "--timeout", 2)
    results = finish(start(command, by_hand, numbers=[0, 1, 3]))
    assert [code for code, _, _ in results] == [1, 1, 1]
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "rank 2 of 4 did not come to 127.0.0.1:" in message
    assert "within 2 s" in message


def test_a_rank_that_comes_twice_is_named(tools, library, text):
    command = tools.train_command(library, text, 1, *FLAGS)
    results = finish(start(command, by_hand, numbers=[0, 1, 1]))
    assert [code for code, _, _ in results] == [1, 1, 1]
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "two processes are rank 1: process " in message


def test_other_numbers_of_ranks_than_the_mesh(tools, library, text):
    command = tools.train_command(library, text, 1, *FLAGS)
    results = finish(start(command, by_torchrun, ranks=2))
    assert [code for code, _, _ in results] == [1, 1]
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "4 ranks, but torchrun started 2; start 4" in message


def test_another_number_of_ranks_is_refused_before_anybody_waits(
    tools, library, text
):
    variables = dict(RANK="0", WORLD_SIZE="2", MASTER_ADDR="localhost")
    variables["MASTER_PORT"] = str(next(ports))
    begin = time.monotonic()
    command = tools.train_command(library, text, 1, "--timeout", TIMEOUT_SECONDS)
    result = call(command, env={**os.environ, **variables})
    assert result.returncode == 1
    assert "4 ranks, but torchrun started 2; start 4" in result.stderr
    assert time.monotonic() - begin < TIMEOUT_SECONDS / 4


def with_flags_of_rank_2(*more):
    def launcher(rank, ranks, port):
        flags, variables = by_hand(rank, ranks, port)
        return flags + (list(map(str, more)) if rank == 2 else []), variables

    return launcher


def test_a_rank_without_the_data_is_named(tools, library, text, tmp_path):
    command = tools.train_command(library, text, 1, *FLAGS)
    results = finish(start(command, with_flags_of_rank_2("--data", tmp_path / "none.txt")))
    assert [code for code, _, _ in results] == [1] * RANKS
    (message,) = [errors for _, _, errors in results if "error:" in errors]
    assert "error: rank 2: cannot open %s" % (tmp_path / "none.txt") in message


def with_flipped_bit(rank_of_it, place):
    """By hand; one rank's memory fails."""

    def launcher(rank, ranks, port):
        flags, variables = by_hand(rank, ranks, port)
        if rank == rank_of_it:
            variables = {**variables, "OPTIMUS_HIDDEN_FLIP": place}
        return flags, variables

    return launcher


def test_a_flipped_bit_is_found_in_copies(tools, text, tmp_path, monkeypatch):
    device = tools.binaries.parent / "lib" / "liboptimus_device_hidden.so"
    monkeypatch.setenv("OPTIMUS_DEVICE_CPU_LIBRARY", str(device))
    library = tools.library(MODEL, "data:4", "data")
    flags = [*FLAGS, "--check-replicas", 1, "--save", tmp_path / "saved"]
    command = tools.train_command(library, text, 6, *flags)
    results = finish(start(command, by_hand))
    assert [code for code, _, _ in results] == [0] * RANKS, results
    found = finish(start(command + ["--overwrite"], with_flipped_bit(2, FLIP)))
    assert [code for code, _, _ in found] == [1] * RANKS, found
    (message,) = [errors for _, _, errors in found if "error:" in errors]
    assert re.search(
        r"--check-replicas after step \d: `\S+` \(parameter\) should be the same on "
        r"these ranks: rank 2 on \S+ holds another copy than ranks 0 on",
        message,
    ), message


# What differs on no rank, on meshes of every kind.
@pytest.mark.variants
@pytest.mark.parametrize(
    "mesh, strategy",
    [("row:2,col:2", "summa"), ("row:1,col:4", "megatron"), ("data:2,row:1,col:2", "megatron")],
)
def test_copies_are_the_same_to_the_bit(tools, text, mesh, strategy):
    library = tools.library(MODEL, mesh, strategy)
    flags = [*FLAGS, "--check-replicas", 1]
    succeed(call(tools.train_command(library, text, 4, *flags)))


REFUSED = {
    "no meeting point": (
        dict(RANK="0", WORLD_SIZE="2"),
        [],
        "torchrun started 2 processes, and nothing says where they meet",
    ),
    "MVAPICH2": (
        dict(MV2_COMM_WORLD_RANK="0", MV2_COMM_WORLD_SIZE="2"),
        ["--backend", "tcp"],
        "MVAPICH2's mpirun started 2 processes, and nothing says where they meet",
    ),
    "threads of several processes": (
        dict(OPTIMUS_RANK="0", OPTIMUS_RANKS="2"),
        ["--backend", "local"],
        "--backend local runs all ranks in one process, but --ranks is 2",
    ),
    "MPI that no MPI started": (
        dict(RANK="0", WORLD_SIZE="2"),
        ["--backend", "mpi"],
        "--backend mpi needs processes that an MPI's launcher started, but torchrun",
    ),
    "nobody says who this is": (
        {},
        ["--backend", "tcp", "--rendezvous", "127.0.0.1:61440"],
        "--backend tcp was asked for, and nothing says which of how many",
    ),
    "a secret of threads": (
        {},
        ["--secret-file", "secret"],
        "--secret-file is for ranks that meet over TCP, and these are threads",
    ),
    "an empty secret": (
        dict(OPTIMUS_RANK="0", OPTIMUS_RANKS="4", OPTIMUS_JOB_SECRET=""),
        ["--rendezvous", "127.0.0.1:61440"],
        "OPTIMUS_JOB_SECRET is set and empty",
    ),
    "an address that is none": (
        dict(OPTIMUS_RANK="0", OPTIMUS_RANKS="4"),
        ["--rendezvous", "127.0.0.1:61440", "--bind", "here"],
        "--bind: expected an IPv4 address of this host, as 10.0.0.2, found here",
    ),
    "no port": (
        dict(OPTIMUS_RANK="0", OPTIMUS_RANKS="2"),
        ["--rendezvous", "here"],
        "--rendezvous (OPTIMUS_RENDEZVOUS) is `here`, expected HOST:PORT",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(tools, library, text, name):
    variables, flags, message = REFUSED[name]
    command = tools.train_command(library, text, 1, *flags)
    result = call(command, env={**os.environ, **variables})
    assert result.returncode == 1
    assert message in result.stderr


def test_a_port_that_is_taken_is_named(tools, library, text):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ["--rank", 0, "--ranks", RANKS, "--rendezvous", "127.0.0.1:%d" % port]
        result = call(tools.train_command(library, text, 1, *flags))
    assert result.returncode == 1
    assert "cannot listen on port %d" % port in result.stderr


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.skipif(
    not all(map(shutil.which, ["mpirun", "mpicc"])), reason="no MPI is installed"
)
def test_64_ranks_meet_in_time(tools):
    command = [REPOSITORY / "bench/run", "launch", "--no-build", "--build", tools.binaries.parent]
    succeed(call([sys.executable, *map(str, command), "--rounds", "1"]))

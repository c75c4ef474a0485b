# ===- test_nccl.py - Ranks with a GPU each, over NCCL, without either -----===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""optimus-run --backend nccl on the fake driver and the fake NCCL.

The fake NCCL adds in rank order on the host, as kernels of `local` do on a GPU shared
by all ranks, so both must give the same bits. Real NCCL adds in an order of its own."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from test_launchers import by_hand, by_srun, by_torchrun, finish, start
from tools import (
    EMULATED,
    TIMEOUT_SECONDS,
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    mpirun,
    read_log,
    succeed,
)

GPT2 = Model(layers=1, hidden=16, heads=4, sequence=8, vocabulary=256, batch=4)
STEPS = 3
MESHES = {
    "data:2": ("data:2", "data"),
    "2x2": ("row:2,col:2", "summa"),
    "1x4": ("row:1,col:4", "megatron"),
}
FLAGS = ["--seed", 1, "--lr", 1e-2]
NCCL = ["--backend", "nccl", "--timeout", 60]
#: Those that put collectives on queues of GPUs.
QUEUED = pytest.mark.parametrize("backend", [NCCL, ["--backend", "local"]], ids=["nccl", "local"])
needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")


def compiled(tools, mesh, precision="f32"):
    return tools.library(GPT2, *MESHES[mesh], *EMULATED, "--precision", precision)


def ranks_of(mesh):
    return 2 if mesh == "data:2" else 4


@pytest.fixture
def gpus(tools, tmp_path, monkeypatch):
    """Four fake GPUs and a fake NCCL for whatever a test starts."""
    for name, value in tools.fake_gpu(count=4).items():
        monkeypatch.setenv(name, value)
    # Collectives of all axes take turns.
    monkeypatch.setenv("OPTIMUS_FAKE_NCCL_ROOM", "1")
    # Where members of communicators meet; what is ended leaves something.
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def outcome(command, ranks_are, ranks=4):
    """The exit codes of a job's processes, and what all of them say of errors."""
    if ranks_are == "threads":
        result = call(command)
        return [result.returncode], result.stderr
    said = finish(start(command, by_hand, ranks=ranks))
    return [code for code, _, _ in said], "".join(text for _, _, text in said)


def results(folder):
    kinds = ("loss", "grad_norm", "eval_loss")
    numbers = [tuple(map(line.get, kinds)) for line in read_log(folder / "log")]
    parameters = Checkpoint(folder / "saved").parameters
    return numbers, {name: values.tobytes() for name, values in parameters.items()}


def train_command(tools, library, text, folder, *flags):
    folder.mkdir()
    flags = [*FLAGS, "--save", folder / "saved", *flags]
    return tools.train_command(library, text, STEPS, *flags, log=folder / "log")


@pytest.fixture
def local(tools, gpus, text, tmp_path):
    """What ranks of a mesh make of the steps on one GPU."""

    def train(mesh, precision="f32"):
        folder = tmp_path / "local"
        library = compiled(tools, mesh, precision)
        succeed(call(train_command(tools, library, text, folder)))
        return results(folder)

    return train


@pytest.mark.variants
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("mesh", MESHES)
def test_threads_have_the_bits_of_local_and_replay(
    tools, local, text, tmp_path, monkeypatch, mesh, precision
):
    expected = local(mesh, precision)
    counts, folder = tmp_path / "counts.json", tmp_path / "nccl"
    monkeypatch.setenv("OPTIMUS_FAKE_GPU_COUNTS", str(counts))
    library = compiled(tools, mesh, precision)
    out = succeed(call(train_command(tools, library, text, folder, *NCCL)))
    assert "%d ranks (nccl)" % ranks_of(mesh) in out
    assert results(folder) == expected
    found = json.loads(counts.read_text())
    # The first step is put on queues command by command, on each rank.
    assert found["graph_launches"] == (STEPS - 1) * ranks_of(mesh)
    assert found["allocations"] == 0, "everything is given back"
    # Nothing goes by way of the host, but words that say how far GPUs are.
    assert found["most_pinned_bytes"] <= 8 * 2 * ranks_of(mesh)
    # All have left their communicators in order, which recordings keep.
    assert not list(tmp_path.glob("fake-nccl-*"))


SHAPE = dict(layers=1, sequence=8, vocabulary=256, batch=4)
MODELS = {
    "llama, microbatches and evaluation": (
        LlamaModel(hidden=16, heads=4, kv_heads=2, ffn=24, **SHAPE),
        ("row:2,col:2", "summa", "--accumulate"),
        ["--microbatches", 2, "--eval-every", 1, "--eval-data"],
    ),
    "bert, dropout and a data axis": (
        BertModel(hidden=16, heads=4, ffn=16, **SHAPE)._replace(dropout=0.2),
        ("data:2,row:1,col:2", "megatron"),
        [],
    ),
}


@pytest.mark.variants
@pytest.mark.parametrize("name", MODELS)
def test_other_models_have_the_bits_of_local(tools, gpus, text, tmp_path, name):
    model, flags, options = MODELS[name]
    heldout = tmp_path / "heldout.txt"
    heldout.write_bytes(text.read_bytes()[:100])
    options = [*options, heldout] if options else []
    library, found = tools.library(model, *flags, *EMULATED), []
    for backend in ("local", "nccl"):
        folder = tmp_path / backend
        backend = ["--backend", backend, *options]
        succeed(call(train_command(tools, library, text, folder, *backend)))
        found.append(results(folder))
    assert found[0] == found[1]
    evaluated = found[0][0][-1][-1]
    assert (evaluated is not None) == bool(options)


@pytest.mark.variants
@pytest.mark.parametrize("launcher", [by_hand, by_torchrun, by_srun])
def test_processes_have_the_bits_of_local_over_tcp(tools, local, text, tmp_path, launcher):
    expected, folder = local("2x2"), tmp_path / "nccl"
    command = train_command(tools, compiled(tools, "2x2"), text, folder, *NCCL)
    said = finish(start(command, launcher))
    assert [code for code, _, _ in said] == [0] * 4, said
    assert "4 ranks (nccl)" in said[0][1]
    assert [output for _, output, _ in said[1:]] == [""] * 3
    assert results(folder) == expected


@needs_mpirun
def test_processes_have_the_bits_of_local_under_mpirun(tools, local, text, tmp_path):
    expected, folder = local("2x2", "bf16"), tmp_path / "nccl"
    command = train_command(tools, compiled(tools, "2x2", "bf16"), text, folder, *NCCL)
    out = succeed(call([*mpirun(4), *command]))
    assert "4 ranks (nccl)" in out
    assert results(folder) == expected


def test_a_process_that_sees_one_gpu_takes_it(tools, local, text, tmp_path):
    """As `srun --gpus-per-task 1` has it."""
    expected, folder = local("data:2"), tmp_path / "nccl"

    def with_one_gpu(rank, ranks, port):
        flags, variables = by_hand(rank, ranks, port)
        return flags, {**variables, "CUDA_VISIBLE_DEVICES": str(3 - rank)}

    command = train_command(tools, compiled(tools, "data:2"), text, folder, *NCCL)
    said = finish(start(command, with_one_gpu, ranks=2))
    assert [code for code, _, _ in said] == [0] * 2, said
    assert results(folder) == expected


@QUEUED
def test_a_profile_has_the_times_of_collectives(tools, gpus, text, tmp_path, backend):
    profile = tmp_path / "profile.db"
    flags = [*backend, "--profile", profile]
    succeed(call(tools.train_command(compiled(tools, "2x2"), text, 2, *flags)))
    with sqlite3.connect(profile) as database:

        def count(query):
            return database.execute("SELECT count(*) FROM " + query).fetchone()[0]

        started = count(
            "times JOIN calls USING(call) JOIN commands USING(function, command) JOIN queues"
            " USING(function, queue) WHERE queues.kind = 'communication'"
        )
        assert started == count("transfers") > 0
        assert count("transfers WHERE begin >= end") == 0
        # A wait goes on until what it waits for is there.
        waits = (
            "commands JOIN times USING(command) JOIN calls USING(call, function) JOIN transfers"
            " ON transfers.call = times.call AND transfers.command = commands.waits_for"
        )
        assert count(waits) == started
        # Events know times to half a microsecond.
        assert count(waits + " WHERE times.end < transfers.end - 1000") == 0


@pytest.mark.variants
@QUEUED
@pytest.mark.parametrize("flags", [(), ("--eager",)], ids=["overlapping", "eager"])
def test_the_log_says_what_communication_was_hidden(tools, gpus, text, tmp_path, flags, backend):
    """In the steps that are submitted, recorded and replayed."""
    command = tools.train_command(
        compiled(tools, "2x2"), text, 4, *backend, *flags, log=tmp_path / "log"
    )
    succeed(call(command))
    for line in read_log(tmp_path / "log"):
        assert 0 < line["comm_ms"] <= line["ms"]
        assert 0 <= line["comm_exposed_ms"] <= line["comm_ms"]
        assert not flags or line["comm_exposed_ms"] == line["comm_ms"]


def test_bench_says_what_communication_was_hidden(tools, gpus):
    flags = [*NCCL, "--steps", 2, "--warmup", 1]
    out = tools.run("optimus-run", "bench", compiled(tools, "data:2"), *flags)
    assert re.search(r"^communication over data: .* messages a step$", out, re.M)
    hidden = r"^communication: (\S+) ms in flight, (\S+) ms exposed \(\d+ % hidden\)$"
    in_flight, exposed = map(float, re.search(hidden, out, re.M).groups())
    assert 0 <= exposed <= in_flight and in_flight > 0
    # What the fake NCCL takes of each GPU's memory.
    assert re.search(r"^memory of the largest rank: .*, communication 5 MiB\)$", out, re.M)


def test_collectives_are_measured_and_checked(tools, gpus, tmp_path):
    profile = tmp_path / "gpu.json"
    flags = ["--device", "cuda", "--ranks", 3, "--max-bytes", 4096, "--profile", profile]
    succeed(tools.call("optimus-run", "bench", "--comm", *NCCL, *flags))
    found = json.loads(profile.read_text())
    assert {(entry["backend"], entry["ranks"]) for entry in found["comm"]} == {("nccl", 3)}
    # One GPU's kinds, in less than the times for agreement among ranks.
    flags = ["--device", "cuda", "--ranks", 1, "--max-bytes", 64]
    succeed(tools.call("optimus-run", "bench", "--comm", *NCCL, *flags))
    result = tools.call("optimus-run", "bench", "--comm", *NCCL, "--ranks", 2)
    assert result.returncode == 1
    assert "--backend nccl moves tensors between GPUs: add --device cuda" in result.stderr


# ===----------------------------------------------------------------------===#
# Faults
# ===----------------------------------------------------------------------===#

# Of rank 1, which has GPU 1; steps of the 2x2 mesh have tens a communicator.
FAULTS = {
    "hang in the first step": ("HANG", "1:20", "rank 1 has waited"),
    "hang in a replayed step": ("HANG", "1:100", "rank 1 has waited"),
    "fail in the first step": ("FAIL", "1:20", "rank 1, "),
    "fail in a replayed step": ("FAIL", "1:100", "rank 1, "),
}


@pytest.fixture
def patience(tools):
    """A --timeout that ranks keep where nothing hangs, in seconds."""
    return 30 if tools.has_address_sanitizer else 4


def collectives_of_a_step(tools, library, axis):
    """As people know them: "h.0.mlp.up_product (broadcast, gpt2.py:155)"."""
    flags = ("--commands", "--function", "train_step")
    listed = tools.run("optimus-run", "inspect", library, *flags)
    lines = re.findall(
        r"^\d+ %s(?: after [\d, ]+)?: (\w+) .* bytes=\d+ (.*) \((\S+)\)$" % axis, listed, re.M
    )
    return ["%s (%s, %s)" % (path, kind, place) for kind, path, place in lines]


def command_with(tools, text, patience, monkeypatch, variables):
    """Trains with what goes wrong on a GPU."""
    for name, value in variables.items():
        monkeypatch.setenv("OPTIMUS_FAKE_NCCL_" + name, value)
    # Else what waits behind a hang for room or its turn has been started, too, and may
    # be named in its place (docs/cuda.md, known weaknesses).
    if "HANG" in variables:
        monkeypatch.delenv("OPTIMUS_FAKE_NCCL_ROOM")
    flags = ["--backend", "nccl", "--timeout", patience]
    return tools.train_command(compiled(tools, "2x2"), text, 5, *flags)


def only_error(command, ranks_are):
    """The one error of a job. All processes must end."""
    codes, errors = outcome(command, ranks_are)
    assert codes == [1] * len(codes), errors
    (line,) = [line for line in errors.splitlines() if "error:" in line]
    return line


@pytest.mark.rotates
@pytest.mark.parametrize("ranks_are", ["threads", "processes"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_rank_command_and_collective(
    tools, gpus, text, monkeypatch, patience, ranks_are, fault
):
    kind, place, who = FAULTS[fault]
    command = command_with(tools, text, patience, monkeypatch, {kind: place})
    line = only_error(command, ranks_are)
    assert "optimus-run: error: " + who in line
    where = re.search(r"(\S+ .*\)), collective (\d+) on mesh axis (\w+)", line)
    name, number, axis = where.groups()
    assert number == place.split(":")[1], line
    planned = collectives_of_a_step(tools, compiled(tools, "2x2"), axis)
    assert name.endswith(planned[(int(number) - 1) % len(planned)]), (name, planned)


#: The fate of GPU 1, and what ranks are, where NCCL's abort waits for ever. With a
#: process for each rank, memory alone keeps nobody waiting.
STUCK = [("1", "threads"), ("1:kernels", "threads"), ("1:kernels", "processes")]


@pytest.mark.rotates
@pytest.mark.parametrize("gpu, ranks_are", STUCK)
@pytest.mark.parametrize("place", [20, 100], ids=["first step", "replayed step"])
def test_an_abort_without_an_end_ends_the_process(
    tools, gpus, text, monkeypatch, patience, gpu, ranks_are, place
):
    variables = {"FAIL": "1:%d" % place, "STUCK": gpu}
    command = command_with(tools, text, patience, monkeypatch, variables)
    line = only_error(command, ranks_are)
    assert re.search(r"error: rank 1, \S+ .*\), collective %d on mesh axis" % place, line)
    expected = (
        r"; rank 1 could not abort its communicators of mesh axis row, mesh axis col"
        r" within %d s, so the process ends" % (patience // 2)
    )
    assert re.search(expected, line)


@pytest.fixture
def busy():
    """Two loops take the processors from whatever runs beside them."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


ENDINGS = [(fault, None, ranks) for fault in FAULTS for ranks in ("threads", "processes")]
ENDINGS += [(fault, *how) for fault in FAULTS if fault.startswith("fail") for how in STUCK]


@pytest.mark.rotates
@pytest.mark.parametrize("fault, stuck, ranks_are", ENDINGS)
def test_faults_end_beside_busy_loops(
    tools, gpus, text, busy, monkeypatch, patience, fault, stuck, ranks_are
):
    """$OPTIMUS_FAULT_RUNS times each."""
    kind, place, who = FAULTS[fault]
    variables = {kind: place, **({"STUCK": stuck} if stuck else {})}
    command = command_with(tools, text, patience, monkeypatch, variables)
    for _ in range(int(os.environ.get("OPTIMUS_FAULT_RUNS", 1))):
        assert "optimus-run: error: " + who in only_error(command, ranks_are)


@pytest.mark.parametrize(
    "sent, message",
    [(signal.SIGKILL, "rank 1 died"), (signal.SIGSTOP, "rank 1 was not heard of for ")],
    ids=["killed", "stopped"],
)
def test_a_process_that_is_no_more_is_named(
    tools, gpus, text, tmp_path, patience, sent, message
):
    log = tmp_path / "log"
    flags = ["--backend", "nccl", "--timeout", patience]
    command = tools.train_command(compiled(tools, "data:2"), text, 100_000, *flags, log=log)
    jobs = start(command, by_hand, ranks=2)
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (log.exists() and log.stat().st_size) and time.monotonic() < end:
        time.sleep(0.01)
    jobs[1].send_signal(sent)
    _, errors = jobs[0].communicate(timeout=TIMEOUT_SECONDS)
    jobs[1].kill()
    jobs[1].communicate()
    assert jobs[0].returncode == 1
    assert errors.count("error: ") == 1 and "error: " + message in errors


def test_a_rank_that_does_not_join_is_not_waited_for(tools, gpus, text, monkeypatch):
    monkeypatch.setenv("OPTIMUS_FAKE_NCCL_ABSENT", "1")
    flags = ["--backend", "nccl", "--timeout", 2]
    result = call(tools.train_command(compiled(tools, "data:2"), text, 1, *flags))
    assert result.returncode == 1
    expected = "does not join ranks 0, 1 on mesh axis data: NCCL's ncclCommInitRankConfig"
    assert expected in result.stderr
    assert "for 2 s (--timeout)" in result.stderr


def test_a_rank_without_a_device_ends_all_at_once(tools, gpus, text, monkeypatch):
    """Nobody waits for NCCL to time out."""
    monkeypatch.setenv("OPTIMUS_FAKE_GPU_CONTEXT", "missing:1")
    flags = ["--backend", "nccl", "--timeout", 1000]
    command = tools.train_command(compiled(tools, "data:2"), text, 1, *flags)
    said = finish(start(command, by_hand, ranks=2))
    assert [code for code, _, _ in said] == [1, 1], said
    (line,) = [line for _, _, errors in said for line in errors.splitlines() if "error:" in line]
    assert "rank 1: cannot make a rank's device: cuDevicePrimaryCtxRetain: CUDA_ERROR" in line


def test_ranks_that_do_not_come_to_join_are_named(tools, gpus, text, patience):
    def with_a_driver_that_hangs(rank, ranks, port):
        flags, variables = by_hand(rank, ranks, port)
        gpu = rank if rank % 2 else "none"
        return flags, {**variables, "OPTIMUS_FAKE_GPU_CONTEXT": "late:%s" % gpu}

    flags = ["--backend", "nccl", "--timeout", patience]
    command = tools.train_command(compiled(tools, "2x2"), text, 1, *flags)
    said = finish(start(command, with_a_driver_that_hangs))
    assert [code for code, _, _ in said] == [1] * 4, said
    (line,) = [line for _, _, errors in said for line in errors.splitlines() if "error:" in line]
    assert re.search(r"ranks 1, 3 are not ready: rank [02] has waited .* s to begin with", line)


def test_eager_steps_end_with_the_collective_that_failed(tools, gpus, text, monkeypatch):
    monkeypatch.setenv("OPTIMUS_FAKE_NCCL_FAIL", "1:3")
    command = tools.train_command(compiled(tools, "data:2"), text, 1, *NCCL, "--eager")
    result = call(command)
    assert result.returncode == 1
    (line,) = [line for line in result.stderr.splitlines() if "error:" in line]
    assert re.search(r"rank 1, \S+ .*\), collective 3 on mesh axis data: NCCL's", line)


# ===----------------------------------------------------------------------===#
# What is missing
# ===----------------------------------------------------------------------===#

MISSING = {
    "library": (
        {"OPTIMUS_NCCL_LIBRARY": "/nowhere/libnccl.so.2"},
        "cannot open NCCL: /nowhere/libnccl.so.2",
    ),
    "another library": (
        {"OPTIMUS_NCCL_LIBRARY": "libm.so.6"},
        "NCCL in libm.so.6 has no ncclGetVersion",
    ),
    "GPUs": (
        {"OPTIMUS_FAKE_GPU_COUNT": "1"},
        "expected a GPU for each of the 2 ranks on this host; found that the "
        "driver shows 1; start at most 1 here",
    ),
    "visible GPUs": (
        {"CUDA_VISIBLE_DEVICES": "3"},
        "found that CUDA_VISIBLE_DEVICES=3 shows 1",
    ),
}


@pytest.mark.parametrize("ranks_are", ["threads", "processes"])
@pytest.mark.parametrize("what", MISSING)
def test_what_is_missing_is_said_once(tools, gpus, text, monkeypatch, ranks_are, what):
    variables, message = MISSING[what]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = tools.train_command(compiled(tools, "data:2"), text, 1, *NCCL)
    codes, errors = outcome(command, ranks_are, ranks=2)
    assert codes == [1] * len(codes)
    assert errors.count("error: ") == 1 and message in errors


def test_ranks_with_other_back_ends_are_told(tools, gpus, text):
    def mixed(rank, ranks, port):
        flags, variables = by_hand(rank, ranks, port)
        return [*flags, "--backend", "nccl" if rank else "tcp"], variables

    command = tools.train_command(compiled(tools, "data:2"), text, 1, "--timeout", 20)
    said = finish(start(command, mixed, ranks=2))
    assert [code for code, _, _ in said] == [1, 1]
    (error,) = [text for _, _, text in said if text]
    assert "rank 1 and rank 0 disagree on --backend: nccl on rank 1, tcp on rank 0" in error


def test_processors_have_no_nccl(tools, gpus, text):
    library = tools.library(GPT2, "data:2", "data")
    result = call(tools.train_command(library, text, 1, *NCCL))
    assert result.returncode == 1
    assert result.stderr.startswith(
        "optimus-run: error: expected a library for GPUs, between which --backend nccl "
        "moves tensors; found `%s`, which was compiled for cpu" % library
    )
    assert "Compile the model with --target cuda" in result.stderr

# ===- test_cuda_device.py - The device on GPUs, without a GPU -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""What optimus-run does on a GPU, on the fake driver of runtime/device/cuda/fake.

Its streams take turns at random and its memory is out of the host's reach, so a
missing edge and a pointer that the host follows show here. test_cuda.py holds
the numbers against the processor's."""

import json
import os
import re

import numpy as np
import pytest

from tools import EMULATED as FLAGS
from tools import Checkpoint, Model, call, read_log, succeed

GPT2 = Model(layers=1, hidden=16, heads=2, sequence=8, vocabulary=256, batch=2)
STEPS = 4


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(GPT2, None, "serial", *FLAGS)


def fake(tools, **more) -> dict:
    """An environment with a fake GPU."""
    return tools.fake_gpu(**more)


def train(tools, library, text, folder, environment):
    """What a run prints and saves."""
    folder.mkdir()
    log, saved = folder / "log", folder / "checkpoint"
    flags = ["--seed", 1, "--lr", 1e-2, "--save", saved]
    command = tools.train_command(library, text, STEPS, *flags, log=log)
    succeed(call(command, env=environment))
    numbers = [(line["loss"], line["grad_norm"]) for line in read_log(log)]
    return numbers, Checkpoint(saved).parameters


def test_turns_of_streams_change_no_bit(tools, library, text, tmp_path):
    results = [
        train(tools, library, text, tmp_path / str(seed), fake(tools, seed=seed))
        for seed in (1, 2, 3)
    ]
    numbers, parameters = results[0]
    assert len(numbers) == STEPS and numbers[0] != numbers[-1]
    for others, saved in results[1:]:
        assert others == numbers
        for name, values in parameters.items():
            assert (values == saved[name]).all(), name


def test_what_rests_on_the_host_changes_no_bit(tools, library, text, tmp_path):
    """Where a GPU offloads to unless it is told otherwise. Copies are part of the
    recorded step, and every replay tells what they took."""
    kinds = ("--offload", "state,parameters,gradients,activations")
    paged = tools.library(GPT2, None, "serial", *FLAGS, *kinds)
    numbers, parameters = train(tools, library, text, tmp_path / "kept", fake(tools))
    counts = tmp_path / "counts.json"
    found, saved = train(tools, paged, text, tmp_path / "paged", fake(tools, counts=counts))
    assert json.loads(counts.read_text())["graph_launches"] == STEPS - 1
    assert found == numbers
    for name, values in parameters.items():
        assert (values == saved[name]).all(), name
    log = read_log(tmp_path / "paged" / "log")
    assert len({line["paging_bytes"] for line in log}) == 1
    for line in log:
        assert line["paging_bytes"] > 0 and 0 < line["paging_ms"] <= line["ms"]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [("row:2,col:2", "summa"), ("row:1,col:2", "megatron")])
def test_ranks_share_a_gpu(tools, library, text, tmp_path, mesh, strategy):
    """Collectives stay there, and add in rank order."""
    numbers, parameters = train(tools, library, text, tmp_path / "serial", fake(tools))
    sharded = tools.library(GPT2, mesh, strategy, *FLAGS)
    results = [
        train(tools, sharded, text, tmp_path / str(seed), fake(tools, seed=seed))
        for seed in (1, 2)
    ]
    assert results[0][0] == results[1][0]
    for name, values in results[0][1].items():
        assert (values == results[1][1][name]).all(), name
    # As two meshes on processors agree: test_meshes.py.
    for kind, bound in ((0, 1e-4), (1, 1e-2)):
        expected, found = ([line[kind] for line in run] for run in (numbers, results[0][0]))
        np.testing.assert_allclose(found, expected, rtol=bound)


def test_steps_are_recorded_once_and_repeated(tools, library, text, tmp_path):
    counts = tmp_path / "counts.json"
    train(tools, library, text, tmp_path / "run", fake(tools, counts=counts))
    found = json.loads(counts.read_text())
    # The first step is put on queues command by command.
    assert found["graph_launches"] == STEPS - 1
    # Once as they are and once recorded.
    commands = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    step = next(f for f in commands["functions"] if f["name"] == "train_step")
    assert 0 < found["launches"] <= 2 * step["commands"]
    assert found["allocations"] == 0, "everything is given back"


@pytest.mark.parametrize("mesh", [None, "row:1,col:2"])
def test_waiting_for_each_command_changes_no_bit(tools, text, tmp_path, mesh):
    library = tools.library(GPT2, mesh, "megatron" if mesh else "serial", *FLAGS)
    counts = tmp_path / "counts.json"
    blocking = dict(fake(tools, counts=counts), CUDA_LAUNCH_BLOCKING="1")
    one = train(tools, library, text, tmp_path / "one", fake(tools))
    other = train(tools, library, text, tmp_path / "other", blocking)
    assert one[0] == other[0]
    assert all((values == other[1][name]).all() for name, values in one[1].items())
    assert json.loads(counts.read_text())["graph_launches"] == 0


def test_a_profile_is_of_commands_that_are_not_repeated(tools, library, text, tmp_path):
    counts, profile = tmp_path / "counts.json", tmp_path / "profile.db"
    command = tools.train_command(library, text, 3, "--profile", profile)
    succeed(call(command, env=fake(tools, counts=counts)))
    assert profile.exists()
    assert json.loads(counts.read_text())["graph_launches"] == 0


@pytest.mark.parametrize(
    "flags, more, message",
    [
        (
            ["--device", "cpu"],
            {},
            "expected the device cuda, which `%s` was compiled for; found cpu. "
            "Compile the model with --target cpu",
        ),
        ([], {"absent": 1}, "CUDA's driver does not start: CUDA_ERROR_NO_DEVICE"),
        ([], {"bytes": 1 << 16}, " bytes for "),
    ],
    ids=["another device", "no GPU", "too little memory"],
)
def test_what_is_missing_is_said(tools, library, text, flags, more, message):
    command = tools.train_command(library, text, 1, *flags)
    result = call(command, env=fake(tools, **more))
    assert result.returncode == 1
    assert message.replace("%s", str(library)) in result.stderr


def test_a_machine_without_a_driver(tools, library, text):
    environment = dict(os.environ, OPTIMUS_CUDA_DRIVER_LIBRARY="/nowhere/libcuda.so")
    result = call(tools.train_command(library, text, 1), env=environment)
    assert result.returncode == 1
    assert "cannot open CUDA's driver: /nowhere/libcuda.so" in result.stderr
    assert "the machine needs an NVIDIA GPU and its driver" in result.stderr


def test_collectives_of_gpus_are_measured_and_checked(tools, tmp_path):
    profile = tmp_path / "gpu.json"
    flags = ("--ranks", 3, "--max-bytes", 4096, "--profile", profile)
    command = tools.command("optimus-run", "bench", "--comm", "--device", "cuda", *flags)
    succeed(call(command, env=fake(tools)))
    found = json.loads(profile.read_text())
    assert found["gpu"]["fake"] is True
    kinds = {entry["collective"] for entry in found["comm"]}
    assert kinds == {"broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"}
    assert {(entry["backend"], entry["ranks"]) for entry in found["comm"]} == {("local", 3)}


MEASURE = ("bench", "--gemm", "--largest", 32, "--rounds", 1)


def test_a_gpu_is_measured_and_said_to_be_fake(tools, tmp_path):
    profile = tmp_path / "gpu.json"
    command = tools.command("optimus-run", *MEASURE, "--device", "cuda", "--profile", profile)
    out = succeed(call(command, env=fake(tools)))
    assert "of a fake GPU: these are times of the processor" in out
    found = json.loads(profile.read_text())
    gpu = found["gpu"]
    assert gpu["name"] == "Optimus's fake GPU" and gpu["fake"] is True
    assert gpu["memory_bytes"] == 1 << 30 and gpu["reserved_bytes"] == 0
    assert gpu["multiprocessors"] > 0 and "." in gpu["driver"]
    (entry,) = found["gemm"]
    # Three transpositions of one shape, in both types.
    assert len(entry["points"]) == len(entry["types"][0]["points"]) == 3
    assert entry["types"][0]["type"] == "bf16"
    assert all(point["seconds"] > 0 for point in entry["points"])
    assert entry["kernel_alpha_s"] > 0 and entry["streams"][0]["bytes"] == 1 << 20
    # Attention by cuDNN in bf16: two sizes of heads, forward and backward.
    attention = entry["types"][0]["attention_cudnn"]
    assert len(attention) == 4 and all(point["seconds"] > 0 for point in attention)
    assert entry["types"][0]["attention_cudnn_flops_per_s"] > 0
    assert "attention_cudnn" not in entry and "forward" in out

    # The compiler reads it, for GPUs only.
    program = tools.program(GPT2)
    flags = ("--machine-profile", profile, "--compile-to", "place", "-o", tmp_path / "placed")
    report = tools.run("optimus-compile", program, *FLAGS, "--report", *flags)
    assert "Optimus's fake GPU of " in report and "1.00 GiB" in report
    result = tools.call("optimus-compile", program, *flags)
    assert result.returncode == 1
    assert "is of GPUs, expected --target cuda beside it" in result.stderr

    # What was measured of another machine is not added.
    result = tools.call("optimus-run", *MEASURE, "--profile", profile)
    assert result.returncode == 1
    assert "but this measures processors; name another file" in result.stderr


def test_a_gpu_is_measured_without_cudnn(tools, tmp_path):
    profile = tmp_path / "gpu.json"
    command = tools.command("optimus-run", *MEASURE, "--device", "cuda", "--profile", profile)
    out = succeed(call(command, env=dict(fake(tools), OPTIMUS_CUDNN_LIBRARY="/nowhere/cudnn.so")))
    assert "cuDNN's attention was not timed: cannot open cuDNN: /nowhere/cudnn.so" in out
    (entry,) = json.loads(profile.read_text())["gemm"]
    assert "attention_cudnn_flops_per_s" not in entry["types"][0]


def test_ranks_that_share_a_gpu_are_not_measured(tools):
    command = tools.command("optimus-run", *MEASURE, "--device", "cuda", "--ranks", 2)
    result = call(command, env=fake(tools))
    assert result.returncode == 1
    assert "measures one rank, whose GPU no other rank uses" in result.stderr


@pytest.mark.variants
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_rank_takes_what_was_predicted_and_not_a_byte_more(tools, text, tmp_path, precision):
    """Steps allocate nothing, so the GPU may have just the planned bytes."""
    library = tmp_path / "model.so"
    flags = (*FLAGS, "--precision", precision, "--report", "-o", library)
    report = tools.run("optimus-compile", tools.program(GPT2), *flags)
    (predicted,) = re.findall(r"a rank needs .* \((\d+) bytes\) of its GPU", report)
    command = tools.train_command(library, text, STEPS)
    succeed(call(command, env=fake(tools, bytes=int(predicted))))
    result = call(command, env=fake(tools, bytes=int(predicted) - 1))
    assert result.returncode == 1
    assert "cannot allocate" in result.stderr
    # All but the workspace, to three digits.
    (number, unit) = re.findall(r"a rank needs ([\d.]+) ([KM])iB: parameters ", result.stderr)[0]
    planned = float(number) * {"K": 1 << 10, "M": 1 << 20}[unit]
    np.testing.assert_allclose(planned, int(predicted) - (32 << 20), rtol=5e-3)


@pytest.mark.variants
@pytest.mark.parametrize("mesh", [None, "row:1,col:2"])
def test_what_code_and_recorded_steps_take_is_measured_and_named(tools, mesh):
    """Where code is loaded, and for a node of a graph, the fake GPU takes memory."""
    library = tools.library(GPT2, mesh, "megatron" if mesh else "serial", *FLAGS)
    command = tools.command("optimus-run", "bench", library, "--steps", 3, "--json")

    def bench(**settings):
        return call(command, env=fake(tools, **settings))

    free = json.loads(succeed(bench()))["memory"]
    assert free["code"] == 0
    sizes = {"code_bytes": 1 << 20, "node_bytes": 1}
    found = json.loads(succeed(bench(**sizes)))["memory"]
    assert {**found, "code": 0} == free
    images, nodes = divmod(found["code"], 1 << 20)
    assert images > 4 and nodes > 20
    ranks = 2 if mesh else 1
    room = ranks * found["total"] + found["code"]
    succeed(bench(bytes=room, **sizes))
    for missing, what in ((1, "cannot make a graph"), (1 << 20, "(cannot load code|ALLOC_FAILED)")):
        result = bench(bytes=room - missing - (nodes if missing > 1 else 0), **sizes)
        assert result.returncode == 1
        taken = r"code, libraries and recorded steps, for which 1 GiB are planned, have taken [\d.]+ MiB"
        assert re.search(what + ".*on Optimus's fake GPU, where .*; " + taken, result.stderr), result.stderr


def test_where_memory_runs_out_plans_and_holders_are_said(tools, text):
    environment = fake(tools, bytes=1 << 16, processes="4711 /usr/bin/python3 4096")
    libraries = tools.binaries.resolve().parent / "lib"
    environment["OPTIMUS_NVML_LIBRARY"] = str(libraries / "libfake_nvml.so")
    sharded = tools.library(GPT2, "row:1,col:2", "megatron", *FLAGS)
    result = call(tools.train_command(sharded, text, 1), env=environment)
    assert result.returncode == 1
    assert re.search(
        r"cannot allocate \d+ bytes for the (parameters|arena) of a rank on Optimus's fake GPU, "
        r"where \d+ of 65536 bytes are free: CUDA_ERROR_OUT_OF_MEMORY .*; "
        r"each of the 2 ranks of this process needs [\d.]+ KiB: parameters [\d.]+ KiB, "
        r"state [\d.]+ KiB, inputs \d+ B, arena [\d.]+ KiB, and 32 MiB where it multiplies "
        r"matrices; code, libraries and recorded steps, for which 1 GiB are planned, have taken "
        r"\d+ B; of the GPU's memory python3 \(process 4711\) holds 4096 B; end what else ",
        result.stderr,
    ), result.stderr

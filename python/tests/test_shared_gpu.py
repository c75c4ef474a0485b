# ===- test_shared_gpu.py - Ranks of one process on one GPU -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""`--backend local` on the fake GPU: collectives stay there, and the steps of all
ranks are one graph. Their bits are those of tcp's, which go by way of the host;
test_nccl.py has those of the fake NCCL, which adds by itself, on more meshes."""

import json
import re

import pytest

from test_launchers import by_hand, finish, start
from test_nccl import GPT2, STEPS, gpus, results, train_command
from test_nccl import MESHES as OVER_NCCL
from tools import EMULATED, BertModel, LlamaModel, call, succeed

MESHES = {**OVER_NCCL, "2x3": ("row:2,col:3", "summa")}
RANKS = {"data:2": 2, "2x2": 4, "1x4": 4, "2x3": 6}
SHAPE = dict(layers=1, sequence=8, vocabulary=256, batch=4)
MODELS = {
    "gpt2": GPT2,
    "bert": BertModel(hidden=16, heads=4, ffn=16, **SHAPE),
    "llama": LlamaModel(hidden=16, heads=4, kv_heads=2, ffn=24, **SHAPE),
}


def library_of(tools, model, mesh, precision):
    return tools.library(MODELS[model], *MESHES[mesh], *EMULATED, "--precision", precision)


def train(tools, text, folder, model, mesh, precision, *flags):
    library = library_of(tools, model, mesh, precision)
    succeed(call(train_command(tools, library, text, folder, *flags)))
    return results(folder)


@pytest.mark.rotates
@pytest.mark.parametrize(
    "model, precision, mesh",
    [("gpt2", precision, mesh) for precision in ("f32", "bf16") for mesh in MESHES]
    + [("bert", "bf16", "2x2"), ("llama", "f32", "2x3"), ("llama", "bf16", "1x4")],
)
def test_one_graph_has_the_bits_of_single_commands(
    tools, gpus, text, tmp_path, monkeypatch, model, precision, mesh
):
    counts = tmp_path / "counts.json"
    monkeypatch.setenv("OPTIMUS_FAKE_GPU_COUNTS", str(counts))
    eager = train(tools, text, tmp_path / "eager", model, mesh, precision, "--eager")
    assert json.loads(counts.read_text())["graph_launches"] == 0
    assert train(tools, text, tmp_path / "recorded", model, mesh, precision) == eager
    found = json.loads(counts.read_text())
    assert found["graph_launches"] == STEPS - 1, "one of all ranks"
    assert found["allocations"] == 0, "everything is given back"
    # Words that say how far the GPU is, for each of two axes.
    assert found["most_pinned_bytes"] <= 8 * 2 * RANKS[mesh]


BY_THE_HOST = [
    ("gpt2", "f32", "2x2"),
    ("gpt2", "bf16", "2x3"),
    ("bert", "bf16", "data:2"),
    ("llama", "bf16", "2x2"),
]


@pytest.mark.variants
@pytest.mark.parametrize("model, precision, mesh", BY_THE_HOST)
def test_the_bits_are_those_of_the_way_by_the_host(
    tools, gpus, text, tmp_path, model, precision, mesh
):
    expected = train(tools, text, tmp_path / "local", model, mesh, precision)
    folder = tmp_path / "tcp"
    command = train_command(
        tools, library_of(tools, model, mesh, precision), text, folder, "--backend", "tcp"
    )
    said = finish(start(command, by_hand, ranks=RANKS[mesh]))
    assert [code for code, _, _ in said] == [0] * RANKS[mesh], said
    assert results(folder) == expected


def test_ranks_take_what_was_predicted_and_not_a_byte_more(tools, text, tmp_path):
    """Collectives within a GPU need none of its memory."""
    library, (mesh, strategy) = tmp_path / "model.so", MESHES["2x2"]
    flags = ("--mesh", mesh, "--strategy", strategy, *EMULATED, "--report", "-o", library)
    report = tools.run("optimus-compile", tools.program(GPT2), *flags)
    (predicted,) = re.findall(r"a rank needs .* \((\d+) bytes\) of its GPU", report)
    command = tools.train_command(library, text, STEPS)
    needed = 4 * int(predicted)
    succeed(call(command, env=tools.fake_gpu(bytes=needed)))
    result = call(command, env=tools.fake_gpu(bytes=needed - 1))
    assert result.returncode == 1
    assert "cannot allocate" in result.stderr


def test_inspect_tells_what_copies_rows(tools):
    """Panels are packed by kernels; stretches, and what goes to the host, are the driver's to copy."""
    flags = ("--commands", "--function", "train_step")
    listed = tools.run("optimus-run", "inspect", library_of(tools, "gpt2", "2x2", "bf16"), *flags)
    copies = re.findall(r"^\d+ \w+:? .*?: copy.*$|^\d+ \S+: copy.*$", listed, re.M)
    assert copies
    for copy in copies:
        apart = re.search(r":\d+x(\d+)/(?!\1[a-z])", copy)
        assert bool(apart) == (" by=copy_rows_" in copy), copy


def test_inspect_tells_what_adds(tools):
    flags = ("--commands", "--function", "train_step")
    listed = tools.run("optimus-run", "inspect", library_of(tools, "gpt2", "1x4", "bf16"), *flags)
    assert re.search(r": all_reduce.* by=sum_of_ranks_to_all_(bf16_)?4 ", listed), listed

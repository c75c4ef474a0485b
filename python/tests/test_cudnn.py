# ===- test_cudnn.py - Attention by cuDNN, without a GPU -------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Models with attention as a graph of cuDNN's, on the fake driver and the fake cuDNN of
runtime/device/cuda/fake, which computes any such graph; and what the real cuDNN says of
these graphs, where it is: it plans without a GPU."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from test_cuda_matrix import Run, bounds, tokens
from tools import (
    EMULATED,
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    losses,
    succeed,
)

SHAPE = dict(layers=1, sequence=4, vocabulary=16, batch=2)
FAMILIES = {
    "gpt2": Model(hidden=32, heads=2, ffn=32, **SHAPE),
    # Sequences end where their lengths say; some tokens are masked in each batch.
    "bert": BertModel(hidden=32, heads=4, ffn=20, **{**SHAPE, "sequence": 16, "batch": 4}),
    # Heads of queries share keys.
    "llama": LlamaModel(hidden=32, heads=4, kv_heads=2, ffn=24, **SHAPE),
}
BF16 = ("--precision", "bf16")
CUDNN = (*EMULATED, *BF16, "--attention", "cudnn")
BUILTIN = (*EMULATED, *BF16, "--attention", "builtin")
MESHES = {"serial": (None, "serial"), "2x2": ("row:2,col:2", "summa")}
STEPS = 3


class Case:
    """What a run of test_cuda_matrix.py asks of one."""

    microbatches = 1

    def __init__(self, captured):
        self.captured = captured


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", list(MESHES))
@pytest.mark.parametrize("family", list(FAMILIES))
def test_trains_as_our_attention_does(tools, session, tokens, tmp_path, family, mesh):
    """Within the bounds on rounding, which `verify` derives from the program for the
    loss and each gradient: twice, once for each of the two."""
    model = FAMILIES[family]
    cpu = tools.library(model, None, "serial", *BF16)
    ours = tools.library(model, *MESHES[mesh], *BUILTIN)
    theirs = tools.library(model, *MESHES[mesh], *CUDNN)
    bound = bounds(tools, session, tokens, cpu, theirs)
    commands = tools.run("optimus-run", "inspect", theirs, "--commands")
    assert re.search(r": attention ", commands) and re.search(r": attention_grad ", commands)

    expected = Run(tools, tokens, Case(True), tmp_path / "ours", [(ours, STEPS)])
    for captured in (True, False):
        found = Run(
            tools, tokens, Case(captured), tmp_path / str(captured), [(theirs, STEPS)]
        )
        assert (losses(found.log) > 0).all()
        np.testing.assert_allclose(
            losses(found.log), losses(expected.log), rtol=2 * bound["loss"]
        )
        for key, values in expected.end.moments.items():
            kind, name = key.split(".", 1)
            of_gradients = {"exp_avg": 1, "exp_avg_sq": 2}[kind]
            difference = np.linalg.norm(found.end.moments[key] - values)
            limit = 2 * of_gradients * bound[name] * np.linalg.norm(values)
            assert difference <= limit, key
        assert (found.graph_launches > 0) == captured


def train(tools, library, data, folder, **settings):
    folder.mkdir()
    command = tools.train_command(
        library, data, STEPS, "--lr", 3e-3, "--seed", 1, "--save", folder / "end",
        log=folder / "log",
    )  # fmt: skip
    environment = dict(tools.fake_gpu(seed=settings.pop("seed", 1)))
    environment.update({"OPTIMUS_" + name: str(value) for name, value in settings.items()})
    return call(command, env=environment)


@pytest.mark.rotates
def test_only_the_deterministic_gradient_adds_in_one_order(tools, tokens, tmp_path):
    """The fake GPU adds what cuDNN's default gradient adds in memory in random order.
    That shows where a sum in f32 lies close to where bf16 rounds the other way: in
    some of many."""
    model = FAMILIES["gpt2"]._replace(layers=2, sequence=64, batch=4)
    for flags, is_same in (((), False), (("--deterministic",), True)):
        library = tools.library(model, None, "serial", *CUDNN, *flags)
        moments = []
        for seed in (1, 2):
            folder = tmp_path / ("%d%s" % (seed, "".join(flags)))
            succeed(train(tools, library, tokens, folder, seed=seed))
            moments.append(Checkpoint(folder / "end").moments)
        same = [moments[0][key].tobytes() == moments[1][key].tobytes() for key in moments[0]]
        assert all(same) == is_same


@pytest.mark.parametrize("flags", [(), ("--deterministic",)])
def test_what_is_planned_is_what_is_held(tools, tmp_path, flags):
    """Workspace lies in the arena, so that the GPU's memory has nothing besides."""
    counts = tmp_path / "counts"
    library = tools.library(FAMILIES["llama"], None, "serial", *CUDNN, *flags)
    command = tools.command("optimus-run", "bench", library, "--steps", 2, "--json")
    planned = json.loads(succeed(call(command, env=tools.fake_gpu(counts=counts))))["memory"]
    held = json.loads(counts.read_text())["most_bytes"]
    # What is not a multiple of 256 is rounded up, buffer by buffer.
    assert 0 <= held - planned["total"] < 64 * 256


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"CUDNN_LIBRARY": "/nowhere/libcudnn.so.9"},
            r"cannot open cuDNN: .*/nowhere/libcudnn.so.9.*--attention builtin",
        ),
        (
            {"FAKE_CUDNN_OLD_DRIVER": 1},
            r"cuDNN 9\.16\.0 does not go with this GPU's driver: cudnnCreate: "
            r"CUDNN_STATUS_NOT_INITIALIZED .*--attention builtin",
        ),
        (
            {"FAKE_CUBLASLT_OLD_DRIVER": 1},
            r"cuBLASLt in \S+ does not go with this GPU's driver: cublasLtCreate: "
            r"CUBLAS_STATUS_NOT_INITIALIZED; .*CUDA's toolkit",
        ),
        ({"FAKE_CUDNN_VERSION": 91501}, r"cuDNN in \S+ is 9\.15\.1; .* 9\.16 or later"),
        (
            {"FAKE_CUDNN_WORKSPACE": 1 << 30},
            r"h\.0\.attn.*attention in 2 sequences of 4 tokens.*cuDNN 9\.16\.0 takes 1073741824 bytes "
            r"of workspace; expected at most 1048576, which the model was compiled with\. "
            r"Compile it with --attention builtin",
        ),
    ],
)
def test_what_libraries_lack_is_one_message(tools, tokens, tmp_path, settings, message):
    library = tools.library(FAMILIES["gpt2"], None, "serial", *CUDNN)
    result = train(tools, library, tokens, tmp_path / "run", **settings)
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run/end").exists()


@pytest.mark.parametrize(
    "model, flags, message",
    [
        (FAMILIES["gpt2"], ("--precision", "f32"), "found f32"),
        (FAMILIES["gpt2"]._replace(hidden=24), BF16, "multiple of 8 up to 128, found 12"),
        (FAMILIES["gpt2"]._replace(sequence=1), BF16, "2 tokens at least, found 1"),
    ],
)
def test_a_model_that_is_not_for_cudnn_is_no_fault_of_ours(tools, tmp_path, model, flags, message):
    flags = (*EMULATED, *flags, "--attention", "cudnn", "-o", tmp_path / "model.so")
    result = tools.call("optimus-compile", tools.program(model), *flags)
    assert result.returncode == 1, result.stderr
    assert message in result.stderr and "--attention auto" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_order_is_for_some_architectures(tools, tmp_path):
    flags = ("--target", "cuda", *BF16, "--attention", "cudnn", "--deterministic")
    program, placed = tools.program(FAMILIES["gpt2"]), tmp_path / "placed.mlir"
    to = ("--compile-to", "place", "-o", placed)
    result = tools.call("optimus-compile", program, *flags, "--gpu-arch", "sm_100,sm_120", *to)
    assert result.returncode == 1
    assert "--deterministic: expected an architecture up to sm_90" in result.stderr
    assert "found sm_100,sm_120" in result.stderr
    tools.run("optimus-compile", program, *flags, "--gpu-arch", "sm_90,sm_100", *to)
    # By choice it is ours where an architecture has no such gradient of cuDNN's.
    flags = ("--target", "cuda", *BF16, "--deterministic")
    for architectures, is_cudnn in (("sm_80,sm_90", True), ("sm_90,sm_100", False)):
        tools.run("optimus-compile", program, *flags, "--gpu-arch", architectures, *to)
        text = placed.read_text()
        assert ("exec.attention_grad" in text) == is_cudnn
        assert ("@attention_key_grad" in text) != is_cudnn


def attention(tools, library):
    """Of each function, what computes how many attentions, by the manifest; the page
    of `inspect` says the same."""
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    said = tools.run("optimus-run", "inspect", library)
    found = {}
    for function in manifest["functions"]:
        for who, names in function["attention"].items():
            assert names[0] == "h.0.attn.heads"
            row = r"^  %s +%s +%d +%s$" % (function["name"], who, len(names), names[0])
            assert re.search(row, said, re.M)
            found[function["name"]] = {**found.get(function["name"], {}), who: names}
    return found


FORWARD, BACKWARD = "h.0.attn.heads", "h.0.attn.heads backward"


@pytest.mark.parametrize(
    "model, flags, who",
    [
        (FAMILIES["gpt2"], BF16, "cudnn"),
        (FAMILIES["gpt2"], (*BF16, "--attention", "auto"), "cudnn"),
        (FAMILIES["gpt2"], (*BF16, "--attention", "builtin"), "builtin"),
        (FAMILIES["gpt2"], (), "builtin"),
        (FAMILIES["gpt2"]._replace(hidden=24), BF16, "builtin"),
        (FAMILIES["gpt2"]._replace(sequence=1), BF16, "builtin"),
    ],
)
def test_each_attention_is_whose_it_can_be(tools, tokens, tmp_path, model, flags, who):
    """Without a word cuDNN computes what it takes. What is not its needs none."""
    library = tools.library(model, None, "serial", *EMULATED, *flags)
    both = {who: [FORWARD, BACKWARD]}
    expected = {"train_step": both, "eval_step": {who: [FORWARD]}, "grad_step": both}
    assert attention(tools, library) == expected
    settings = {"CUDNN_LIBRARY": "/nowhere/libcudnn.so.9"}
    result = train(tools, library, tokens, tmp_path / "run", **settings)
    if who == "builtin":
        succeed(result)
        return
    assert result.returncode == 1
    assert re.search(
        r"cannot open cuDNN: .*/nowhere/libcudnn.so.9.*; the model's attention was "
        r"compiled for it: install 9\.16 or later \(.*`pip install nvidia-cudnn-cu13`\), "
        r"or compile the model with --attention builtin",
        result.stderr,
    ), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_each_has_its_price(tools, tmp_path):
    """What attention takes by the report, where the rate of either is a thousandth."""

    def seconds(who, slow):
        rates = {"attention_flops_per_s": 1e12, "attention_cudnn_flops_per_s": 1e12}
        rates[slow] /= 1e3
        entry = {"kernel_alpha_s": 0, "types": [{"type": "bf16", **rates}]}
        profile = tmp_path / "profile.json"
        gpu = {"name": "none", "memory_bytes": 1 << 33}
        profile.write_text(json.dumps({"version": 1, "gpu": gpu, "gemm": [entry]}))
        flags = (*EMULATED, *BF16, "--attention", who, "--machine-profile", profile)
        flags += ("--compile-to", "place", "-o", os.devnull, "--report-json", "-")
        model = FAMILIES["gpt2"]._replace(sequence=512)
        report = json.loads(tools.run("optimus-compile", tools.program(model), *flags))
        return report["schedule"]["train_step"]["predicted_step_ms"]

    for who, own, other in (
        ("builtin", "attention_flops_per_s", "attention_cudnn_flops_per_s"),
        ("cudnn", "attention_cudnn_flops_per_s", "attention_flops_per_s"),
    ):
        assert seconds(who, own) > 10 * seconds(who, other)


def test_processors_have_no_choice(tools):
    library = tools.library(FAMILIES["gpt2"], None, "serial", *BF16)
    manifest = json.loads(tools.run("optimus-run", "inspect", library, "--json"))
    assert not any("attention" in function for function in manifest["functions"])
    assert "\nAttention\n" not in tools.run("optimus-run", "inspect", library)


def folders_of_cudnn():
    """Of the toolkit, and of PyTorch where bench/peers was set up, each with NVRTC's."""
    for toolkit in (Path("/usr/local/cuda/lib64"), Path("/usr/local/cuda/lib")):
        if (toolkit / "libcudnn.so.9").exists():
            return [toolkit]
    for wheel in Path.home().glob(".cache/optimus/peers-*/lib/python3*/site-packages/nvidia"):
        return [wheel / "cudnn/lib", *wheel.glob("cu1?/lib")]
    return []


@pytest.mark.rotates
def test_the_real_cudnn_makes_plans_of_our_graphs(tools):
    """Where it is, or $OPTIMUS_CUDNN_LIBRARY names one: kernels and all, for GPUs that
    are not there. Its driver is one of ours that loads nothing."""
    if tools.has_address_sanitizer:
        pytest.skip("what a sanitizer sees of cuDNN and NVRTC is not ours")
    folders, environment = folders_of_cudnn(), dict(os.environ)
    if given := environment.get("OPTIMUS_CUDNN_LIBRARY"):
        # Its parts are found by its folder, and NVRTC may be elsewhere.
        folders.insert(0, Path(given).parent)
    elif folders:
        environment["OPTIMUS_CUDNN_LIBRARY"] = str(folders[0] / "libcudnn.so.9")
    build = tools.binaries.resolve().parent
    folders.insert(0, build / "lib/planning")
    if known := environment.get("LD_LIBRARY_PATH"):
        folders.append(known)
    environment["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    said = succeed(call([build / "unittests/OptimusCudnnPlansTests"], env=environment))
    if "[  SKIPPED ]" in said:
        pytest.skip(re.search(r"Skipped\n(.*)", said)[1])
    assert "[  PASSED  ]" in said

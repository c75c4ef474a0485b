# ===- test_cuda.py - Libraries for GPUs, on a driver that has none -------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Models compiled for GPUs, run by the device for GPUs.

Its driver and its cuBLASLt are the fake ones of runtime/device/cuda: kernels are
emulated, products are the processor's. A kernel adds in another order than the
processor's does, so results agree as those of two meshes do: gradients within the
bounds that `optimus-run verify` derives from the program, and losses of f32 as in
test_meshes.py.
"""

import ctypes

import numpy as np
import pytest

from tools import (
    EMULATED,
    BertModel,
    Checkpoint,
    LlamaModel,
    Model,
    call,
    has_assembler,
    losses,
    read_log,
    succeed,
)

SHAPE = dict(layers=2, hidden=16, heads=2, sequence=8, vocabulary=256, batch=4)
MODELS = {
    "gpt2": Model(**SHAPE, dropout=0.1),
    "bert": BertModel(**SHAPE),
    "llama": LlamaModel(**{**SHAPE, "heads": 4}, kv_heads=2, ffn=24),
}
STEPS = 5


def both(tools, name, *flags):
    """A model for the processor and for GPUs."""
    model = MODELS[name]
    return [tools.library(model, None, "serial", *flags, *more) for more in ((), EMULATED)]


@pytest.mark.rotates
@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_agree_within_derived_bounds(tools, text, name, precision):
    libraries = both(tools, name, "--precision", precision, "--attention", "builtin")
    command = tools.command("optimus-run", "verify", *libraries, "--data", text)
    succeed(call(command, env=tools.fake_gpu()))


@pytest.mark.variants
@pytest.mark.parametrize("name", MODELS)
def test_trains_as_on_the_processor(tools, text, tmp_path, name):
    logs, saved = [], []
    for library in both(tools, name):
        log, folder = tmp_path / library.name, tmp_path / library.stem
        flags = ["--lr", 3e-3, "--seed", 1, "--save", folder]
        command = tools.train_command(library, text, STEPS, *flags, log=log)
        succeed(call(command, env=tools.fake_gpu()))
        logs.append(read_log(log))
        saved.append(Checkpoint(folder))
    assert losses(logs[0])[-1] < losses(logs[0])[0]
    np.testing.assert_allclose(losses(logs[1]), losses(logs[0]), rtol=1e-4)
    norms = [[line["grad_norm"] for line in log] for log in logs]
    np.testing.assert_allclose(*norms, rtol=1e-2)
    assert saved[0].parameters.keys() == saved[1].parameters.keys()


def launch_apart(tools, model, flags, folder):
    """A library whose launches update one tensor each."""
    fused, lowered, library = (folder / name for name in ("fuse.mlir", "exec.mlir", "apart.so"))
    tools.run("optimus-compile", tools.program(model), *EMULATED[:2], *flags,
              "--compile-to", "fuse", "-o", fused)  # fmt: skip
    passes = ["record-layouts"]
    passes += [name + "=target=cuda" for name in ("to-exec", "chain-launches", "build-kernels")]
    tools.run("optimus-opt", fused, *("--optimus-" + name for name in passes), "-o", lowered)
    text = lowered.read_text()
    assert 'phase = "fuse"' in text
    lowered.write_text(text.replace('phase = "fuse"', 'phase = "exec"'))
    tools.run("optimus-compile", lowered, "--compile-from", "exec", *EMULATED, "-o", library)
    return library


@pytest.mark.rotates
@pytest.mark.parametrize(
    "name, optimizer", [("gpt2", "adamw"), ("bert", "sgd"), ("llama", "lamb")]
)
def test_fewer_launches_train_to_the_same_bits(
    tools, text, tmp_path, name, optimizer
):
    flags = ("--optimizer", optimizer)
    libraries = [
        launch_apart(tools, MODELS[name], flags, tmp_path),
        tools.library(MODELS[name], None, "serial", *flags, *EMULATED),
    ]
    launches, logs, saved = [], [], []
    for library in libraries:
        commands = tools.run("optimus-run", "inspect", library, "--commands")
        launches.append([line for line in commands.splitlines() if " extent=" in line])
        log, folder = tmp_path / (library.name + ".log"), tmp_path / (library.stem + ".saved")
        command = tools.train_command(library, text, STEPS, "--lr", 3e-3, "--save", folder, log=log)
        succeed(call(command, env=tools.fake_gpu()))
        logs.append(read_log(log))
        saved.append(Checkpoint(folder))
    # Updates, and partial sums of squares.
    assert sum("grouped_" in line for line in launches[1]) >= 2
    assert len(launches[1]) < 0.7 * len(launches[0])
    assert any("sums_" in line for line in launches[1])
    assert any("chain_dropout_" in line for line in launches[1]) == (name == "gpt2")
    assert (losses(logs[0]) == losses(logs[1])).all()
    for what in ("parameters", "moments"):
        before, after = (getattr(checkpoint, what) for checkpoint in saved)
        assert before.keys() == after.keys()
        for key in before:
            assert before[key].tobytes() == after[key].tobytes(), key


class Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("signature", ctypes.c_uint64),
        ("device_name", ctypes.c_char_p),
        ("block_threads", ctypes.c_uint32),
        ("block_iterations", ctypes.c_uint32),
    ]


class Image(ctypes.Structure):
    _fields_ = [
        ("architecture", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
    ]


class Library(ctypes.Structure):
    """optimus_model of model_abi.h."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("manifest", ctypes.c_void_p),
        ("manifest_size", ctypes.c_uint64),
        ("programs", ctypes.c_void_p),
        ("programs_size", ctypes.c_uint64),
        ("num_kernels", ctypes.c_uint32),
        ("kernels", ctypes.POINTER(Kernel)),
        ("num_images", ctypes.c_uint32),
        ("images", ctypes.POINTER(Image)),
    ]


@pytest.mark.variants
@pytest.mark.skipif(not has_assembler(), reason="no ptxas of the CUDA toolkit is installed")
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_library_has_machine_code_for_each_architecture(tools, precision):
    library = tools.library(
        MODELS["gpt2"], None, "serial", "--target", "cuda", "--precision", precision
    )
    assert "for cuda" in tools.run("optimus-run", "inspect", library)
    loaded = ctypes.CDLL(str(library))
    loaded.optimus_model_query.restype = ctypes.POINTER(Library)
    model = next(
        found.contents for version in range(1, 100) if (found := loaded.optimus_model_query(version))
    )
    images = {
        image.architecture.decode(): ctypes.string_at(image.data, image.size)
        for image in model.images[: model.num_images]
    }
    assert list(images) == ["sm_80", "sm_90", "sm_100", "ptx"]
    assert b".target sm_100" in images["ptx"]
    kernels = model.kernels[: model.num_kernels]
    assert any(kernel.name.startswith(b"grouped_") for kernel in kernels)
    for architecture, code in images.items():
        assert code.startswith(b"\x7fELF") == (architecture != "ptx")
        for kernel in kernels:
            name = kernel.device_name
            entry = b".entry " + name if architecture == "ptx" else b".text." + name + b"\0"
            assert entry in code, (architecture, name)
            assert kernel.block_threads > 0 and kernel.block_iterations > 0

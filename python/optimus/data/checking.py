# ===- checking.py - Whether a store is whole -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares the files of a store with its index."""

import os
from typing import Callable, List, Tuple

import numpy as np

from optimus import small_file
from optimus.arguments import Mistake
from optimus.data.hashing import Hash64, hash64, to_hex
from optimus.data.reading import Store
from optimus.data.store import (
    ENDS,
    INDEX,
    Shard,
    shard_name,
    shard_path,
    suffixes,
)
from optimus.data.tokenizer import BYTES, DTYPES, FILE

PIECE = 1 << 22
"""Numbers that are read at a time."""


def check(store: Store) -> None:
    """Reads all of it. Raises Mistake for the first thing that is wrong."""
    expected = {INDEX}
    if store.description.tokenizer != BYTES:
        expected.add(FILE)
        _check_tokenizer(store)
    for split, shards in store.shards.items():
        names = set()
        for number, shard in enumerate(shards):
            kinds = suffixes(store.description.has_labels)
            names.update(shard_name(number, suffix) for suffix in kinds)
            _check_shard(store, split, number, shard)
        _check_names(os.path.join(store.folder, split), names)
        expected.add(split)
    _check_names(store.folder, expected)


def _check_names(folder: str, expected: set) -> None:
    for name in sorted(set(os.listdir(folder)) - expected):
        raise Mistake("%s: the index has no file %s; remove it" % (folder, name))


def _check_tokenizer(store: Store) -> None:
    path = os.path.join(store.folder, FILE)
    try:
        found = to_hex(hash64(small_file.read(path, small_file.MOST_TOKENIZER)))
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    if found != store.description.tokenizer_hash:
        message = "%s: its hash is %s, the index says %s"
        raise Mistake(message % (path, found, store.description.tokenizer_hash))


def _check_shard(store: Store, split: str, number: int, shard: Shard) -> None:
    kinds = suffixes(store.description.has_labels)
    paths = [shard_path(store.folder, split, number, suffix) for suffix in kinds]
    vocabulary = store.description.vocabulary

    def look_at_tokens(tokens: np.ndarray, offset: int) -> None:
        if tokens.max() >= vocabulary:
            bad = int(np.argmax(tokens >= vocabulary))
            message = "%s has token %d at offset %d, the vocabulary has %d"
            raise Mistake(message % (paths[0], tokens[bad], offset + bad, vocabulary))

    last = [0]

    def look_at_ends(ends: np.ndarray, _: int) -> None:
        rising = np.diff(ends.astype(np.int64), prepend=last[0])
        last[0] = int(ends[-1])
        if rising.min() < 1 or last[0] > shard.tokens:
            message = "%s: expected rising ends from 1 to %d"
            raise Mistake(message % (paths[1], shard.tokens))

    looks = look_at_tokens, look_at_ends, lambda *_: None
    for path, kind, look_at in zip(paths, files_of(store, shard), looks):
        check_file(path, *kind, look_at)


def files_of(store: Store, shard: Shard) -> List[Tuple[np.dtype, int, str]]:
    """Of a shard, by suffix: type, count and hash."""
    dtype = np.dtype(DTYPES[store.description.token_type])
    files = [(dtype, shard.tokens, shard.hash), (ENDS, shard.documents, shard.ends_hash)]
    if shard.labels_hash is not None:
        files.append((np.dtype(np.uint8), (shard.tokens + 7) // 8, shard.labels_hash))
    return files


def check_file(
    path: str,
    dtype: np.dtype,
    count: int,
    expected: str,
    look_at: Callable[[np.ndarray, int], None],
) -> None:
    """Has `look_at` called with pieces of a file's numbers and their offsets. Raises
    Mistake for another number of them, for another hash, and then for what `look_at`
    has found."""
    hashed, offset = Hash64(), 0
    found: List[Mistake] = []
    try:
        size = os.stat(path).st_size
        if size != count * dtype.itemsize:
            message = "%s has %d bytes, by the index it has %d"
            raise Mistake(message % (path, size, count * dtype.itemsize))
        with open(path, "rb") as file:
            while offset < count:
                piece = np.fromfile(file, dtype, min(PIECE, count - offset))
                if not len(piece):
                    raise Mistake("%s changed while it was read" % path)
                hashed.update(piece)
                try:
                    look_at(piece, offset)
                except Mistake as mistake:
                    found.append(mistake)
                offset += len(piece)
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    if hashed.digest() != expected:
        message = "%s is damaged: its hash is %s, the index says %s; prepare the store again"
        raise Mistake(message % (path, hashed.digest(), expected))
    if found:
        raise found[0]

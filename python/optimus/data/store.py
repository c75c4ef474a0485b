# ===- store.py - A folder of tokens --------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What a store has, its index, and how it is written."""

import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from optimus.arguments import Mistake
from optimus.data.hashing import Hash64, hash64, to_hex
from optimus.data.tokenizer import DTYPES

INDEX = "index.json"
FORMAT, FORMAT_WITH_LABELS = 1, 2
SPLITS = ("train", "held-out")
MOST_SHARDS = 1 << 16
"""Of a split."""
MOST_INDEX = 16 << 20
"""Bytes."""
MOST_SHARD_TOKENS = 1 << 31
ENDS = np.dtype("<u4")
SUFFIXES = ("bin", "ends")
LABELS = "labels"
"""Of a shard of a store with labels: a bit for each token, the lowest first, that is
set where somebody is asked for the token."""


def suffixes(has_labels: bool) -> Tuple[str, ...]:
    return (*SUFFIXES, LABELS) if has_labels else SUFFIXES


class Shard(NamedTuple):
    tokens: int
    documents: int
    """That end in it."""
    hash: str
    """XXH64 of the tokens' bytes."""
    ends_hash: str
    labels_hash: Optional[str] = None
    """Of a store with labels."""

    def listed(self) -> List[Any]:
        """As an index has it."""
        return [member for member in self if member is not None]


def shard_name(number: int, suffix: str) -> str:
    return "%05d.%s" % (number, suffix)


def shard_path(folder: str, split: str, number: int, suffix: str) -> str:
    return os.path.join(folder, split, shard_name(number, suffix))


def split_hash(shards: List[Shard]) -> str:
    """The identity of all tokens of a split: XXH64 of the lines
    `tokens documents hash ends_hash [labels_hash]`, one a shard."""
    lines = [" ".join(map(str, shard.listed())) + "\n" for shard in shards]
    return to_hex(hash64("".join(lines).encode()))


class SplitWriter:
    """Writes tokens into shards of the same number of tokens. Documents go on from one
    shard into the next."""

    def __init__(
        self,
        folder: str,
        split: str,
        token_type: str,
        shard_tokens: int,
        has_labels: bool = False,
        state: Optional[Dict[str, Any]] = None,
    ):
        """With the `state` of a writer that was killed, goes on from there. Raises
        ValueError where what it had written is not there."""
        self._folder, self._split = folder, split
        self._dtype = np.dtype(DTYPES[token_type])
        self._shard_tokens = shard_tokens
        self.shards: List[Shard] = []
        """Those that are full."""
        self._tokens_in = self._documents_in = 0
        self._suffixes = suffixes(has_labels)
        self._files: List[_HashedFile] = []
        """By suffix, of the shard that is not full."""
        self._bits = np.zeros(0, bool)
        """Labels of its last tokens, which make no byte yet."""
        os.makedirs(os.path.join(folder, split), exist_ok=True)
        if state:
            self._resume(state)

    def _open(self, mode: str) -> None:
        number = len(self.shards)
        if number >= MOST_SHARDS:
            raise Mistake(
                "expected at most %d shards of a store; --shard-tokens makes larger ones"
                % MOST_SHARDS
            )
        self._files = [
            _HashedFile(shard_path(self._folder, self._split, number, suffix), mode)
            for suffix in self._suffixes
        ]

    def _resume(self, state: Dict[str, Any]) -> None:
        self.shards = [Shard(*shard) for shard in state["shards"]]
        self._tokens_in, self._documents_in = state["tokens"], state["documents"]
        if not state["hashes"]:
            return
        self._open("r+b")
        self._bits = np.array(state["bits"], bool)
        tokens, documents = self._tokens_in, self._documents_in
        sizes = tokens * self._dtype.itemsize, documents * ENDS.itemsize, tokens // 8
        for file, size, expected in zip(self._files, sizes, state["hashes"]):
            file.go_on(size, expected)

    def state(self) -> Dict[str, Any]:
        return {
            "shards": self.shards,
            "tokens": self._tokens_in,
            "documents": self._documents_in,
            "bits": self._bits.tolist(),
            "hashes": [file.hash.digest() for file in self._files],
        }

    def append(
        self, tokens: np.ndarray, ends: np.ndarray, labels: Optional[np.ndarray] = None
    ) -> None:
        """`ends` has the number of `tokens` up to and with each document's last, and
        `labels` says which of them are labels."""
        begin = 0
        while True:
            room = self._shard_tokens - self._tokens_in
            count = min(room, len(tokens) - begin)
            is_here = (ends > begin) & (ends <= begin + count)
            here = slice(begin, begin + count)
            self._write(tokens[here], ends[is_here] - begin)
            if labels is not None and count:
                self._write_labels(labels[here])
            begin += count
            if begin == len(tokens):
                return
            self._close_shard()

    def _write(self, tokens: np.ndarray, ends: np.ndarray) -> None:
        if not len(tokens):
            return
        if not self._files:
            self._open("wb")
        data = np.ascontiguousarray(tokens), (ends + self._tokens_in).astype(ENDS)
        for file, part in zip(self._files, data):
            file.write(part)
        self._tokens_in += len(tokens)
        self._documents_in += len(ends)

    def _write_labels(self, labels: np.ndarray, is_last: bool = False) -> None:
        bits = np.concatenate([self._bits, labels])
        whole = len(bits) if is_last else len(bits) // 8 * 8
        self._files[-1].write(np.packbits(bits[:whole], bitorder="little"))
        self._bits = bits[whole:]

    def _close_shard(self) -> None:
        if LABELS in self._suffixes:
            self._write_labels(np.zeros(0, bool), is_last=True)
        hashes = [file.close() for file in self._files]
        self.shards.append(Shard(self._tokens_in, self._documents_in, *hashes))
        self._tokens_in = self._documents_in = 0
        self._files = []

    def finish(self) -> List[Shard]:
        if self._files:
            self._close_shard()
        return self.shards

    def num_tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards) + self._tokens_in


class _HashedFile:
    """Grows, and knows the hash of all that it has."""

    def __init__(self, path: str, mode: str):
        self._file = open(path, mode, buffering=0)
        self.hash = Hash64()

    def go_on(self, size: int, expected: str) -> None:
        hash_file(self._file, size, self.hash)
        if self.hash.digest() != expected:
            raise ValueError("%s is damaged" % self._file.name)
        self._file.truncate(size)

    def write(self, data: np.ndarray) -> None:
        self.hash.update(data)
        rest = memoryview(data).cast("B") if data.nbytes else memoryview(b"")
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> str:
        os.fsync(self._file.fileno())
        self._file.close()
        return self.hash.digest()


def hash_file(file: Any, size: int, hashed: Hash64) -> None:
    """Adds the next `size` bytes, or all where there are fewer."""
    while size > 0:
        piece = np.frombuffer(file.read(min(size, 1 << 20)), np.uint8)
        if not len(piece):
            return
        hashed.update(piece)
        size -= len(piece)


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Replaces a file, whole."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class Description(NamedTuple):
    """What an index says beside its shards."""

    token_type: str
    vocabulary: int
    tokenizer: str
    tokenizer_hash: str
    special: Dict[str, int]
    end: Optional[int]
    held_out: float
    has_labels: bool = False


def index_of(description: Description, shards: Dict[str, List[Shard]]) -> Dict[str, Any]:
    return {
        "format": FORMAT_WITH_LABELS if description.has_labels else FORMAT,
        "token_type": description.token_type,
        "vocabulary": description.vocabulary,
        "tokenizer": {
            "name": description.tokenizer,
            "xxh64": description.tokenizer_hash,
        },
        "special": description.special,
        "document_end": description.end,
        "held_out": description.held_out,
        "splits": {
            split: {
                "tokens": sum(shard.tokens for shard in found),
                "documents": sum(shard.documents for shard in found),
                "xxh64": split_hash(found),
                "shards": [shard.listed() for shard in found],
            }
            for split, found in shards.items()
        },
    }

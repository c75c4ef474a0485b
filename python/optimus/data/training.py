# ===- training.py - A tokenizer of one's own -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trains a tokenizer as GPT-2's: byte-level, pairs of the most frequent neighbours
joined, on a sample of the texts."""

import heapq
from typing import Iterator, List, Tuple

from optimus.arguments import Mistake
from optimus.data.documents import Choice, pieces, split
from optimus.data.encoding import document_of
from optimus.data.hashing import hash64
from optimus.data.inputs import Input, Stream
from optimus.data.tokenizer import library

PREFIX = "train:bpe:"
END = "<|endoftext|>"
MOST_PIECES = 1 << 20
"""In a sample, which is the smaller for it where lines are a few bytes."""
LEAST, MOST = 257, 1 << 20
"""Tokens: each byte and the end of a document, at least."""


def vocabulary_of(text: str) -> int:
    """What --tokenizer train:bpe:N says. Raises Mistake."""
    number = text[len(PREFIX) :]
    if number.isascii() and number.isdigit() and len(number) < 9:
        if LEAST <= int(number) <= MOST:
            return int(number)
    message = "--tokenizer %s: expected %sN with N tokens from %d to %d"
    raise Mistake(message % (text, PREFIX, LEAST, MOST))


def train(
    inputs: List[Input], choice: Choice, vocabulary: int, seed: int, most: int
) -> Tuple[bytes, str]:
    """The tokenizer.json, from `most` bytes of text, and what is to be said. The same
    texts and seed give the same file. Raises Mistake."""
    sample, total = _sample(inputs, choice, seed, most)
    if not sample:
        raise Mistake("expected some text to train a tokenizer on, found none")
    tokenizers = library()
    found = tokenizers.Tokenizer(tokenizers.models.BPE())
    bytes_of = tokenizers.pre_tokenizers.ByteLevel
    found.pre_tokenizer = bytes_of(add_prefix_space=False)
    found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(bytes_of.alphabet()),
        show_progress=False,
    )
    texts = (text.decode("utf-8", "replace") for text in sample)
    found.train_from_iterator(texts, trainer)
    size = sum(map(len, sample))
    said = "trained a tokenizer of %d tokens on %.1f of %.1f MB, seed %d" % (
        *(found.get_vocab_size(), size / 1e6, total / 1e6),
        seed,
    )
    if found.get_vocab_size() < vocabulary:
        said += "; there are no more pairs that come twice"
    return found.to_str(pretty=True).encode("utf-8"), said


def _sample(
    inputs: List[Input], choice: Choice, seed: int, most: int
) -> Tuple[List[bytes], int]:
    """Pieces of text with the smallest hashes, in that order, `most` bytes together;
    and the bytes that there are. Neither depends on the order of the inputs."""
    kept: List[Tuple[int, bytes]] = []
    size = total = 0
    for text in _pieces(inputs, choice):
        heapq.heappush(kept, (-hash64(text, seed), text))
        size += len(text)
        total += len(text)
        while (size > most or len(kept) > MOST_PIECES) and len(kept) > 1:
            size -= len(heapq.heappop(kept)[1])
    return [text for _, text in sorted(kept, reverse=True)], total


def _pieces(inputs: List[Input], choice: Choice) -> Iterator[bytes]:
    for source in inputs:
        splitter = choice.splitter(source.is_lines)
        line = 0
        with Stream(source, 0) as stream:
            for batch in split(stream.read, splitter):
                for text in batch.texts:
                    line += 1
                    if source.is_lines:
                        if not text.strip():
                            continue
                        where = "%s:%d" % (source.path, line)
                        text, _ = document_of(text, source.fields, where)
                    yield from pieces(text)

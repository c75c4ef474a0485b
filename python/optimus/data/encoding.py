# ===- encoding.py - Tokens by all cores ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Encodes batches of documents, each in one of several processes, in order."""

import ctypes
import json
import multiprocessing
import os
import signal
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Deque, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import numpy as np

from optimus.arguments import Mistake
from optimus.data.hashing import hash64
from optimus.data.inputs import Input
from optimus.data.tokenizer import Encoder, GaveUp, Tokenizer

HASHED = 64 << 10
"""Bytes of a document that decide whether it is held out. The pieces of a long one have
more."""
IN_FLIGHT = 3
"""Batches for each process: one in work, and some on the way."""


class Interrupted(Mistake):
    """The command may go on where it stopped."""


class Task(NamedTuple):
    texts: List[bytes]
    held: Optional[bool]
    """Whether the document is held out that the first one goes on, if it does."""
    ends: bool
    """Whether the last one ends."""
    source: Input
    offset: int
    """Bytes of the input before."""
    line: int
    """Lines of it before."""


class Result(NamedTuple):
    """Of each split."""

    tokens: List[np.ndarray]
    ends: List[np.ndarray]
    labels: List[Optional[np.ndarray]]


class Labels(NamedTuple):
    """Which tokens somebody is asked for."""

    of_prompts: bool = True
    of_firsts: bool = True
    """The first of a document, which follows the end of another."""

    @property
    def are_all(self) -> bool:
        return all(self)


def is_held_out(text: bytes, threshold: int) -> bool:
    """Of 2^64; by its own content, whatever there is beside."""
    return hash64(text[:HASHED]) < threshold


class Worker:
    def __init__(self, tokenizer: Tokenizer, threshold: int, labels: Labels):
        self._encoder = Encoder(tokenizer)
        self._threshold, self._labels = threshold, labels

    def encode(self, task: Task) -> Result:
        """Raises Mistake."""
        texts, prompts = task.texts, [0] * len(task.texts)
        if task.source.is_lines:
            found = [
                document_of(line, task.source.fields, "%s:%d" % (task.source.path, number))
                for number, line in enumerate(texts, task.line + 1)
                if line.strip()
            ]
            texts = [text for text, _ in found if text]
            prompts = [prompt for text, prompt in found if text]
        if not self._labels.of_firsts:
            prompts = [prompt or -1 for prompt in prompts]
            if task.held is not None:
                prompts[0] = 0
        held = [is_held_out(text, self._threshold) for text in texts]
        if task.held is not None:
            held[0] = task.held
        result = Result([], [], [])
        for is_held in (False, True):
            chosen = [text for text, one in zip(texts, held) if one == is_held]
            of_chosen = None
            if not self._labels.are_all:
                of_chosen = [prompt for prompt, one in zip(prompts, held) if one == is_held]
            ends = task.ends or not held or held[-1] != is_held
            try:
                tokens, document_ends, labels = self._encoder.encode(
                    chosen, ends, of_chosen
                )
            except UnicodeDecodeError as error:
                raise Mistake(
                    "%s: expected UTF-8, found byte 0x%02x in a document after byte %d; "
                    "convert the file, for instance by iconv -f LATIN1 -t UTF-8"
                    % (task.source.path, error.object[error.start], task.offset)
                ) from None
            except GaveUp as error:
                raise Mistake(
                    "%s: the tokenizer gives up on a document after byte %d: %s; name another "
                    "one by --tokenizer" % (task.source.path, task.offset, error)
                ) from None
            result.tokens.append(tokens)
            result.ends.append(document_ends)
            result.labels.append(labels)
        return result


def document_of(line: bytes, fields: Sequence[str], where: str) -> Tuple[bytes, int]:
    """The text in a line of JSON, and of how many bytes its prompt is: all fields but
    the last. Raises Mistake."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Mistake("%s is not JSON: %s" % (where, error)) from None
    *prompt, completion = [_text_of(found, field, where) for field in fields]
    return b"".join([*prompt, completion]), sum(map(len, prompt))


def _text_of(found: Any, field: str, where: str) -> bytes:
    text = found.get(field) if isinstance(found, dict) else None
    if not isinstance(text, str):
        kind = "an object without it" if isinstance(found, dict) else "no object"
        if isinstance(found, dict) and field in found:
            kind = "a value of type %s there" % type(found[field]).__name__
        message = '%s: expected a string in the field "%s", found %s; --field names another'
        raise Mistake(message % (where, field, kind))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        message = '%s: the field "%s" has half of a surrogate pair, which is no text'
        raise Mistake(message % (where, field)) from None


_worker: Worker
T = TypeVar("T")


def _start(tokenizer: Tokenizer, threshold: int, labels: Labels) -> None:
    """In a process of its own."""
    global _worker
    # The parent's death is the end: nobody would take the results.
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGKILL))
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # What is wrong is said once, by the parent: Rust's code prints before it gives up.
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    _worker = Worker(tokenizer, threshold, labels)


def _encode(task: Task) -> Result:
    return _worker.encode(task)


class Team:
    """Encodes in `jobs` processes, or in this one where there is one job, or nothing
    to do for more."""

    def __init__(self, tokenizer: Tokenizer, threshold: int, labels: Labels, jobs: int):
        how = tokenizer, threshold, labels
        self._pool: Optional[ProcessPoolExecutor] = None
        # Bytes are copied faster than they are sent.
        if jobs == 1 or not tokenizer.content:
            self._worker = Worker(*how)
            return
        self._most = jobs * IN_FLIGHT
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(jobs, fork, initializer=_start, initargs=how)

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def encode(self, tasks: Iterator[Tuple[Task, T]]) -> Iterator[Tuple[Result, T]]:
        """In order, and no more at a time than are in flight."""
        if not self._pool:
            for task, after in tasks:
                yield self._worker.encode(task), after
            return
        waiting: Deque[Tuple["Future[Result]", T]] = deque()
        try:
            for task, after in tasks:
                waiting.append((self._pool.submit(_encode, task), after))
                if len(waiting) >= self._most:
                    future, done = waiting.popleft()
                    yield future.result(), done
            while waiting:
                future, done = waiting.popleft()
                yield future.result(), done
        except BrokenProcessPool:
            raise Interrupted(
                "a process that encodes text was killed, perhaps for want of memory; run "
                "the command again to go on, with a smaller --jobs"
            ) from None

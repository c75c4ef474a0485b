# ===- embedding.py - Vectors of sentences ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The engine and the bodies of /v1/embeddings, for encoders."""

import base64
import itertools
import struct
from collections import deque
from typing import Any, Collection, Deque, Dict, List, NamedTuple, Tuple

from optimus.serve.api import Naming
from optimus.serve.engine import Engine, Event, Ticket
from optimus.serve.limits import Limits
from optimus.serve.metrics import Metrics
from optimus.text.fields import FieldError, Fields
from optimus.text.leading import Leader
from optimus.text.model import Model
from optimus.text.pooling import Pooling


class EmbeddingEngine(Engine):
    """Of an encoder: a step takes as many sentences as a call of the library has."""

    def __init__(self, leader: Leader, model: Model, queue_tokens: int, metrics: Metrics):
        super().__init__(queue_tokens, metrics)
        self._leader = leader
        self._extents = model.encoder
        self._pooling: Pooling = model.pooling
        self._queue: Deque[Tuple[Ticket, int]] = deque()

    def _under_way(self) -> Collection[Ticket]:
        return {ticket for ticket, _ in list(self._queue)}

    def _begin(self, ticket: Ticket) -> None:
        self._queue.extend((ticket, index) for index in range(len(ticket.requests)))
        ticket.deliver(Event())

    def _stop(self, ticket: Ticket) -> None:
        self._queue = deque(each for each in self._queue if each[0] is not ticket)
        super()._stop(ticket)

    def _step(self) -> int:
        count = min(self._extents.batch, len(self._queue))
        # They stay in the queue, whose tickets are told of a failure, until it is over.
        taken = list(itertools.islice(self._queue, count))
        sentences = [ticket.requests[index] for ticket, index in taken]
        pad, length = self._extents.pad, self._extents.sequence
        rows = [tokens + [pad] * (length - len(tokens)) for tokens in sentences]
        hidden = self._leader.forward(rows)
        for _ in taken:
            self._queue.popleft()
        for (ticket, index), tokens, states in zip(taken, sentences, hidden):
            self._leave_queue(ticket, index)
            vector = self._pooling.vector(states[: len(tokens)])
            ticket.deliver(Event(index, finish="stop", vector=vector))
        tokens = sum(map(len, sentences))
        self._metrics.prompt_tokens.inc(tokens)
        return tokens

    def _measure(self) -> None:
        self._metrics.waiting.set(len(self._queue))
        super()._measure()


class Sentences(NamedTuple):
    """What a body asks for."""

    tokens: List[List[int]]
    is_base64: bool


class EmbeddingReader:
    """Reads bodies for one encoder."""

    def __init__(self, model: Model, naming: Naming, limits: Limits):
        self._model = model
        self._naming = naming
        self._limits = limits

    def read(self, body: Dict[str, Any]) -> Sentences:
        """Raises FieldError."""
        fields = Fields(body)
        self._naming.check(fields)
        sentences = [self._encode(each) for each in fields.prompts("input", self._limits.texts)]
        form = fields.text("encoding_format", "float")
        if form not in ("float", "base64"):
            raise fields.refuse("encoding_format", "float or base64", form)
        fields.end()
        return Sentences(sentences, form == "base64")

    def _encode(self, sentence: Any) -> List[int]:
        extents = self._model.encoder
        try:
            tokens = (
                self._model.codec.encode(sentence) if isinstance(sentence, str) else sentence
            )
        except ValueError as error:
            raise FieldError("input", "input: %s" % error) from None
        if not 1 <= len(tokens) <= extents.sequence:
            expected = "input: expected 1 to %d tokens, the library's sequence, found %d"
            raise FieldError("input", expected % (extents.sequence, len(tokens)))
        if not all(token < extents.vocabulary for token in tokens):
            raise FieldError("input", "input: expected tokens below %d" % extents.vocabulary)
        return tokens

    def body(self, asked: Sentences, vectors: List[List[float]]) -> Dict[str, Any]:
        """The answer."""
        count = sum(map(len, asked.tokens))
        listed = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _base64(vector) if asked.is_base64 else vector,
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": count, "total_tokens": count}
        name = self._naming.name
        return {"object": "list", "data": listed, "model": name, "usage": usage}


def _base64(vector: List[float]) -> str:
    """float32, as clients of OpenAI read it."""
    return base64.b64encode(struct.pack("<%df" % len(vector), *vector)).decode()

# ===- speaker.py - Answers of a model -------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Answers of a model as text, several at a time."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from optimus.generator import Text
from optimus.text.codec import Codec
from optimus.text.leading import Leader
from optimus.text.requests import Request
from optimus.text.streaming import Piece, Spoken, TextStream


class Answer:
    """One under way."""

    def __init__(self, text: Text, stream: Optional[TextStream], ends: Sequence[int] = ()):
        """`ends` are tokens that end it here, where its request has no stops."""
        self._text = text
        self._stream = stream
        self._ends = ends
        self._seen = 0

    def _take(self) -> Tuple[Piece, Optional[str]]:
        """What is new, and why the answer has ended."""
        tokens = self._text.tokens[self._seen :]
        scores = self._text.scores[self._seen :] or None
        self._seen += len(tokens)
        finish = self._text.finish
        if self._stream is None:
            scored = zip(tokens, scores or [])
            return Piece("", [Spoken(token, 0, score) for token, score in scored]), finish
        end = next((i for i, token in enumerate(tokens) if token in self._ends), None)
        piece = self._stream.push(tokens[:end], scores)
        if end is not None:
            score = scores[end] if scores else None
            return Piece.joined([piece, self._stream.end_by(tokens[end], score)]), "stop"
        if finish and not self._stream.has_stopped:
            piece = Piece.joined([piece, self._stream.end()])
        return piece, "stop" if self._stream.has_stopped else finish


class Said(NamedTuple):
    """What a step adds to an answer."""

    answer: Answer
    piece: Piece
    finish: Optional[str]


class Speaker:
    def __init__(self, leader: Leader, codec: Codec):
        self._leader = leader
        self._codec = codec
        self._answers: Dict[Text, Answer] = {}

    def submit(self, request: Request) -> Answer:
        """Raises InvalidArgumentError."""
        if request.is_scored:
            text = self._leader.submit(
                request.prompt[:1], continuation=request.prompt[1:], logprobs=request.logprobs
            )
            answer = Answer(text, None)
        else:
            text = self._leader.submit(request.prompt, **request.arguments())
            ends = request.stop_tokens if request.has_end else ()
            answer = Answer(text, TextStream(self._codec, request.stop), ends)
        self._answers[text] = answer
        return answer

    def cancel(self, answer: Answer) -> None:
        """Ends it before the next step, which says nothing more of it."""
        if self._answers.pop(answer._text, None) and not answer._text.finish:
            self._leader.cancel(answer._text)

    @property
    def has_work(self) -> bool:
        return self._leader.has_work

    def step(self) -> List[Said]:
        said = []
        for text in self._leader.step():
            answer = self._answers.get(text)
            if answer is None:
                continue
            piece, finish = answer._take()
            if finish:
                self.cancel(answer)
            said.append(Said(answer, piece, finish))
        return said

# ===- streaming.py - Text as its tokens come ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes text of tokens one by one. A piece never splits a character, and ends before
what may become a stop."""

from typing import Any, Iterable, List, NamedTuple, Optional, Sequence

from optimus.text.codec import Codec

UNFINISHED = "\ufffd"
MOST_HELD = 8
MOST_OF_A_CHARACTER = 4
"""Tokens, since each has a byte at least."""


class TokenDecoder:
    """Text of tokens, each character when it is whole."""

    def __init__(self, codec: Codec):
        self._codec = codec
        self._tokens: List[int] = []
        # The first of these are text that has been said: decoders look back.
        self._context = self._said = 0

    def push(self, token: int) -> str:
        self._tokens.append(token)
        text = self._beyond_said(len(self._tokens))
        if text and not text.endswith(UNFINISHED):
            return self._say(len(self._tokens), text)
        held = len(self._tokens) - self._said
        if held < MOST_HELD:
            return ""
        # No character is that long: the first of them will never be text. A character
        # that is begun lies in the last ones.
        end = len(self._tokens) - (MOST_OF_A_CHARACTER - 1)
        return self._say(end, self._beyond_said(end))

    def end(self) -> str:
        """What is left."""
        end = len(self._tokens)
        return self._say(end, self._beyond_said(end))

    def _beyond_said(self, end: int) -> str:
        before = self._codec.decode(self._tokens[self._context : self._said])
        return self._codec.decode(self._tokens[self._context : end])[len(before) :]

    def _say(self, end: int, text: str) -> str:
        self._context, self._said = self._said, end
        # Whoever writes a book needs its last words alone.
        del self._tokens[: self._context]
        self._said -= self._context
        self._context = 0
        return text


class StopMatcher:
    """Ends text before the first of some stops that is complete."""

    def __init__(self, stops: Sequence[str]):
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.has_stopped = False

    def push(self, text: str) -> str:
        """What has become certain."""
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.has_stopped = True
            self._held = ""
            return text[: min(found)[1]]
        end = len(text) - self._begun(text)
        self._held = text[end:]
        return text[:end]

    def end(self) -> str:
        """What is left: it became no stop."""
        held, self._held = self._held, ""
        return held

    def _begun(self, text: str) -> int:
        """How many of the last characters a stop begins with."""
        for length in range(min(max(map(len, self._stops), default=1) - 1, len(text)), 0, -1):
            last = text[-length:]
            if any(len(stop) > length and stop.startswith(last) for stop in self._stops):
                return length
        return 0


class Spoken(NamedTuple):
    """A token of an answer."""

    token: int
    offset: int
    """Characters of the answer before it."""
    score: Any
    is_end: bool = False
    """It ended the answer, and is no part of its text."""


class Piece(NamedTuple):
    """What an answer gets."""

    text: str
    tokens: List[Spoken]

    @staticmethod
    def joined(pieces: Iterable["Piece"]) -> "Piece":
        """Pieces that follow each other, as one."""
        pieces = list(pieces)
        if len(pieces) == 1:
            return pieces[0]
        text = "".join(piece.text for piece in pieces)
        return Piece(text, [spoken for piece in pieces for spoken in piece.tokens])


class TextStream:
    """The text of one answer."""

    def __init__(self, codec: Codec, stops: Sequence[str] = ()):
        self._decoder = TokenDecoder(codec)
        self._matcher = StopMatcher(stops)
        self._decoded = 0
        self._said = 0
        self._pending: List[Spoken] = []

    @property
    def has_stopped(self) -> bool:
        """Whether a stop came: nothing follows."""
        return self._matcher.has_stopped

    def push(self, tokens: Sequence[int], scores: Optional[Sequence[Any]] = None) -> Piece:
        """Tokens that follow, each with its score if there are any."""
        pieces = []
        for i, token in enumerate(tokens):
            if self.has_stopped:
                break
            self._pending.append(Spoken(token, self._decoded, scores[i] if scores else None))
            decoded = self._decoder.push(token)
            self._decoded += len(decoded)
            pieces.append(self._release(self._matcher.push(decoded)))
        return Piece.joined(pieces)

    def end(self) -> Piece:
        """What was held back, once no token follows. A stop may end it."""
        if self.has_stopped:
            return Piece("", [])
        decoded = self._decoder.end()
        self._decoded += len(decoded)
        text = self._matcher.push(decoded)
        piece = self._release(text + ("" if self.has_stopped else self._matcher.end()))
        if self.has_stopped:
            return piece
        rest, self._pending = self._pending, []
        return Piece(piece.text, piece.tokens + rest)

    def end_by(self, token: int, score: Any) -> Piece:
        """The same as end(), by a token that is no text, unless a stop came before."""
        piece = self.end()
        if self.has_stopped:
            return piece
        return Piece(piece.text, [*piece.tokens, Spoken(token, self._said, score, True)])

    def _release(self, text: str) -> Piece:
        self._said += len(text)
        count = sum(spoken.offset < self._said for spoken in self._pending)
        released, self._pending = self._pending[:count], self._pending[count:]
        return Piece(text, released)

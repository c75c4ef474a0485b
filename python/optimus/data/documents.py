# ===- documents.py - Where documents begin and end -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Splits streams of bytes into documents.

A long document is cut into pieces, so that it takes no memory. Where depends on its
text alone: in PIECE bytes after the last line with text after it, since tokenizers
split there too.

    file     a file is a document
    lines    a line is one, without its end
    blank    lines without text are between documents
    at=TEXT  TEXT is between documents, and is no part of them
"""

import re
from typing import Callable, Iterator, List, NamedTuple, Optional, Pattern, Tuple

from optimus.arguments import Mistake

PIECE = 1 << 20
BLOCK = 1 << 20
"""Bytes that are read at a time."""
MOST_BYTES = 64_000_000
"""Of a document whose end is looked for, if nobody asks for more."""
MOST_BLANKS = 64
"""In a line that counts as one without text."""
MARGIN = 256
"""More bytes than any separator has."""

TEXT_AFTER_LINE = re.compile(rb"\n[^\s]")


class Batch(NamedTuple):
    """Documents that follow each other."""

    texts: List[bytes]
    """The first goes on the last of the batch before, where that did not end."""
    ends: bool
    """Whether the last one ends here."""
    after: int
    """The bytes of the stream before and in this batch."""


class Splitter(NamedTuple):
    separator: Optional[Pattern]
    trimmed: bytes = b""
    """What is no part of a document at its two ends."""
    is_json: bool = False
    """Of lines of JSON none is cut, and empty ones count."""
    most: Optional[int] = MOST_BYTES
    """The bytes of a document."""

    def ends(self, buffer: bytes, is_last: bool) -> Iterator[Tuple[int, int]]:
        """Of the documents that end in a buffer: where, and where the next begins."""
        if self.separator is not None:
            for found in self.separator.finditer(buffer):
                yield found.span()
        if is_last:
            yield len(buffer), len(buffer)

    def check(self, begin: int, end: int) -> None:
        """Of a document, by the bytes before it and those before its end, or before some
        of it. Raises Mistake."""
        if self.most is None or end - begin <= self.most:
            return
        kind, remedy = "document", "another --documents finds shorter ones, and "
        if self.is_json:
            kind, remedy = "line", ""
        raise Mistake(
            "the %s after byte %d has more than %.15g MB; %s--document-mb allows longer ones"
            % (kind, begin, self.most / 1e6, remedy)
        )


JSON_LINES = Splitter(re.compile(rb"\n"), is_json=True)
SPLITTERS = {
    "file": Splitter(None, most=None),
    "lines": Splitter(re.compile(rb"\n"), b"\r"),
    "blank": Splitter(re.compile(rb"\n[ \t\r]{0,%d}\n" % MOST_BLANKS), b"\r\n"),
}


class Choice(NamedTuple):
    """What is asked for."""

    how: str
    """The argument of --documents."""
    most: Optional[int]
    """The bytes of a document, where they are not the splitter's."""

    def splitter(self, is_json: bool) -> Splitter:
        """Raises Mistake."""
        found = JSON_LINES if is_json else _splitter_of(self.how)
        return found if self.most is None else found._replace(most=self.most)


def _splitter_of(text: str) -> Splitter:
    if text in SPLITTERS:
        return SPLITTERS[text]
    kind, _, separator = text.partition("=")
    if kind == "at" and 0 < len(separator.encode()) < MARGIN:
        return Splitter(re.compile(re.escape(separator.encode())))
    raise Mistake(
        "--documents %s: expected file, lines, blank, or at=TEXT with a text of fewer "
        "than %d bytes" % (text, MARGIN)
    )


def cut(text: bytes, begin: int) -> int:
    """Where a document of more than PIECE bytes from `begin` on is cut. Never in the
    first half, so that each piece but the last is a long one."""
    least, most = begin + PIECE // 2, begin + PIECE
    at = text.rfind(b"\n", least, most)
    while at >= 0:
        if TEXT_AFTER_LINE.match(text, at):
            return at + 1
        at = text.rfind(b"\n", least, at)
    # At a blank, or between two characters.
    at = text.rfind(b" ", least, most)
    if at >= 0:
        return at
    at = most
    while at > most - 4 and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


def pieces(text: bytes) -> Iterator[bytes]:
    """Of a document that is there as a whole."""
    begin = 0
    while len(text) - begin > PIECE:
        end = cut(text, begin)
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


def split(
    read: Callable[[int], bytes],
    splitter: Splitter,
    offset: int = 0,
    is_inside: bool = False,
) -> Iterator[Batch]:
    """The documents of a stream from `offset` on, which is between two documents or
    two pieces of one. Batches differ with it, documents and pieces do not. Raises
    Mistake for a document that is too long; bytes before `offset` do not count."""
    piece = None if splitter.is_json else PIECE
    document = offset
    rest = b""
    while True:
        block = read(BLOCK)
        buffer = rest + block
        texts: List[bytes] = []
        begin = 0
        for end, following in splitter.ends(buffer, is_last=not block):
            splitter.check(document, offset + end)
            while piece and end - begin > piece:
                texts.append(_piece(buffer, begin, splitter, is_inside))
                begin = cut(buffer, begin)
                yield Batch(texts, False, offset + begin)
                texts, is_inside = [], True
            text = buffer[begin:end].rstrip(splitter.trimmed)
            if not is_inside:
                text = text.lstrip(splitter.trimmed)
            if text or is_inside or splitter.is_json:
                texts.append(text)
            begin, is_inside, document = following, False, offset + following
        # A separator may have begun in the margin.
        splitter.check(document, offset + len(buffer) - MARGIN)
        while piece and len(buffer) - begin > piece + MARGIN:
            texts.append(_piece(buffer, begin, splitter, is_inside))
            begin = cut(buffer, begin)
            yield Batch(texts, False, offset + begin)
            texts, is_inside = [], True
        if texts:
            yield Batch(texts, True, offset + begin)
        offset += begin
        rest = buffer[begin:]
        if not block:
            return


def _piece(buffer: bytes, begin: int, splitter: Splitter, is_inside: bool) -> bytes:
    text = buffer[begin : cut(buffer, begin)]
    return text if is_inside else text.lstrip(splitter.trimmed)

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
MOST_LINE = 64 << 20
"""Bytes of a line of JSON."""
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

    def ends(self, buffer: bytes, is_last: bool) -> Iterator[Tuple[int, int]]:
        """Of the documents that end in a buffer: where, and where the next begins."""
        if self.separator is not None:
            for found in self.separator.finditer(buffer):
                yield found.span()
        if is_last:
            yield len(buffer), len(buffer)


JSON_LINES = Splitter(re.compile(rb"\n"), is_json=True)
SPLITTERS = {
    "file": Splitter(None),
    "lines": Splitter(re.compile(rb"\n"), b"\r"),
    "blank": Splitter(re.compile(rb"\n[ \t\r]{0,%d}\n" % MOST_BLANKS), b"\r\n"),
}


def splitter_of(text: str) -> Splitter:
    """What --documents says. Raises Mistake."""
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
    Mistake for an endless line of JSON."""
    longest = MOST_LINE if splitter.is_json else PIECE
    rest = b""
    while True:
        block = read(BLOCK)
        buffer = rest + block
        texts: List[bytes] = []
        begin = 0
        for end, following in splitter.ends(buffer, is_last=not block):
            while end - begin > longest:
                texts.append(_piece(buffer, begin, splitter, is_inside))
                begin = cut(buffer, begin)
                yield Batch(texts, False, offset + begin)
                texts, is_inside = [], True
            text = buffer[begin:end].rstrip(splitter.trimmed)
            if not is_inside:
                text = text.lstrip(splitter.trimmed)
            if text or is_inside or splitter.is_json:
                texts.append(text)
            begin, is_inside = following, False
        # A separator may have begun in the margin.
        while len(buffer) - begin > longest + MARGIN:
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
    if splitter.is_json:
        raise Mistake("a line of more than %d bytes" % MOST_LINE)
    text = buffer[begin : cut(buffer, begin)]
    return text if is_inside else text.lstrip(splitter.trimmed)

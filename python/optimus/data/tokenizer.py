# ===- tokenizer.py - What makes tokens of text ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tokenizers: of bytes, and those of a tokenizer.json, by PyPI's `tokenizers`.

Nothing is cut, padded, or put around a text, whatever the file asks for, and a special
token's name in a text is text.
"""

import contextlib
import os
from itertools import chain
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Type

import numpy as np

from optimus import small_file, wheels
from optimus.arguments import Mistake
from optimus.data.documents import pieces
from optimus.data.hashing import hash64, to_hex

BYTES = "bytes"
FILE = "tokenizer.json"
MOST_TOKEN = (1 << 31) - 1
NUL = 0
"""The byte that ends a document of bytes: no text has it."""

KNOWN_ENDS = (
    *("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[SEP]"),
    "<｜end▁of▁sentence｜>",
)
"""Tokens between documents, of published tokenizers."""


def library() -> Any:
    """PyPI's `tokenizers`. Raises Mistake."""
    return wheels.load("tokenizers", "reads a tokenizer.json")


class Tokenizer(NamedTuple):
    """How a store's tokens were made."""

    content: bytes
    """Of the tokenizer.json; empty for bytes."""
    vocabulary: int
    """The largest token, and one."""
    special: Dict[str, int]
    end: Optional[int]
    """After each document."""

    @property
    def name(self) -> str:
        return FILE if self.content else BYTES

    @property
    def hash(self) -> str:
        return to_hex(hash64(self.content or BYTES.encode()))

    @property
    def type(self) -> str:
        """The narrowest, as the runtime names it."""
        if not self.content:
            return "u8"
        return "u16" if self.vocabulary <= 1 << 16 else "u32"


def of_bytes(end: Optional[str]) -> Tokenizer:
    """`end` is --document-end. Raises Mistake."""
    tokenizer = Tokenizer(b"", 256, {}, NUL)
    return tokenizer if end is None else tokenizer._replace(end=_end(tokenizer, end))


def read(path: str) -> bytes:
    """A tokenizer.json, or that in a folder. Raises Mistake."""
    if os.path.isdir(path):
        path = os.path.join(path, FILE)
    try:
        return small_file.read(path, small_file.MOST_TOKENIZER)
    except OSError as error:
        raise Mistake(
            "--tokenizer %s: %s; expected a tokenizer.json, bytes, or train:bpe:N"
            % (path, error.strerror)
        ) from None


class GaveUp(ValueError):
    """Why the library gives up."""


@contextlib.contextmanager
def library_gives_up(others: Tuple[Type[Exception], ...] = ()) -> Iterator[None]:
    """Turns what the library gives up on, but for `others`, into GaveUp: what its Rust code
    panics with is no Exception, and cannot be sent to another process."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError, *others)):
            raise
        raise GaveUp(" ".join(str(error).split())[:200]) from None


def load(content: bytes, where: str) -> Any:
    """The library's object. Raises Mistake."""
    tokenizers = library()
    try:
        with library_gives_up():
            found = tokenizers.Tokenizer.from_buffer(content)
    except GaveUp as error:
        raise Mistake("%s is no tokenizer.json: %s" % (where, error)) from None
    found.no_truncation()
    found.no_padding()
    found.encode_special_tokens = True
    return found


def of_file(content: bytes, where: str, end: Optional[str]) -> Tuple[Tokenizer, List[str]]:
    """With what is to be said. Raises Mistake."""
    found = load(content, where)
    notes = _switched_off(content, where)
    tokens = found.get_vocab(with_added_tokens=True).values()
    vocabulary = max(tokens, default=-1) + 1
    if not 0 < vocabulary <= MOST_TOKEN:
        raise Mistake(
            "%s: expected tokens from 0 to %d, found %d as the largest"
            % (where, MOST_TOKEN - 1, vocabulary - 1)
        )
    special = {
        token.content: number
        for number, token in found.get_added_tokens_decoder().items()
        if token.special
    }
    tokenizer = Tokenizer(content, vocabulary, special, None)
    if end is not None:
        chosen = _end(tokenizer, end, found)
        return tokenizer._replace(end=chosen), notes
    known = [name for name in KNOWN_ENDS if name in special]
    if len(known) > 1:
        raise Mistake(
            "%s has several tokens for the end of a document, %s; choose one by "
            "--document-end" % (where, ", ".join(known))
        )
    if known:
        notes.append("documents end with %s, token %d" % (known[0], special[known[0]]))
        return tokenizer._replace(end=special[known[0]]), notes
    notes.append("no token ends a document; --document-end TOKEN names one")
    return tokenizer, notes


def _switched_off(content: bytes, where: str) -> List[str]:
    """What the file asks for, and load() declines."""
    asked = library().Tokenizer.from_buffer(content)
    notes = []
    if asked.truncation:
        length = asked.truncation.get("max_length")
        notes.append("%s truncates at %s tokens; this is switched off" % (where, length))
    if asked.padding:
        notes.append("%s pads; this is switched off" % where)
    return notes


def _end(tokenizer: Tokenizer, text: str, found: Any = None) -> Optional[int]:
    """--document-end."""
    if text == "none":
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None
    if number is None and found is not None:
        number = found.token_to_id(text)
    if number is None or number >= tokenizer.vocabulary:
        raise Mistake(
            "--document-end %s: expected none, a token from 0 to %d, or the name of one"
            % (text, tokenizer.vocabulary - 1)
        )
    return number


class Encoder:
    """Makes tokens of documents, in one thread."""

    def __init__(self, tokenizer: Tokenizer):
        self._dtype = np.dtype(DTYPES[tokenizer.type])
        self._found = load(tokenizer.content, FILE) if tokenizer.content else None
        self._end = [] if tokenizer.end is None else [tokenizer.end]

    def encode(
        self, texts: List[bytes], ends: bool, prompts: Optional[Sequence[int]] = None
    ) -> Tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """The tokens of documents, one after the other, and the number of tokens up to
        and with the last of each that ends: the last one only if `ends`. `prompts` has
        the bytes of each document's prompt, or -1 for its first token; then the tokens
        behind these are told from them. Raises UnicodeDecodeError and GaveUp."""
        encode = self._of_bytes if self._found is None else self._of_file
        tokens, counts, prompted = encode(texts, prompts)
        found = np.cumsum(np.array(counts, np.int64) + len(self._end))
        labels = None
        if prompts is not None:
            labels = _labels(found, prompted, len(tokens))
        if not ends:
            last = len(tokens) - len(self._end)
            tokens, found = tokens[:last], found[:-1]
            labels = labels if labels is None else labels[:last]
        return tokens, found, labels

    def _of_bytes(
        self, texts: List[bytes], prompts: Optional[Sequence[int]]
    ) -> Tuple[np.ndarray, List[int], List[int]]:
        end = bytes(self._end)
        tokens = np.frombuffer(end.join([*texts, b""]), np.uint8)
        return tokens, list(map(len, texts)), [abs(count) for count in prompts or ()]

    def _of_file(
        self, texts: List[bytes], prompts: Optional[Sequence[int]]
    ) -> Tuple[np.ndarray, List[int], List[int]]:
        before = [max(count, 0) for count in prompts or [0] * len(texts)]
        # A prompt is encoded as without its completion.
        whole = [
            [piece.decode("utf-8") for part in parts for piece in pieces(part)]
            for parts in (
                [text[:count], text[count:]] if count else [text]
                for text, count in zip(texts, before)
            )
        ]
        flat = list(chain.from_iterable(whole))
        with library_gives_up():
            encodings = self._found.encode_batch_fast(flat, add_special_tokens=False)
        numbers = iter([encoding.ids for encoding in encodings])
        found: List[int] = []
        counts, prompted = [], []
        for number, document in enumerate(whole):
            begin = len(found)
            of_prompt = 0
            if before[number]:
                of_prompt = sum(1 for _ in pieces(texts[number][: before[number]]))
            prompted.append(int(bool(prompts and prompts[number] < 0)))
            for place, _ in enumerate(document, 1):
                found += next(numbers)
                if place == of_prompt:
                    prompted[-1] = len(found) - begin
            counts.append(len(found) - begin)
            found += self._end
        return np.array(found, self._dtype), counts, prompted


def _labels(ends: np.ndarray, prompted: List[int], count: int) -> np.ndarray:
    """Of `count` tokens: which are beyond the first `prompted` ones of the documents
    with these ends."""
    begins = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    changes = np.zeros(count + 1, np.int64)
    np.add.at(changes, begins, 1)
    np.add.at(changes, np.minimum(begins + np.array(prompted, np.int64), ends), -1)
    return np.cumsum(changes[:-1]) == 0


DTYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4"}

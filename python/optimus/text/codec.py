# ===- codec.py - Text to tokens, and back ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What makes tokens of prompts, and text of answers: bytes, or a tokenizer.json."""

from typing import FrozenSet, List, Optional, Sequence

from optimus.data import tokenizer


class Codec:
    """Of models with a token a byte."""

    name = tokenizer.BYTES
    vocabulary = 256
    special: FrozenSet[str] = frozenset()
    """The names of tokens that are no text."""

    def encode(self, text: str) -> List[int]:
        """The tokens of a prompt. Raises ValueError for text that is none."""
        try:
            return list(text.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError as error:
            message = "expected text, found half a character (\\u%04x) at %d"
            raise ValueError(message % (ord(text[error.start]), error.start)) from None

    def encode_chat(self, text: str) -> List[int]:
        """The same of a template's text: there names of special tokens are these
        tokens."""
        return self.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Characters that are not whole are U+FFFD."""
        # 255 is in no UTF-8, as a token that is no byte is in no text.
        return bytes(min(token, 255) for token in tokens).decode("utf-8", "replace")

    def token(self, number: int) -> str:
        """One token, for people: different for different tokens."""
        text = self.decode([number])
        return "bytes:\\x%02x" % number if text == "\ufffd" else text

    def bytes_of(self, number: int) -> Optional[List[int]]:
        """Of one token, where they are known."""
        return [number] if number < 256 else None


class FileCodec(Codec):
    """Of a tokenizer.json. In the text of a prompt a special token's name is text."""

    name = tokenizer.FILE

    def __init__(self, content: bytes, where: str):
        """Raises Mistake."""
        self._plain = tokenizer.load(content, where)
        self._chat = tokenizer.load(content, where)
        self._chat.encode_special_tokens = False
        self.vocabulary = 1 + max(self._plain.get_vocab(with_added_tokens=True).values())
        added = self._plain.get_added_tokens_decoder().values()
        self.special = frozenset(token.content for token in added if token.special)

    def encode(self, text: str) -> List[int]:
        return self._encode(self._plain, text, True)

    def encode_chat(self, text: str) -> List[int]:
        return self._encode(self._chat, text, False)

    def _encode(self, found, text: str, has_special: bool) -> List[int]:
        try:
            with tokenizer.library_gives_up((TypeError, UnicodeEncodeError)):
                return found.encode(text, add_special_tokens=has_special).ids
        # Half a character, which Rust's strings cannot have.
        except (TypeError, UnicodeEncodeError) as error:
            raise ValueError("expected text: %s" % error) from None

    def decode(self, tokens: Sequence[int]) -> str:
        return self._plain.decode(list(tokens), skip_special_tokens=True)

    def token(self, number: int) -> str:
        text = self._plain.decode([number], skip_special_tokens=False)
        # A part of a character, or nothing, has its name.
        is_text = text and "\ufffd" not in text
        return text if is_text else self._plain.id_to_token(number) or str(number)

    def bytes_of(self, number: int) -> Optional[List[int]]:
        text = self._plain.decode([number], skip_special_tokens=False)
        return None if "\ufffd" in text else list(text.encode())

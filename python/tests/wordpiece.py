# ===- wordpiece.py - BERT's tokenizer ----------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Words of text as the uncased BERT has them, from a vocab.txt: without accents, in
lower case, punctuation and CJK characters apart, then the longest known pieces."""

import unicodedata
from pathlib import Path
from typing import List

LONGEST_WORD = 100
"""Characters; a longer one is unknown."""
CJK = [
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
]


class WordPiece:
    def __init__(self, vocabulary: Path):
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self._ids = {word: number for number, word in enumerate(lines) if word}

    def encode(self, text: str) -> List[int]:
        """With [CLS] before and [SEP] behind."""
        words = ["[CLS]", *(piece for word in _words(text) for piece in self._pieces(word))]
        return [self._ids[word] for word in [*words, "[SEP]"]]

    def _pieces(self, word: str) -> List[str]:
        pieces: List[str] = []
        begin = 0
        while begin < len(word) <= LONGEST_WORD:
            known = (
                end
                for end in range(len(word), begin, -1)
                if _piece(word, begin, end) in self._ids
            )
            end = next(known, None)
            if end is None:
                break
            pieces.append(_piece(word, begin, end))
            begin = end
        return pieces if begin == len(word) else ["[UNK]"]


def _piece(word: str, begin: int, end: int) -> str:
    return ("##" if begin else "") + word[begin:end]


def _words(text: str) -> List[str]:
    spaced = []
    for one in text:
        if one in "\t\n\r" or unicodedata.category(one) == "Zs":
            spaced.append(" ")
        elif one in "\0\ufffd" or unicodedata.category(one).startswith("C"):
            continue
        elif any(first <= ord(one) <= last for first, last in CJK):
            spaced.append(" %s " % one)
        else:
            spaced.append(one)
    plain = unicodedata.normalize("NFD", "".join(spaced))
    plain = "".join(one for one in plain if unicodedata.category(one) != "Mn")
    apart = (" %s " % one if _is_punctuation(one) else one for one in plain.lower())
    return "".join(apart).split()


def _is_punctuation(one: str) -> bool:
    is_ascii = 33 <= ord(one) <= 47 or 58 <= ord(one) <= 64
    is_ascii |= 91 <= ord(one) <= 96 or 123 <= ord(one) <= 126
    return is_ascii or unicodedata.category(one).startswith("P")

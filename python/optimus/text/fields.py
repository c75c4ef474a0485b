# ===- fields.py - The fields of requests ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Takes fields out of an object of JSON that anybody may have sent: each has a type and
a range, null is as absent, and one that nobody asked for is refused by name."""

import math
from typing import Any, Callable, Dict, List, Optional

from optimus.models.config_file import shown

MOST_WHOLE = (1 << 53) - 1
"""The largest that every program reads alike."""


class FieldError(ValueError):
    """What is wrong with a field, and its name."""

    def __init__(self, name: str, message: str):
        super().__init__(message)
        self.name = name


class Fields:
    def __init__(self, given: Dict[str, Any], where: str = ""):
        """`where` comes before names in messages."""
        self._left = dict(given)
        self._where = where

    def refuse(self, name: str, expected: str, found: Any) -> FieldError:
        return FieldError(
            name, "%s%s: expected %s, found %s" % (self._where, name, expected, shown(found))
        )

    def take(self, name: str, default: Any = None) -> Any:
        """Of any type."""
        value = self._left.pop(name, None)
        return default if value is None else value

    def text(self, name: str, default: Optional[str] = None) -> Any:
        return self._typed(name, default, "a text", lambda value: isinstance(value, str))

    def boolean(self, name: str, default: bool = False) -> bool:
        return self._typed(
            name, default, "true or false", lambda value: isinstance(value, bool)
        )

    def whole(
        self, name: str, default: Optional[int] = None, least: int = 0, most: int = MOST_WHOLE
    ) -> Any:
        expected = "a whole number from %d to %d" % (least, most)
        is_one = lambda value: type(value) is int and least <= value <= most
        return self._typed(name, default, expected, is_one)

    def number(self, name: str, default: Optional[float] = None) -> Any:
        return self._typed(name, default, "a number", is_number)

    def _typed(
        self, name: str, default: Any, expected: str, is_one: Callable[[Any], bool]
    ) -> Any:
        value = self.take(name)
        if value is None:
            return default
        if not is_one(value):
            raise self.refuse(name, expected, value)
        return value

    def texts(self, name: str, most: int, longest: int) -> List[str]:
        """A text, or a list of at most so many; none is empty, or longer."""
        value = self.take(name, [])
        texts = [value] if isinstance(value, str) else value
        if (
            not isinstance(texts, list)
            or len(texts) > most
            or not all(isinstance(one, str) and 0 < len(one) <= longest for one in texts)
        ):
            expected = "a text of 1 to %d characters, or a list of at most %d"
            raise self.refuse(name, expected % (longest, most), value)
        return texts

    def tokens(self, name: str, most: int) -> List[int]:
        """A list of at most so many."""
        value = self.take(name, [])
        if not are_tokens(value) or len(value) > most:
            raise self.refuse(name, "a list of at most %d tokens" % most, value)
        return value

    def prompts(self, name: str, most: int) -> List[Any]:
        """A text, tokens, or a list of at most so many of either."""
        given = self.take(name)
        prompts = [given] if isinstance(given, str) or _is_prompt(given) else given
        if (
            not isinstance(prompts, list)
            or not 1 <= len(prompts) <= most
            or not all(isinstance(prompt, str) or _is_prompt(prompt) for prompt in prompts)
        ):
            expected = "a text, a list of tokens, or a list of at most %d of either"
            raise self.refuse(name, expected % most, given)
        return prompts

    def bias(self, name: str, most: int) -> Dict[int, float]:
        """Numbers by tokens, which are names in JSON."""
        value = self.take(name, {})
        if not isinstance(value, dict) or len(value) > most:
            raise self.refuse(name, "an object of at most %d tokens" % most, value)
        found = {}
        for token, bias in value.items():
            is_token = token.isascii() and token.isdigit() and len(token) < 10
            if not is_token or not is_number(bias):
                raise self.refuse(name, "numbers by tokens", {token: bias})
            found[int(token)] = float(bias)
        return found

    def end(self, unsupported: str = "is not supported") -> None:
        """Nothing may be left, but nulls."""
        for name, value in self._left.items():
            if value is not None:
                known = shown(name)[1:-1]
                raise FieldError(known, "%s%s %s" % (self._where, known, unsupported))


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e300


def are_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(token) is int and 0 <= token < 1 << 31 for token in value
    )


def _is_prompt(value: Any) -> bool:
    return are_tokens(value) and len(value) > 0

# ===- config_file.py - The config.json of a folder -------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads a config.json that nobody vouches for, and keeps account of its fields: each
is used, known to change nothing, or refused."""

import json
import math
import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

from optimus import small_file
from optimus.arguments import Mistake

MOST_BYTES = 4 << 20
"""Published ones have some kilobytes, those with 20,000 labels a megabyte."""
MOST_NESTING = 32
MOST_DIGITS = 20
MOST_SHOWN = 60
"""Characters of a value in a message."""


class Malformed(ValueError):
    """What is wrong with the text of an object."""


def read(path: str) -> Dict[str, Any]:
    """The object in a file. Raises Mistake."""
    try:
        return parse(small_file.read(path, MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise Mistake("cannot read %s: %s" % (path, error.strerror)) from None
    except UnicodeDecodeError as error:
        message = "%s is not UTF-8: byte %d" % (path, error.start)
        raise Mistake(message) from None
    except Malformed as error:
        raise Mistake("%s: %s" % (path, error)) from None
    except ValueError as error:
        raise Mistake("%s is not JSON: %s" % (path, error)) from None


def parse(text: str) -> Dict[str, Any]:
    """An object, of bounded depth and numbers, without a field twice. Raises ValueError."""
    depth = 0
    # A string without an end takes all the rest, so that each byte is read once.
    for bracket in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', text, re.S):
        depth += (bracket[0] in "[{") - (bracket[0] in "]}")
        if depth > MOST_NESTING:
            raise Malformed("nested more than %d deep" % MOST_NESTING)
    found = json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=_whole,
        parse_constant=_constant,
    )
    if not isinstance(found, dict):
        raise Malformed("expected an object, found %s" % shown(found))
    return found


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Malformed("the field %s is there twice" % shown(name))
        found[name] = value
    return found


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise Malformed("a number has %d digits" % len(text))
    return int(text)


def _constant(text: str) -> None:
    raise Malformed("%s is no number of JSON" % text)


def shown(value: Any) -> str:
    """A value as JSON has it, shortened."""
    text = json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


class Fields:
    """The fields of an object, each of which somebody must ask for."""

    def __init__(self, path: str, given: Dict[str, Any]):
        self._path, self._given = path, given
        self._asked: set = set()
        self._refused: List[str] = []
        self.defaults: Dict[str, Any] = {}
        """Of fields that are absent."""

    def has(self, name: str) -> bool:
        return name in self._given

    def refuse(self, name: str, value: Any, supported: str) -> None:
        known = shown(name)[1:-1]
        self._refused.append("%s is %s; supported: %s" % (known, shown(value), supported))

    def get(self, name: str, default: Any) -> Any:
        """A field of any type."""
        self._asked.add(name)
        if name not in self._given:
            self.defaults[name] = default
        return self._given.get(name, default)

    def whole(self, name: str, default: Optional[int], least: int = 1) -> Any:
        """A whole number, or null where the default is."""
        value = self.get(name, default)
        if value is None and default is None:
            return None
        if type(value) is not int or value < least:
            self.refuse(name, value, "a whole number from %d on" % least)
            return max(default or 0, least)
        return value

    def positive(self, name: str, default: float) -> float:
        value = self.get(name, default)
        if not _is_number(value) or value <= 0:
            self.refuse(name, value, "a positive number")
            return default
        return float(value)

    def rate(self, name: str, default: float) -> float:
        """A probability."""
        value = self.get(name, default)
        if not _is_number(value) or not 0 <= value <= 1:
            self.refuse(name, value, "a number from 0 to 1")
            return default
        return float(value)

    def only(self, name: str, *supported: Any) -> Any:
        """A field with one of these values; an absent one has the first."""
        value = self.get(name, supported[0])
        # True is no 1; 2.0 is a 2.
        kind = isinstance(value, bool)
        if not any(isinstance(one, bool) is kind and one == value for one in supported):
            self.refuse(name, value, " or ".join(map(shown, supported)))
            return supported[0]
        return value

    def skip(self, names: Iterable[str]) -> None:
        """Fields without influence on a model's function."""
        self._asked.update(names)

    def finish(self) -> None:
        """Raises Mistake for fields that were refused, and for unknown ones."""
        for name, value in self._given.items():
            if name not in self._asked:
                self.refuse(name, value, "no field of this name")
        if self._refused:
            raise Mistake("%s: %s" % (self._path, "; ".join(self._refused)))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)

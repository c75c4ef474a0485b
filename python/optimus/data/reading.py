# ===- reading.py - A store that is there ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Opens stores, of which an index may say anything."""

import json
import os
import re
from typing import Any, Dict, List, NamedTuple

from optimus import small_file
from optimus.arguments import Mistake
from optimus.data.store import (
    FORMAT,
    FORMAT_WITH_LABELS,
    INDEX,
    MOST_INDEX,
    MOST_SHARD_TOKENS,
    MOST_SHARDS,
    SPLITS,
    Description,
    Shard,
    split_hash,
)
from optimus.data.tokenizer import DTYPES, MOST_TOKEN


class Store(NamedTuple):
    folder: str
    description: Description
    shards: Dict[str, List[Shard]]


class _Wrong(Exception):
    """An index with an impossible member."""


def read(folder: str) -> Store:
    """Raises Mistake."""
    path = os.path.join(folder, INDEX)
    try:
        text = small_file.read(path, MOST_INDEX)
    except OSError as error:
        message = "%s is no store: cannot read %s: %s; optimus.data prepare -o STORE writes one"
        raise Mistake(message % (folder, path, error.strerror)) from None
    try:
        found = json.loads(text)
        return _store(folder, found)
    except (ValueError, RecursionError) as error:
        raise Mistake("%s is not JSON: %s" % (path, error)) from None
    except _Wrong as error:
        raise Mistake("%s: %s" % (path, error)) from None


def _store(folder: str, found: Any) -> Store:
    known = FORMAT, FORMAT_WITH_LABELS
    if _member(found, "format", int) not in known:
        message = "its format is %d, this program reads %d and %d"
        raise _Wrong(message % (found["format"], *known))
    tokenizer = _member(found, "tokenizer", dict)
    held_out = _member(found, "held_out", (int, float))
    description = Description(
        _member(found, "token_type", str),
        _member(found, "vocabulary", int),
        _member(tokenizer, "name", str),
        _hash(tokenizer, "xxh64"),
        _member(found, "special", dict),
        found.get("document_end"),
        held_out,
        found["format"] == FORMAT_WITH_LABELS,
    )
    if description.token_type not in DTYPES:
        raise _Wrong('token_type is "%s", expected u8, u16 or u32' % found["token_type"])
    _check_range("vocabulary", description.vocabulary, 1, MOST_TOKEN)
    if description.end is not None:
        _check_range("document_end", description.end, 0, description.vocabulary - 1)
    splits = _member(found, "splits", dict)
    if sorted(splits) != sorted(SPLITS):
        raise _Wrong("expected the splits %s, found %s" % (list(SPLITS), sorted(splits)))
    count = 5 if description.has_labels else 4
    shards = {name: _shards(splits[name], name, count) for name in SPLITS}
    return Store(folder, description, shards)


def _shards(split: Any, name: str, members: int) -> List[Shard]:
    listed = _member(split, "shards", list)
    if len(listed) > MOST_SHARDS:
        raise _Wrong("%s has %d shards, expected %d at most" % (name, len(listed), MOST_SHARDS))
    shards = []
    for number, one in enumerate(listed):
        if not isinstance(one, list) or len(one) != members:
            message = "%s: shard %d: expected %d members"
            raise _Wrong(message % (name, number, members))
        _check_range("tokens of a shard", one[0], 1, MOST_SHARD_TOKENS)
        _check_range("documents of a shard", one[1], 0, one[0])
        for each in one[2:]:
            _check_hash("of a shard", each)
        shards.append(Shard(*one))
    for member, number in (
        ("tokens", sum(shard.tokens for shard in shards)),
        ("documents", sum(shard.documents for shard in shards)),
        ("xxh64", split_hash(shards)),
    ):
        if split.get(member) != number:
            message = "%s: %s is %r, its shards make %r"
            raise _Wrong(message % (name, member, split.get(member), number))
    return shards


def _member(found: Any, name: str, kind: Any) -> Any:
    if not isinstance(found, dict):
        raise _Wrong("expected an object with %s" % name)
    value = found.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _Wrong("%s is %.60r, expected another type" % (name, value))
    return value


def _check_range(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        message = "%s: expected a whole number from %d to %d, found %.60r"
        raise _Wrong(message % (name, least, most, value))


def _hash(found: Any, name: str) -> str:
    value = _member(found, name, str)
    _check_hash(name, value)
    return value


def _check_hash(name: str, value: Any) -> None:
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{16}", value):
        raise _Wrong("%s: expected 16 hexadecimal digits, found %.60r" % (name, value))

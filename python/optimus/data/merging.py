# ===- merging.py - Stores into one ---------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes a store of several that one tokenizer made: the shards of the first, then those
of the next. What is held out stays held out."""

import os
import shutil
from typing import Any, Dict, List

from optimus.arguments import Mistake
from optimus.data import store
from optimus.data.checking import check_file, files_of
from optimus.data.reading import Store
from optimus.data.store import SPLITS, Shard, shard_path
from optimus.data.tokenizer import BYTES, FILE


def check_alike(stores: List[Store]) -> None:
    """Raises Mistake for two that cannot be one."""
    first = stores[0]
    for other in stores[1:]:
        pairs = zip(first.description._fields, first.description, other.description)
        for what, one, another in pairs:
            if what == "held_out" or one == another:
                continue
            raise Mistake(
                "%s and %s differ in %s: %.60s and %.60s; prepare both with one "
                "tokenizer and --document-end"
                % (first.folder, other.folder, what.replace("_", " "), one, another)
            )


def copy(stores: List[Store], folder: str) -> Dict[str, Any]:
    """Copies the files into a folder; the index. Raises Mistake."""
    merged: Dict[str, List[Shard]] = {}
    for split in SPLITS:
        os.makedirs(os.path.join(folder, split))
        merged[split] = []
        for one in stores:
            for number, shard in enumerate(one.shards[split]):
                if len(merged[split]) == store.MOST_SHARDS:
                    raise Mistake("expected at most %d shards" % store.MOST_SHARDS)
                kinds = store.suffixes(one.description.has_labels)
                for suffix, kind in zip(kinds, files_of(one, shard)):
                    target = shard_path(folder, split, len(merged[split]), suffix)
                    _copy(shard_path(one.folder, split, number, suffix), target)
                    check_file(target, *kind, lambda *_: None)
                merged[split].append(shard)
    description = stores[0].description
    if description.tokenizer != BYTES:
        _copy(os.path.join(stores[0].folder, FILE), os.path.join(folder, FILE))
    return store.index_of(description, merged)


def _copy(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
        with open(target, "rb") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise Mistake("cannot copy %s: %s" % (source, error.strerror)) from None

# ===- folder.py - What a model's folder says of text ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads the tokenizer, the ends of texts and the chat template of a model's folder, as
Hugging Face has them and as checkpoints take them along."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from optimus import small_file
from optimus.arguments import Mistake
from optimus.data import tokenizer
from optimus.models import config_file
from optimus.text.codec import Codec, FileCodec

ADAPTER = "adapter_config.json"
TEMPLATE = "chat_template.jinja"
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")
"""Special tokens that templates are told of."""


class Folder(NamedTuple):
    codec: Codec
    ends: List[int]
    """Tokens before each of which an answer ends."""
    template: Optional[str]
    """Of chats, if there is one."""
    names: Dict[str, str]
    """Special tokens by their roles."""


def of_model(folder: str, base: str) -> List[str]:
    """Where a model's files lie: in its folder and, of adapters alone, in that of the
    weights beside them. This is `base`, or the one that they name."""
    if not os.path.exists(os.path.join(folder, ADAPTER)):
        return [folder]
    if not base:
        named = config_file.read(os.path.join(folder, ADAPTER)).get("base_model_name_or_path")
        places = [named, os.path.join(folder, named)] if isinstance(named, str) else []
        base = next(filter(os.path.isdir, filter(None, places)), "")
    return [folder, base] if base else [folder]


def read(folders: Sequence[str], chosen: Optional[str], vocabulary: int) -> Folder:
    """Of a model with so many tokens; `chosen` is --tokenizer. A file of the first folder
    is read before the same of others. Raises Mistake."""
    codec = _codec(folders, chosen, vocabulary)
    if codec.vocabulary > vocabulary and codec.name != tokenizer.BYTES:
        raise Mistake(
            "the tokenizer has %d tokens, and the library's model %d: expected the "
            "tokenizer of this model; --tokenizer names another" % (codec.vocabulary, vocabulary)
        )
    settings = _optional(folders, "tokenizer_config.json")[1]
    return Folder(
        codec, _ends(folders, vocabulary), _template(folders, settings), _names(settings)
    )


def _find(folders: Sequence[str], name: str) -> str:
    """The path of a file that may be in none."""
    paths = [os.path.join(folder, name) for folder in folders]
    return next(filter(os.path.exists, paths), paths[0])


def _codec(folders: Sequence[str], chosen: Optional[str], vocabulary: int) -> Codec:
    if chosen == tokenizer.BYTES:
        return Codec()
    if chosen is None:
        found = _find(folders, tokenizer.FILE)
        if os.path.exists(found):
            chosen = found
        elif vocabulary == Codec.vocabulary:
            return Codec()
        else:
            raise Mistake(
                "%s has no %s, and the model's %d tokens are no bytes; name a tokenizer "
                "by --tokenizer" % (folders[0], tokenizer.FILE, vocabulary)
            )
    return FileCodec(tokenizer.read(chosen), chosen)


def _optional(folders: Sequence[str], name: str) -> Tuple[str, Dict[str, Any]]:
    """The path, and what it has."""
    path = _find(folders, name)
    return path, config_file.read(path) if os.path.exists(path) else {}


def _ends(folders: Sequence[str], vocabulary: int) -> List[int]:
    for name in ("generation_config.json", "config.json"):
        path, fields = _optional(folders, name)
        found = fields.get("eos_token_id")
        if found is None:
            continue
        ends = found if isinstance(found, list) else [found]
        for end in ends:
            if type(end) is not int or end < 0:
                raise Mistake(
                    "%s: eos_token_id is %s; expected tokens, from 0 on"
                    % (path, config_file.shown(found))
                )
        # Transformers writes GPT-2's own into the settings of any GPT-2.
        return [end for end in ends if end < vocabulary]
    return []


def _template(folders: Sequence[str], settings: Dict[str, Any]) -> Optional[str]:
    path = _find(folders, TEMPLATE)
    if os.path.exists(path):
        try:
            return small_file.read(path, config_file.MOST_BYTES).decode("utf-8")
        except (OSError, ValueError) as error:
            raise Mistake("cannot read %s: %s" % (path, error)) from None
    found = settings.get("chat_template")
    # Some have several, for tools and the like.
    if isinstance(found, list):
        named = [one for one in found if isinstance(one, dict) and one.get("name") == "default"]
        found = named[0].get("template") if named else None
    if found is not None and not isinstance(found, str):
        raise Mistake(
            "tokenizer_config.json: chat_template is %s; expected a text"
            % config_file.shown(found)
        )
    return found


def _names(settings: Dict[str, Any]) -> Dict[str, str]:
    names = {}
    for name in NAMES:
        value = settings.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            names[name] = value
    return names

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
from typing import Any, Dict, List, NamedTuple, Optional

from optimus import small_file
from optimus.arguments import Mistake
from optimus.data import tokenizer
from optimus.models import config_file
from optimus.text.codec import Codec, FileCodec

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


def read(folder: str, chosen: Optional[str], vocabulary: int) -> Folder:
    """Of a model with so many tokens; `chosen` is --tokenizer. Raises Mistake."""
    codec = _codec(folder, chosen, vocabulary)
    if codec.vocabulary > vocabulary and codec.name != tokenizer.BYTES:
        raise Mistake(
            "the tokenizer has %d tokens, and the library's model %d: expected the "
            "tokenizer of this model; --tokenizer names another" % (codec.vocabulary, vocabulary)
        )
    settings = _optional(folder, "tokenizer_config.json")
    return Folder(
        codec, _ends(folder, vocabulary), _template(folder, settings), _names(settings)
    )


def _codec(folder: str, chosen: Optional[str], vocabulary: int) -> Codec:
    if chosen == tokenizer.BYTES:
        return Codec()
    if chosen is None:
        if os.path.exists(os.path.join(folder, tokenizer.FILE)):
            chosen = folder
        elif vocabulary == Codec.vocabulary:
            return Codec()
        else:
            raise Mistake(
                "%s has no %s, and the model's %d tokens are no bytes; name a tokenizer "
                "by --tokenizer" % (folder, tokenizer.FILE, vocabulary)
            )
    return FileCodec(tokenizer.read(chosen), chosen)


def _optional(folder: str, name: str) -> Dict[str, Any]:
    path = os.path.join(folder, name)
    return config_file.read(path) if os.path.exists(path) else {}


def _ends(folder: str, vocabulary: int) -> List[int]:
    for name in ("generation_config.json", "config.json"):
        found = _optional(folder, name).get("eos_token_id")
        if found is None:
            continue
        ends = found if isinstance(found, list) else [found]
        for end in ends:
            if type(end) is not int or end < 0:
                raise Mistake(
                    "%s: eos_token_id is %s; expected tokens, from 0 on"
                    % (os.path.join(folder, name), config_file.shown(found))
                )
        # Transformers writes GPT-2's own into the settings of any GPT-2.
        return [end for end in ends if end < vocabulary]
    return []


def _template(folder: str, settings: Dict[str, Any]) -> Optional[str]:
    path = os.path.join(folder, TEMPLATE)
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

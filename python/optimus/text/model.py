# ===- model.py - A model that speaks, for tools ---------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Opens a library, its weights and its folder, as the command line of a tool says."""

import argparse
import json
import threading
from typing import Any, Dict, List, NamedTuple, Optional

from optimus import runtime
from optimus.arguments import Mistake, Parser, whole_number_from
from optimus.errors import Error
from optimus.text import folder, pooling
from optimus.text.chat import ChatTemplate
from optimus.values import PAGE


def add_arguments(parser: Parser) -> None:
    parser.add_argument("library", metavar="LIB", help="of a model built with --generate")
    parser.add_argument(
        "--load", metavar="DIR", required=True, help="the checkpoint, or a folder of weights"
    )
    parser.add_argument(
        "--base",
        metavar="DIR",
        default="",
        help="the weights that adapters alone are beside (default: the folder that they name)",
    )
    parser.add_argument(
        "--ignore",
        metavar="PATTERN",
        action="append",
        default=[],
        help="leave tensors out of a folder of weights; may be given again",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        help="a tokenizer.json, a folder with one, or bytes (default: the folder's; bytes "
        "for a model of 256 tokens without one)",
    )
    parser.add_argument(
        "--threads-per-rank",
        type=whole_number_from(0, 1024),
        default=0,
        metavar="N",
        help="threads of each rank (default: the cores divided among ranks)",
    )
    parser.add_argument(
        "--host-pages",
        type=whole_number_from(0, 1 << 31),
        default=0,
        metavar="N",
        help="pages that texts may have in host memory beside those of the library: more "
        "texts at a time, of which some wait",
    )


class Extents(NamedTuple):
    """Of a library's cache."""

    slots: int
    context: int
    """Tokens of a text at most."""
    chunk: int
    vocabulary: int
    pages: int
    """Of 64 tokens, which slots share; 0 where each has its context."""

    @property
    def places(self) -> int:
        """Texts of a call."""
        return self.slots

    @property
    def tokens(self) -> int:
        """Of all texts of a call, at most."""
        return self.pages * PAGE or self.slots * self.context


class EncoderExtents(NamedTuple):
    """Of a library without generation that has hidden states."""

    batch: int
    sequence: int
    vocabulary: int
    pad: int

    @property
    def places(self) -> int:
        """Sentences of a call."""
        return self.batch

    @property
    def tokens(self) -> int:
        """Of all sentences of a call, at most."""
        return self.batch * self.sequence


class Model:
    """What is known before there is a session."""

    def __init__(self, options: argparse.Namespace, may_embed: bool = False):
        """Of a library that generates, or of an encoder. Raises Mistake for another
        one, or another folder than the model's."""
        self._options = options
        self.encoder: Optional[EncoderExtents] = None
        try:
            library = runtime.module().ModelLibrary(options.library, inspect=True)
            if may_embed:
                self.encoder = _encoder(json.loads(library.manifest))
            if self.encoder is None:
                self.extents = Extents(**library.generation)
        except Error as error:
            raise Mistake(str(error)) from None
        known = self.encoder or self.extents
        folders = folder.of_model(options.load, options.base)
        self.folder = folder.read(folders, options.tokenizer, known.vocabulary)
        self.pooling = pooling.read(options.load)
        self._template: Optional[ChatTemplate] = None
        self._starting = threading.Lock()

    @property
    def codec(self):
        return self.folder.codec

    @property
    def template(self) -> ChatTemplate:
        """Started at the first use, by whichever thread. Raises Mistake."""
        with self._starting:
            if self._template is None:
                if self.folder.template is None:
                    raise Mistake(
                        "%s has no chat template: expected %s, or chat_template in "
                        "tokenizer_config.json" % (self._options.load, folder.TEMPLATE)
                    )
                self._template = ChatTemplate(
                    self.folder.template, self.folder.names, self.codec.special
                )
            return self._template

    def open(self):
        """The session, and notes on its weights. Raises Mistake."""
        from optimus.session import Session

        options = self._options
        try:
            session = Session(
                options.library,
                kinds="forward" if self.encoder else "generate",
                threads_per_rank=options.threads_per_rank,
                host_pages=options.host_pages,
            )
            notes: List[str] = session.load(
                options.load, weights_only=True, ignore=options.ignore, base=options.base
            )
        except Error as error:
            raise Mistake(str(error)) from None
        return session, notes

    def close(self) -> None:
        if self._template is not None:
            self._template.close()


def _encoder(manifest: Dict[str, Any]) -> Optional[EncoderExtents]:
    kinds = {function.get("entry", {}).get("kind") for function in manifest["functions"]}
    names = {buffer["name"] for buffer in manifest["buffers"]}
    if "forward" not in kinds or "decode" in kinds or "hidden_states" not in names:
        return None
    pad = manifest.get("objective", {}).get("pad_token")
    return EncoderExtents(**manifest["model"], pad=0 if pad is None else pad)

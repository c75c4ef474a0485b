# ===- __main__.py - The command line of data -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.data COMMAND …` makes stores of tokens, and looks at them.

Exit codes: 0 done, 1 the arguments, an input or the output are wrong, 2 a fault of
ours.
"""

import argparse
import os
from typing import List, Optional, Tuple

from optimus import __version__, arguments, output
from optimus.numpy_check import need_numpy_for

need_numpy_for("optimus.data")

from optimus.arguments import Mistake, Parser, folder_name, whole_number_from
from optimus.data import (
    checking,
    documents,
    encoding,
    inputs,
    merging,
    preparing,
    reading,
    store,
    tokenizer,
    training,
)

PROGRAM = "optimus.data"
SAMPLE = 64
"""MB of text that a tokenizer is trained on."""
_COUNT = whole_number_from(1, store.MOST_SHARD_TOKENS)


def _parser() -> Parser:
    parser = Parser(prog="python3 -m optimus.data", description="Stores of tokens.")
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    prepare = commands.add_parser("prepare", help="make a store of texts")
    prepare.set_defaults(action=_prepare)
    _add_texts(prepare)
    _add_store(prepare)
    show = commands.add_parser("show", help="say what a store has")
    show.set_defaults(action=_show)
    show.add_argument("store", metavar="STORE")
    check = commands.add_parser("check", help="compare a store with its index, whole")
    check.set_defaults(action=_check)
    check.add_argument("store", metavar="STORE")
    merge = commands.add_parser("merge", help="make one store of several")
    merge.set_defaults(action=_merge)
    merge.add_argument("stores", metavar="STORE", nargs="+")
    _add_output(merge)
    return parser


def _add_texts(prepare: argparse.ArgumentParser) -> None:
    prepare.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="text, or lines of JSON (.jsonl), either also as .gz or .zst, or .parquet; - "
        "is standard input",
    )
    prepare.add_argument(
        "--format",
        choices=["text", "jsonl"],
        help="of all files (default: by their names)",
    )
    prepare.add_argument(
        "--documents",
        default="file",
        metavar="HOW",
        help="what a document of a text is: file, all of it; lines, each line; blank, "
        "what blank lines separate; at=TEXT, what TEXT separates (default: %(default)s)",
    )
    prepare.add_argument(
        "--document-mb",
        type=_COUNT,
        metavar="N",
        help="MB that a document may have (default: %d, and any of --documents file)"
        % (documents.MOST_BYTES // 10**6),
    )
    prepare.add_argument(
        "--field",
        default="text",
        metavar="NAME",
        help="the text in a line of JSON or a row of Parquet (default: %(default)s); "
        "PROMPT,COMPLETION are two, and nobody is asked for tokens of the first",
    )
    prepare.add_argument(
        "--no-first-targets",
        action="store_true",
        help="nobody is asked for the first token of a document, which follows another",
    )


def _add_store(prepare: argparse.ArgumentParser) -> None:
    prepare.add_argument(
        "--tokenizer",
        required=True,
        metavar="T",
        help="a tokenizer.json or a folder with one; bytes; or train:bpe:N, one of N "
        "tokens for these texts",
    )
    prepare.add_argument(
        "--document-end",
        metavar="TOKEN",
        help="the token after each document, by its name or number, or none (default: "
        "the tokenizer's own; byte 0 of bytes)",
    )
    prepare.add_argument(
        "--held-out",
        type=_share,
        default=0.01,
        metavar="SHARE",
        help="of the documents, for evaluation (default: %(default)s)",
    )
    prepare.add_argument(
        "--shard-tokens",
        type=_COUNT,
        default=1 << 26,
        metavar="N",
        help="tokens of a file of the store (default: %(default)s)",
    )
    prepare.add_argument(
        "--sample-mb",
        type=_COUNT,
        default=SAMPLE,
        metavar="N",
        help="MB of text that train:bpe:N learns from (default: %(default)s)",
    )
    prepare.add_argument(
        "--seed",
        type=whole_number_from(0, (1 << 64) - 1),
        default=0,
        metavar="N",
        help="which of them (default: %(default)s)",
    )
    prepare.add_argument(
        "--jobs",
        type=_COUNT,
        metavar="N",
        help="processes that encode (default: the processors there are)",
    )
    _add_output(prepare)


def _add_output(command: Parser) -> None:
    command.add_argument(
        *("-o", "--output"), type=folder_name, metavar="STORE", required=True
    )


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if 0 <= number < 1:
        return number
    raise argparse.ArgumentTypeError("expected a number from 0 to below 1, found '%s'" % text)


def _prepare(options: argparse.Namespace) -> None:
    most = options.document_mb * 10**6 if options.document_mb else None
    choice = documents.Choice(options.documents, most)
    choice.splitter(is_json=False)
    fields = tuple(options.field.split(","))
    if len(fields) > 2:
        message = "--field %s: expected a name, or PROMPT,COMPLETION"
        raise Mistake(message % options.field)
    has_prompts = len(fields) == 2
    found = inputs.find(options.files, options.format, fields)
    for one in found:
        if has_prompts and not one.is_lines:
            message = "--field %s: %s is text; expected lines of JSON or Parquet"
            raise Mistake(message % (options.field, one.path))
    request = preparing.Request(
        found,
        choice,
        encoding.Labels(not has_prompts, not options.no_first_targets),
        options.held_out,
        options.shard_tokens,
    )
    name, chosen, notes = _choose_tokenizer(options, request)
    can_resume = all(one.size is not None for one in request.inputs)
    identity = request.identity(name, options.document_end)
    with preparing.Workshop(options.output, identity, can_resume) as shop:
        if shop.is_made_elsewhere:
            found = reading.read(shop.target)
            index = store.index_of(found.description, found.shards)
            output.write("-", "%s: %s\n" % (shop.target, _summary(index)))
            return
        if chosen is None:
            chosen, notes = _train(options, request, shop)
        for note in notes:
            output.say("%s: %s" % (PROGRAM, note))
        jobs = options.jobs or len(os.sched_getaffinity(0))
        index = preparing.prepare(request, chosen, shop, jobs)
    if options.held_out and not index["splits"]["held-out"]["documents"]:
        message = "no document is held out, of %d; --documents lines or blank makes more"
        documents_there = index["splits"]["train"]["documents"]
        output.say("%s: %s" % (PROGRAM, message % documents_there))
    output.write("-", "%s: %s\n" % (shop.target, _summary(index)))


Chosen = Tuple[tokenizer.Tokenizer, List[str]]
"""With what is to be said."""


def _choose_tokenizer(
    options: argparse.Namespace, request: preparing.Request
) -> Tuple[str, Optional[tokenizer.Tokenizer], List[str]]:
    """Its identity, and what it is; nothing where it must be trained first."""
    given = options.tokenizer
    if given == tokenizer.BYTES:
        return given, tokenizer.of_bytes(options.document_end), []
    if given.startswith(training.PREFIX):
        training.vocabulary_of(given)
        if any(one.size is None for one in request.inputs):
            raise Mistake("--tokenizer %s: standard input can be read once" % given)
        identity = "%s:%d:%d" % (given, options.seed, options.sample_mb)
        return identity, None, []
    content = tokenizer.read(given)
    chosen, notes = tokenizer.of_file(content, given, options.document_end)
    return chosen.hash, chosen, notes


def _train(
    options: argparse.Namespace, request: preparing.Request, shop: preparing.Workshop
) -> Chosen:
    notes = []
    if shop.record:
        content = tokenizer.read(shop.path(tokenizer.FILE))
    else:
        content, said = training.train(
            request.inputs,
            request.documents,
            training.vocabulary_of(options.tokenizer),
            options.seed,
            options.sample_mb * 10**6,
        )
        notes.append(said)
    chosen, more = tokenizer.of_file(content, options.tokenizer, options.document_end)
    return chosen, [*notes, *more]


def _summary(index: dict) -> str:
    train, held_out = (index["splits"][split] for split in store.SPLITS)
    return "%d tokens of %d documents, and %d of %d held out" % (
        *(train["tokens"], train["documents"]),
        *(held_out["tokens"], held_out["documents"]),
    )


def _show(options: argparse.Namespace) -> None:
    found = reading.read(options.store)
    description = found.description
    index = store.index_of(description, found.shards)
    end = "none" if description.end is None else "token %d" % description.end
    lines = [
        "%s: %s" % (options.store, _summary(index)),
        "tokens      %s, of a vocabulary of %d"
        % (description.token_type, description.vocabulary),
        "tokenizer   %s, hash %s" % (description.tokenizer, description.tokenizer_hash),
        "documents   end with %s; %g of them are held out" % (end, description.held_out),
    ]
    if description.has_labels:
        lines.append("labels      some tokens are none: targets have -1 for them")
    for split in store.SPLITS:
        shards, hashed = found.shards[split], index["splits"][split]["xxh64"]
        lines.append("%-11s %d shards, hash %s" % (split, len(shards), hashed))
    output.write("-", "\n".join(lines) + "\n")


def _check(options: argparse.Namespace) -> None:
    found = reading.read(options.store)
    checking.check(found)
    output.write("-", "%s is whole\n" % options.store)


def _merge(options: argparse.Namespace) -> None:
    stores = [reading.read(path) for path in options.stores]
    merging.check_alike(stores)
    with preparing.Workshop(options.output, {}, can_resume=False) as shop:
        index = merging.copy(stores, shop.folder)
        shop.finish(index)
    output.write("-", "%s: %s\n" % (shop.target, _summary(index)))


def main(given: Optional[List[str]] = None) -> int:
    def act() -> None:
        options = _parser().parse_args(given)
        options.action(options)

    return arguments.outcome(PROGRAM, act)


if __name__ == "__main__":
    arguments.run(main)

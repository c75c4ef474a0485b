# ===- pages - Texts that a cache holds, by slots and by pages ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Generates behind verses of the Bible, drawn at random, with caches of the same bytes:
slots with a context each, and pages that more slots share.

    bench/run pages
    bench/run pages --texts 200

Prompts are whole verses, a token a byte, and each text has as many new tokens as are
asked for. Texts a decode are the sequences that the cache holds on average. The second
pair has the same beginning, of 512 bytes, before each prompt. Texts of the third group,
four times as many, may have ten times as many new tokens, and end by a stop after as
many on average: there pages are those of the library alone, and with five times as many
on the host. It fails
where pages hold less than twice the texts of slots, those on the host less than twice
those without, and where a token differs. In Markdown.
"""

import json
import random
import re
import subprocess

from harness import table
from verses import verses

TARGETS = ["optimus-compile", "optimus-run"]
NUMBERS = dict(texts=60, new=64, seed=1)
CONTEXT, SLOTS, MORE_SLOTS, CHUNK, PAGE = 1024, 4, 32, 64, 64
EXTENTS = "slots={},context=%d,chunk=%d" % (CONTEXT, CHUNK)
LEAST = 2
MOST_NEW, ON_HOST, MORE_TEXTS = 10, 5, 4
SAID = re.compile(r"; (?P<texts>[\d.]+) texts a decode"
                  r"(; (?P<shared>\d+) tokens of prompts shared)?")


def generate(tools, library, prompts, new, *more):
    flags = ["--tokens", prompts, "--max-tokens", new, "--rates", *more]
    command = list(map(str, [tools.path("run"), "generate", library, *flags]))
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout, SAID.search(result.stderr).groupdict()


def main(options, tools, folder):
    draw, lines = random.Random(options.seed), verses()
    beginning = b" ".join(lines[:20])[:512]
    lines = draw.choices(lines, k=options.texts)
    # Of as many bytes as the slots; where more slots have a context each, the bits are
    # the same.
    pages = SLOTS * CONTEXT // PAGE
    sizes = dict(layers=2, hidden=64, heads=4, seq=CONTEXT, vocab=256, batch=1)
    libraries = {}
    for name, extents in {"slots": EXTENTS.format(SLOTS),
                          "pages": EXTENTS.format(MORE_SLOTS) + f",pages={pages}",
                          "more slots": EXTENTS.format(MORE_SLOTS)}.items():
        source = tools.build_model(folder / f"{len(libraries)}.mlir", generate=extents, **sizes)
        libraries[name] = folder / f"{len(libraries)}.so"
        tools.compile(source, libraries[name])
    rows, bad = [], []
    for what, before in {"verses": b"", "a beginning in common": beginning}.items():
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps(list(before + line)) + "\n" for line in lines))
        held, answers = {}, {}
        for name, library in libraries.items():
            answers[name], said = generate(tools, library, prompts, options.new)
            held[name] = float(said["texts"])
            if name != "more slots":
                rows.append([what, name, said["texts"], said["shared"] or "0"])
        if answers["pages"] != answers["more slots"]:
            bad.append(f"{what}: tokens differ from those of {MORE_SLOTS} slots")
        if held["pages"] < LEAST * held["slots"]:
            bad.append(f"{what}: pages hold {held['pages']} texts, slots {held['slots']}")
    what = "ends unknown"
    # Logits of initial parameters are nearly alike.
    stops = [[token] for token in range(round(256 / options.new))]
    prompts.write_text("".join(
        json.dumps({"tokens": list(line), "seed": number, "temperature": 1, "stop": stops})
        + "\n" for number, line in enumerate(MORE_TEXTS * lines)))
    held, answers = {}, {}
    for name, library, *more in (("slots", "slots"), ("pages", "pages"),
                                 ("pages, some on the host", "pages",
                                  "--host-pages", ON_HOST * pages)):
        answers[name], said = generate(
            tools, libraries[library], prompts, MOST_NEW * options.new, *more)
        held[name] = float(said["texts"])
        rows.append([what, name, said["texts"], said["shared"] or "0"])
    if answers["pages"] != answers["pages, some on the host"]:
        bad.append(f"{what}: tokens differ where pages move to the host")
    if held["pages, some on the host"] < LEAST * held["pages"]:
        bad.append(f"{what}: with pages on the host there are {held} texts")
    header = ["prompts", "cache", "texts a decode", "tokens of prompts shared"]
    mean = sum(map(len, lines)) / len(lines)
    said = (f"{options.texts} verses of {mean:.0f} tokens on average, with "
            f"{options.new} new ones each, or, where ends are unknown, {options.new} on "
            f"average of at most {MOST_NEW * options.new}; {SLOTS} slots of {CONTEXT} tokens, or "
            f"{MORE_SLOTS} that share {pages} pages of {PAGE}.\n\n")
    return {"pages": said + table(header, rows)}, bad

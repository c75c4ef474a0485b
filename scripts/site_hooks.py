# ===- site_hooks.py - What mkdocs.yml calls ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Pages of the repository as pages of a site. Those outside docs/ that its pages link to
are on it, too; links to anything else, as a source, become plain text."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")
RESULTS = "bench/results"

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def pages_outside():
    """Paths in the repository, which are those on the site."""
    results = sorted(os.listdir(os.path.join(ROOT, RESULTS)))
    return [*OUTSIDE, *(RESULTS + "/" + name for name in results if name.endswith(".md"))]


def place_of(path):
    """On the site, of a path in the repository; None where it is not there."""
    if path.startswith("docs/") and os.path.isfile(os.path.join(ROOT, path)):
        return path[len("docs/") :]
    return path if path in pages_outside() else None


def rewrite(text, path):
    """Of a page at this path in the repository: Markdown with links of the site."""

    def replace(match):
        mark, label, target = match.groups()
        file, _, anchor = target.partition("#")
        if not file or ":" in file:
            return match.group()
        place = place_of(os.path.normpath(os.path.join(os.path.dirname(path), file)))
        if place is None:
            return label
        start = os.path.dirname(place_of(path))
        found = os.path.relpath(place, start or ".")
        return "%s[%s](%s)" % (mark, label, found + ("#" + anchor if anchor else ""))

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(replace, text[end : fence.start()]), fence.group()]
        end = fence.end()
    return "".join([*parts, LINK.sub(replace, text[end:])])


def on_files(files, config):
    from mkdocs.structure.files import File

    for path in pages_outside():
        files.append(File(path, ROOT, config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    return rewrite(markdown, os.path.relpath(page.file.abs_src_path, ROOT))

# ===- test_docs.py - The pages hang together ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Links lead somewhere, every page can be reached from README.md, and the
scripts that are named exist."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tools import REPOSITORY

PAGES = [
    page
    for pattern in ["*.md", "docs/**/*.md", "bench/**/*.md"]
    for page in sorted(REPOSITORY.glob(pattern))
]
NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]


def links(page: Path):
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text())
    return [
        (page.parent / target).resolve()
        for target in targets
        if not re.match(r"[a-z]+:", target)
    ]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links(page):
    assert [str(target) for target in links(page) if not target.exists()] == []


def anchors(page: Path):
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    found, seen = set(), Counter()
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add("%s-%d" % (name, seen[name]) if seen[name] else name)
        seen[name] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_anchors(page):
    """Links within pages lead to a heading."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    dead = [
        "%s#%s" % (target, anchor)
        for target, anchor in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", text)
        if (other := (page.parent / target).resolve() if target else page).suffix == ".md"
        and other.exists()
        and anchor not in anchors(other)
    ]
    assert dead == []


def test_every_page_can_be_reached():
    reached, found = set(), [REPOSITORY / "README.md"]
    while found:
        page = found.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            found += links(page)
    docs = {page for page in PAGES if REPOSITORY / "docs" in page.parents}
    lost = sorted(str(page.relative_to(REPOSITORY)) for page in docs - reached)
    assert lost == [], "link these pages from docs/architecture.md"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_scripts_exist(page):
    named = set(re.findall(r"(?<![\w/])scripts/[a-z_-]+(?:\.py|\.sh|\.txt|\.json)?", page.read_text()))
    assert {name for name in named if not (REPOSITORY / name).is_file()} == set()


def test_the_readme_is_short():
    """What a newcomer reads first: at most 700 words, then the reference."""
    introduction, _, reference = (REPOSITORY / "README.md").read_text().partition("\n# Reference\n")
    assert len(introduction.split()) <= 700
    assert "scripts/quickstart" in introduction and "```mermaid" in introduction
    assert "## Models" in reference


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs" / "tutorial").glob("*.md")))
def test_lines_of_the_tutorial_break_at_sentences(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    prose = [line for line in text.splitlines() if re.match(r"[A-Z]", line)]
    assert [line for line in prose if not re.search(r"[.:?]$", line)] == []

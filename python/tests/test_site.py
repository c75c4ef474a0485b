# ===- test_site.py - The docs as a site ---------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""mkdocs.yml and scripts/site_hooks.py. Whether the links of the pages themselves are
right is test_docs.py's."""

import json
import os
import shutil
import subprocess

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS, load_script

HOOKS = load_script(REPOSITORY / "scripts/site_hooks.py")
PAGES = [str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")]
PAGES += HOOKS.pages_outside()


def test_every_link_leads_to_a_page_of_the_site():
    places = {HOOKS.place_of(path): path for path in PAGES}
    assert len(places) == len(PAGES) and None not in places
    links = 0
    for place, path in places.items():
        text = HOOKS.FENCE.sub("", HOOKS.rewrite((REPOSITORY / path).read_text(), path))
        for _, _, target in HOOKS.LINK.findall(text):
            file = target.partition("#")[0]
            if not file or ":" in file:
                continue
            found = os.path.normpath(os.path.join(os.path.dirname(place), file))
            assert found in places or (REPOSITORY / "docs" / found).is_file(), (path, target)
            links += 1
    assert links > 300


def test_links_are_rewritten():
    rewrite = HOOKS.rewrite
    page = "docs/tutorial/mesh.md"
    assert rewrite("[a](../data.md#b)", page) == "[a](../data.md#b)"
    assert rewrite("[a](../../README.md#b)", page) == "[a](../README.md#b)"
    assert rewrite("[a](docs/data.md)", "README.md") == "[a](data.md)"
    assert rewrite("[a](../bench/results/dehb.md)", "docs/data.md") == "[a](bench/results/dehb.md)"
    assert rewrite("[`a`](../support/schema/program.fbs)", "docs/data.md") == "`a`"
    assert rewrite("[a](https://b.c)", page) == "[a](https://b.c)"
    code = "```sh\n[a](docs/none.md)\n```\n"
    assert rewrite(code, "README.md") == code


@pytest.mark.long
def test_the_site_is_built_and_searched(tmp_path):
    mkdocs = shutil.which("mkdocs")
    if not mkdocs:
        pytest.skip("no mkdocs is installed (Debian's mkdocs)")
    made = subprocess.run(
        [mkdocs, "build", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert made.returncode == 0 and made.stderr == "", made.stderr
    index = json.loads((tmp_path / "site/search/search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"] if "mixture" in entry["text"]}
    assert any(place.startswith("data.html") for place in found)
    # Nothing comes from another machine when a page is opened.
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        for what in ('<script src="http', '<link rel="stylesheet" href="http', "<img src=\"http"):
            assert what not in text, page

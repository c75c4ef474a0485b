# ===- test_tutorial.py - The IR that the tutorial shows ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Each excerpt of docs/tutorial/life-of-a-matmul.md is what the compiler writes.

    <!-- excerpt: phases/04-partition.mlir -->
    ```mlir
    …
    ```

Names of SSA values may differ, and … stands for anything within a line. Lines of
an excerpt follow each other in the file, perhaps with others between them.
"""

import re

import pytest

from tools import REPOSITORY, run_builder, succeed

PAGE = REPOSITORY / "docs" / "tutorial" / "life-of-a-matmul.md"
PATTERN = r"^<!-- excerpt: (\S+) -->\n```mlir\n(.*?)^```$"
EXCERPTS = re.findall(PATTERN, PAGE.read_text(), re.M | re.S)


def pattern_of(line):
    """Of a line without names of values."""
    parts = re.split(r"\s*…\s*", re.sub(r"%\w+", "%", line.strip()))
    return re.compile(r".*?".join(map(re.escape, parts)))


@pytest.fixture(scope="module")
def phases(tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    model = "gpt2 --layers 1 --hidden 192 --heads 6 --seq 128 --vocab 256 --batch 16"
    succeed(run_builder(*model.split(), "-o", folder / "gpt.mlir"))
    flags = ["--mesh=row:2,col:2", "--dump-phases-to", folder / "phases"]
    tools.run("optimus-compile", folder / "gpt.mlir", *flags, "-o", folder / "gpt.so")
    return folder


def test_the_page_has_excerpts_of_every_level():
    levels = [re.sub(r"\W", " ", name).split()[2] for name, _ in EXCERPTS]
    assert list(dict.fromkeys(levels)) == ["input", "step", "shard", "partition", "exec", "place"]


@pytest.mark.parametrize("name, excerpt", EXCERPTS, ids=[name for name, _ in EXCERPTS])
def test_excerpt(phases, name, excerpt):
    text = (phases / name).read_text()
    lines = [re.sub(r"%\w+", "%", line) for line in text.splitlines()]
    rest = iter(lines)
    for line in excerpt.splitlines():
        pattern = pattern_of(line)
        assert any(pattern.search(found) for found in rest), line


def test_an_excerpt_that_is_wrong_is_found(phases):
    """The comparison is not vacuous."""
    text = (phases / "phases" / "00-input.mlir").read_text()
    wrong = pattern_of("%7 = optimus.matmul %x, %w_up : (tensor<16x128x193xf32>, …")
    assert not wrong.search(re.sub(r"%\w+", "%", text))

# ===- test_proof.py - Every layout is proven --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The programs of `bench/run equivalence`, on all of its layouts and with other
variations, are shown to be equal to the serial program: no lemma is missing."""

import re
import sys

import pytest

from tools import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "bench"))
# pylint: disable=wrong-import-position
from harness import Tools
from suite import equivalence as EQUIVALENCE

# A layout takes one of them, so that all meet all over the table.
OPTIONS = [
    [],
    ["--recompute=layer"],
    ["--accumulate", "--optimizer=lamb"],
    ["--precision=bf16"],
    ["--recompute=attention", "--optimizer=sgd"],
    ["--move=whole"],
    ["--precision=bf16", "--accumulate", "--recompute=layer"],
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for name, flags in EQUIVALENCE.MODELS.items():
        Tools().build_model(folder / (name + ".mlir"), *flags.split())
    return folder


@pytest.mark.parametrize("model", EQUIVALENCE.MODELS)
@pytest.mark.parametrize("number", range(len(EQUIVALENCE.LAYOUTS)))
def test_every_layout_is_proven(tools, programs, tmp_path, model, number):
    mesh, strategy = EQUIVALENCE.LAYOUTS[number]
    turn = number + list(EQUIVALENCE.MODELS).index(model)
    flags = ["--mesh", mesh, "--strategy", strategy, *OPTIONS[turn % len(OPTIONS)]]
    fused = tmp_path / "fused.mlir"
    command = [programs / (model + ".mlir"), *flags, "--compile-to=fuse", "-o", fused]
    compiled = tools.call("optimus-compile", *command)
    # Nothing but the padding is said.
    said = re.sub(r".*: warning: this mesh pads .*\n.*\n\^\n", "", compiled.stderr)
    assert (compiled.returncode, said) == (0, "")


def test_a_compilation_compares_with_its_own_program(tools, programs, tmp_path):
    """Guards the test above: the kept program is the input of the compilation."""
    dumps, program = tmp_path / "dumps", programs / "gpt2.mlir"
    flags = ["--mesh=row:2,col:2", "--dump-phases-to", dumps, "--compile-to=fuse"]
    tools.run("optimus-compile", program, *flags, "-o", tmp_path / "fused.mlir")
    serial = dumps / "02-step.mlir"
    prove = "--optimus-verify-partition=serial=%s" % serial
    fused, out = dumps / "06-fuse.mlir", tmp_path / "out.mlir"
    tools.run("optimus-opt", fused, prove, "-o", out)
    # Another serial program: one rate is not that of the partitioned one.
    text, found = re.subn(r"rate = 1.0+e-01", "rate = 2.0e-01", serial.read_text(), 1)
    assert found == 1
    serial.write_text(text)
    refused = tools.call("optimus-opt", fused, prove, "-o", out)
    assert refused.returncode == 1
    assert "V8: expected the optimus.dropout of" in refused.stderr


def test_the_page_lists_the_lemmas():
    source = (REPOSITORY / "lib/Dialect/Optimus/IR/Lemmas.cpp").read_text()
    page = (REPOSITORY / "docs/proof.md").read_text()
    names = re.findall(r'^      \{\w+, "([a-z-]+)"', source, re.M)
    assert len(names) > 10
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.M) == names

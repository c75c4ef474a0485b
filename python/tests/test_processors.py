# ===- test_processors.py - Libraries for other processors ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compiling on one architecture for another; scripts/test-arm runs what is made."""

import platform
import shutil

import pytest

from tools import Model, call

MODEL = Model(layers=1, hidden=16, heads=2, sequence=16, vocabulary=256, batch=4)
AARCH64 = 183  # e_machine in ELF's header


@pytest.mark.skipif(
    platform.machine() == "aarch64"
    or not any(map(shutil.which, ["aarch64-linux-gnu-ld", "ld.lld"])),
    reason="needs another processor than 64-bit ARM, and a linker for that",
)
def test_a_library_for_arm(tools, text):
    flags = ("--mcpu", "aarch64-linux-gnu:neoverse-n1")
    library = tools.library(MODEL, "row:2,col:2", "summa", *flags)
    assert int.from_bytes(library.read_bytes()[18:20], "little") == AARCH64
    result = call(tools.train_command(library, text, 1))
    assert result.returncode == 1
    assert "it is for another kind of processor (aarch64, this one is " in result.stderr
    assert "--mcpu TRIPLE:NAME" in result.stderr


@pytest.mark.skipif(
    not any(map(shutil.which, ["riscv64-linux-gnu-ld", "ld.lld"])),
    reason="needs a linker for RISC-V",
)
def test_a_processor_that_lacks_instructions(tools, tmp_path):
    """LLVM would call the C library for every sum, which a library has not."""
    command = ["optimus-compile", tools.program(MODEL), "-o", tmp_path / "model.so"]
    result = tools.call(*command, "--mcpu", "riscv64-linux-gnu:generic-rv64")
    assert result.returncode == 1
    assert "--mcpu: the processor 'generic-rv64' lacks instructions" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "model.so").exists()

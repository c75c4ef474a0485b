# ===- test_bare_machine.py - A machine with nothing but Debian -------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Packages of Debian on a root file system that debootstrap has just made: the
runtime's trains a library of another machine, and with the compiler's the commands of
README.md run to the letter."""

import re
import shutil

import pytest

from bare_machine import machine
from test_commands import README, commands_of
from tools import call, prose, run_builder, succeed

@pytest.mark.long
@pytest.mark.skipif(not shutil.which("dpkg-shlibdeps"), reason="there is no dpkg-dev")
def test_packages(tools, machine, tmp_path):
    config = tools.binaries.resolve().parent / "CPackConfig.cmake"
    packages = machine.root / "packages"
    make = ["cpack", "--config", str(config), "-B", str(tmp_path / "work")]
    succeed(call([*make, "-D", "CPACK_PACKAGE_DIRECTORY=%s" % packages], timeout=600))

    # The runtime alone, with a library compiled here.
    work = machine.root / "root"
    (work / "text.txt").write_bytes(prose(4000))
    model = "--layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --batch 2".split()
    assert run_builder("gpt2", *model, "-o", work / "gpt.mlir").returncode == 0
    mesh = ["--mesh", "row:2,col:2"]
    tools.run("optimus-compile", work / "gpt.mlir", *mesh, "-o", work / "gpt.so")
    machine.install("/packages/optimus-runtime_*.deb")
    assert not any(machine.has(package) for package in ("libmlir-22", "g++", "optimus"))
    train = "optimus-run train gpt.so --data text.txt --steps 2 --save c"
    assert "final loss" in machine("cd && %s" % train)
    session = "import optimus; s = optimus.Session('gpt.so'); s.load('c'); print(s.step)"
    assert machine('cd && python3 -c "%s"' % session) == "2\n"

    # Both, with the text and MPI of README's commands.
    machine.install("/packages/optimus_*.deb", "bible-kjv", "openmpi-bin")
    output = machine("cd && mkdir hour && cd hour\n" + commands_of(README))
    finals = re.findall(r"^final loss (\S+),", output, re.M)
    assert len(finals) == 2 and finals[0] == finals[1]
    assert not machine.has("g++")

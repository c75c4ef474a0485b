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

import os
import re
import shutil
from pathlib import Path

import pytest

from test_commands import README, commands_of
from tools import call, prose, run_builder, succeed

# Mounts and processes end with the command.
ENTER = """
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/dev/shm"
exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$1"
"""
# How this machine reaches its sources of packages.
OF_THE_HOST = """etc/apt/sources.list etc/apt/sources.list.d etc/apt/apt.conf.d usr/share/keyrings
    etc/resolv.conf etc/hosts etc/ssl/certs/ca-certificates.crt""".split()


class BareMachine:
    """A minimal Debian 12 in a folder."""

    def __init__(self, root: Path):
        self.root = root
        packages = "--include=ca-certificates"
        make = ["debootstrap", "--variant=minbase", packages, "bookworm", str(root)]
        succeed(call(make, timeout=900))
        for name in OF_THE_HOST:
            source, target = Path("/") / name, root / name
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            elif source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def __call__(self, commands: str) -> str:
        enter = ["unshare", "--mount", "--pid", "--fork", "bash", "-euc", ENTER]
        return succeed(call([*enter, str(self.root), commands], timeout=1800))

    def install(self, *packages: str) -> None:
        """As docs/installing.md has it."""
        install = "apt-get -q install -y --no-install-recommends %s" % " ".join(packages)
        self("apt-get -q update && " + install)

    def has(self, package: str) -> bool:
        return package in self("dpkg-query -W -f '${Package}\\n'").split()


@pytest.fixture
def machine(tmp_path) -> BareMachine:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("making a root file system needs debootstrap, and to be root")
    return BareMachine(tmp_path / "root")


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

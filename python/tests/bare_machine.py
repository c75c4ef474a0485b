# ===- bare_machine.py - A machine with nothing but Debian ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A root file system that debootstrap has just made."""

import os
import shutil
from pathlib import Path

import pytest

from tools import call, succeed

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

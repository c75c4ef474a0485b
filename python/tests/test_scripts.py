# ===- test_scripts.py - What a newcomer types -----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""scripts/setup installs what is missing and nothing else, and every script
says what it expects."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tools import REPOSITORY, call

SCRIPTS = ["setup", "quickstart", "test"]

TABLE = """# Dependencies

| package | provides | why | how long |
|---|---|---|---|
| `here` | `sh` | is installed | for good |
| `absent` | `no-such-command` | is not installed | for good |
| `gone` | `<no/such/header.h>` | was removed, its settings stay | for good |
"""


# Nothing of it is missing.
INSTALLED = "".join(TABLE.splitlines(True)[:5])

DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
ARCH = 'ID=arch\nPRETTY_NAME="Arch Linux"\n'


class Machine:
    """A checkout on a system that is made up: `here` is installed, `gone` was."""

    def __init__(self, folder: Path):
        self.root = folder / "checkout"
        self.log = folder / "apt-get.log"
        self.binaries = folder / "bin"
        self.system = folder / "os-release"
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        (self.root / "docs").mkdir()
        self.binaries.mkdir()
        known = '*here) echo "ii " ;; *gone) echo "rc " ;; *) exit 1 ;;'
        self.fake("dpkg-query", 'case "$*" in %s esac' % known)
        self.fake("apt-cache", "exit 0")
        self.fake("apt-get", 'echo "$*" >>%s' % self.log)

    def fake(self, program: str, body: str) -> None:
        path = self.binaries / program
        path.write_text("#!/bin/sh\n%s\n" % body)
        path.chmod(0o755)

    def run(self, script: str, table=TABLE, system=DEBIAN_12, user=0):
        (self.root / "docs" / "dependencies.md").write_text(table)
        self.system.write_text(system)
        self.fake("id", "echo %d" % user)
        path = "%s:%s" % (self.binaries, os.environ["PATH"])
        environment = dict(os.environ, PATH=path, OPTIMUS_OS_RELEASE=str(self.system))
        return call(["bash", str(self.root / "scripts" / script)], env=environment)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_setup_installs_what_is_missing(machine):
    result = machine.run("setup")
    assert result.returncode == 0, result.stderr
    update, install = machine.log.read_text().splitlines()
    assert update.endswith(" update")
    assert re.search(r" install -y --no-install-recommends absent gone$", install)


def test_setup_without_root_says_what_is_missing(machine):
    result = machine.run("setup", user=1000)
    assert result.returncode == 1
    assert "apt-get install --no-install-recommends absent gone\n" in result.stderr
    assert not machine.log.exists()


def test_setup_elsewhere_says_what_is_missing(machine):
    result = machine.run("setup", system=ARCH)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0].endswith("missing: no-such-command (Debian's absent)")
    assert lines[1].endswith("missing: <no/such/header.h> (Debian's gone)")
    assert "this is Arch Linux" in lines[2]
    assert not machine.log.exists()


@pytest.mark.parametrize("system", [DEBIAN_12, ARCH])
def test_setup_does_nothing_where_nothing_is_missing(machine, system):
    result = machine.run("setup", table=INSTALLED, system=system, user=1000)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not machine.log.exists()


def test_setup_names_what_apt_does_not_know(machine):
    machine.fake("apt-cache", 'case "$*" in *absent) exit 100 ;; esac')
    result = machine.run("setup")
    assert result.returncode == 1
    assert "no source of apt has absent; " in result.stderr
    assert " install " not in machine.log.read_text()


def test_setup_shows_why_apt_failed(machine):
    machine.fake("apt-get", "echo E: no network; exit 100")
    result = machine.run("setup")
    assert result.returncode == 1
    assert "E: no network" in result.stderr


def test_setup_rejects_an_empty_list(machine):
    result = machine.run("setup", table="# Dependencies\n")
    assert result.returncode == 1
    assert "lists no package" in result.stderr


def test_build_that_fails_counts_as_a_failure(machine):
    machine.fake("cmake", "echo CMake Error; exit 1")
    result = machine.run("test", table=INSTALLED)
    assert result.returncode == 1
    assert "CMake Error" in result.stderr
    assert result.stdout.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    result = call([str(REPOSITORY / "scripts" / script), "--help"])
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: scripts/%s" % script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_unknown_argument(script):
    result = call([str(REPOSITORY / "scripts" / script), "--no-such-flag", "x"])
    assert result.returncode == 1
    assert "'--no-such-flag'" in result.stderr


def test_continuous_integration_runs_every_test():
    assert "scripts/test" in (REPOSITORY / ".ci" / "run").read_text()

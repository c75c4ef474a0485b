# ===- test_install.py - What cmake --install leaves ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""An installed folder works wherever it is moved, without the sources and the build."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tools import REPOSITORY, call, prose, succeed

pytestmark = pytest.mark.rotates

PROGRAMS = ["compile", "interpret", "lsp-server", "opt", "plan", "run", "simulate"]
SCRIPTS = ["generate", "report", "serve", "tune"]
PACKAGES = "lib/python3/dist-packages"

# Hides a folder, then does the rest.
HIDE = 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"'


@pytest.fixture(scope="module")
def prefix(tools, tmp_path_factory) -> Path:
    """Installed in one place and moved to another."""
    folder = tmp_path_factory.mktemp("installed")
    build = tools.binaries.resolve().parent
    succeed(call(["cmake", "--install", str(build), "--prefix", str(folder / "first")]))
    (folder / "first").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def alone(prefix, tmp_path_factory):
    """Runs a command of the installed folder where nothing else of ours is, in a folder
    of its own."""
    folder = tmp_path_factory.mktemp("elsewhere")
    hide = ["unshare", "--mount", "sh", "-c", HIDE, str(REPOSITORY)]
    if call([*hide, "true"]).returncode != 0:
        pytest.skip("this machine lets nobody hide a folder (unshare --mount)")
    environment = {
        "PATH": "%s/bin:/usr/bin:/bin" % prefix,
        "PYTHONPATH": str(prefix / PACKAGES),
        "HOME": str(folder),
    }

    def run(*command) -> str:
        command = [*hide, *map(str, command)]
        return succeed(call(command, cwd=str(folder), env=environment))

    run.folder = folder
    return run


def test_what_is_installed(prefix):
    names = {path.name for path in (prefix / "bin").iterdir()}
    assert names == {"optimus-" + name for name in PROGRAMS + SCRIPTS}
    plugins = {path.name for path in (prefix / "lib/optimus").iterdir()}
    assert {"liboptimus_device_cpu.so", "liboptimus_device_cuda.so"} <= plugins
    assert not [name for name in plugins if "hidden" in name or "fake" in name]
    sources = REPOSITORY / "python/optimus"
    wanted = {path.relative_to(sources) for path in sources.rglob("*") if path.is_file()}
    package = prefix / PACKAGES / "optimus"
    found = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    assert {path for path in wanted if "__pycache__" not in path.parts} <= found


def test_links_are_relative_and_lead_somewhere(prefix):
    links = [path for path in prefix.rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert not os.path.isabs(os.readlink(link)), link
        assert prefix in link.resolve(strict=True).parents


def test_no_search_path_leads_to_the_build(prefix):
    for path in [*(prefix / "bin").iterdir(), *prefix.rglob("*.so")]:
        if path.read_bytes()[:4] == b"\x7fELF":
            dynamic = succeed(call(["readelf", "--dynamic", str(path)]))
            paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
            assert all(each.startswith("/usr/lib/") for each in paths), path


def test_every_tool_starts(alone):
    for name in PROGRAMS + SCRIPTS:
        if name != "opt":
            assert alone("optimus-" + name, "--help")
    assert "--optimus-shard" in alone("optimus-opt", "--help-hidden")


def test_a_model_is_made_trained_and_looked_at(alone):
    (alone.folder / "text.txt").write_bytes(prose(4000))
    model = "--layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --batch 2"
    builder = ["/usr/bin/python3", "-m", "optimus.models", "gpt2", *model.split()]
    alone(*builder, "-o", "gpt.mlir")
    alone("optimus-compile", "gpt.mlir", *"--mesh row:2,col:1 -o gpt.so".split())
    train = "optimus-run train gpt.so --data text.txt --steps 2"
    alone(*train.split(), "--log-json", "log", "--profile", "profile")
    steps = (alone.folder / "log").read_text().splitlines()
    assert json.loads(steps[-1])["step"] == 2
    assert "train_step" in alone("optimus-report", "memory", "profile")
    assert "ms" in alone("optimus-simulate", "gpt.so")
    # The module finds its plugins, and the package the compiler.
    session = "import optimus; optimus.Session(optimus.compile('gpt.mlir')).initialize(1)"
    alone("/usr/bin/python3", "-c", session)

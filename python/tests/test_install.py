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
import tomllib
from pathlib import Path

import pytest

from tools import REPOSITORY, call, prose, succeed

PYTHON = "/usr/bin/python3"

PROGRAMS = ["compile", "interpret", "lsp-server", "opt", "plan", "run", "simulate"]
SCRIPTS = ["generate", "report", "serve", "tune"]
PACKAGES = "lib/python3/dist-packages"

# Hides a folder, then does the rest.
HIDE = 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"'

rotates = pytest.mark.rotates("installed")


class Elsewhere:
    """Runs installed commands where nothing else of ours is, in a folder of their own."""

    def __init__(self, folder: Path, **environment):
        self.folder = folder
        self._hide = ["unshare", "--mount", "sh", "-c", HIDE, str(REPOSITORY)]
        self._environment = dict(
            environment, HOME=str(folder), OPTIMUS_MACHINE_CACHE="none"
        )
        if call([*self._hide, "true"]).returncode != 0:
            pytest.skip("this machine lets nobody hide a folder (unshare --mount)")

    def __call__(self, *command) -> str:
        command = [*self._hide, *map(str, command)]
        return succeed(
            call(command, timeout=600, cwd=str(self.folder), env=self._environment)
        )

    def first_steps(self, python: Path) -> None:
        """A model is made, compiled, trained and looked at."""
        (self.folder / "text.txt").write_bytes(prose(4000))
        model = "--layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --batch 2"
        self(python, *"-m optimus.models gpt2 -o gpt.mlir".split(), *model.split())
        self("optimus-compile", "gpt.mlir", *"--mesh row:2,col:1 -o gpt.so".split())
        train = "optimus-run train gpt.so --data text.txt --steps 2"
        self(*train.split(), "--log-json", "log", "--profile", "profile")
        steps = (self.folder / "log").read_text().splitlines()
        assert json.loads(steps[-1])["step"] == 2
        assert "train_step" in self("optimus-report", "memory", "profile")
        assert "ms" in self("optimus-simulate", "gpt.so")
        # The module finds its plugins, and the package the compiler.
        session = "import optimus as o; o.Session(o.compile('gpt.mlir')).initialize(1)"
        self(python, "-c", session)


@pytest.fixture(scope="module")
def prefix(tools, tmp_path_factory) -> Path:
    """Installed in one place and moved to another."""
    folder = tmp_path_factory.mktemp("installed")
    build = tools.binaries.resolve().parent
    succeed(call(["cmake", "--install", str(build), "--prefix", str(folder / "first")]))
    (folder / "first").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def elsewhere(prefix, tmp_path_factory) -> Elsewhere:
    path = "%s/bin:/usr/bin:/bin" % prefix
    folder = tmp_path_factory.mktemp("elsewhere")
    return Elsewhere(folder, PATH=path, PYTHONPATH=str(prefix / PACKAGES))


@rotates
def test_what_is_installed(prefix):
    names = {path.name for path in (prefix / "bin").iterdir()}
    assert names == {"optimus-" + name for name in PROGRAMS + SCRIPTS}
    plugins = {path.name for path in (prefix / "lib/optimus").iterdir()}
    assert {"liboptimus_device_cpu.so", "liboptimus_device_cuda.so"} <= plugins
    assert not [name for name in plugins if "hidden" in name or "fake" in name]
    pages = {path.name for path in (prefix / "share/man/man1").iterdir()}
    assert pages == {name + ".1.gz" for name in names}
    sources = REPOSITORY / "python/optimus"
    wanted = {path.relative_to(sources) for path in sources.rglob("*") if path.is_file()}
    package = prefix / PACKAGES / "optimus"
    found = {path.relative_to(package) for path in package.rglob("*") if path.is_file()}
    assert {path for path in wanted if "__pycache__" not in path.parts} <= found


@rotates
def test_links_are_relative_and_lead_somewhere(prefix):
    links = [path for path in prefix.rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert not os.path.isabs(os.readlink(link)), link
        assert prefix in link.resolve(strict=True).parents


@rotates
def test_no_search_path_leads_to_the_build(prefix):
    for path in [*(prefix / "bin").iterdir(), *prefix.rglob("*.so")]:
        if path.read_bytes()[:4] == b"\x7fELF":
            dynamic = succeed(call(["readelf", "--dynamic", str(path)]))
            paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
            assert all(each.startswith("/usr/lib/") for each in paths), path


@rotates
def test_every_tool_starts(elsewhere):
    for name in PROGRAMS + SCRIPTS:
        if name != "opt":
            assert elsewhere("optimus-" + name, "--help")
    assert "--optimus-shard" in elsewhere("optimus-opt", "--help-hidden")


@rotates
def test_first_steps(elsewhere):
    elsewhere.first_steps(PYTHON)


def test_the_wheel_has_every_tool():
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert set(wheel["scripts"]) == {"optimus-" + name for name in PROGRAMS + SCRIPTS}


@pytest.mark.long
def test_pip_installs_without_a_network(tools, tmp_path):
    """With Debian's setuptools, wheel and NumPy."""
    find = "from importlib.util import find_spec; assert all(map(find_spec, %r))"
    if call([PYTHON, "-c", find % ("ensurepip pip setuptools wheel".split(),)]).returncode:
        pytest.skip("%s lacks venv, pip, setuptools or wheel" % PYTHON)
    environment = tmp_path / "environment"
    succeed(call([PYTHON, "-m", "venv", "--system-site-packages", str(environment)]))
    install = "-m pip install --no-index --no-build-isolation --no-deps".split()
    build = dict(os.environ, OPTIMUS_BUILD_DIR=str(tools.binaries.resolve().parent))
    python = environment / "bin/python"
    command = [str(python), *install, str(REPOSITORY)]
    succeed(call(command, timeout=1200, env=build))
    elsewhere = Elsewhere(tmp_path, PATH="%s/bin:/usr/bin:/bin" % environment)
    elsewhere.first_steps(python)
    for name in PROGRAMS + SCRIPTS:
        assert elsewhere("optimus-" + name, "--version")
    assert str(environment) in elsewhere(python, "-c", "import optimus; print(optimus.__file__)")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("dpkg-shlibdeps"), reason="there is no dpkg-dev")
def test_packages_of_debian(tools, tmp_path):
    """The runtime's, alone, trains what the compiler's made."""
    build = tools.binaries.resolve().parent
    command = ["cpack", "--config", str(build / "CPackConfig.cmake"), "-B", str(tmp_path)]
    succeed(call([*command, "-D", "CPACK_PACKAGE_DIRECTORY=%s" % tmp_path], timeout=600))
    said = {}
    for package in ("optimus-runtime", "optimus"):
        (path,) = tmp_path.glob(package + "_*.deb")
        said[package] = succeed(call(["dpkg-deb", "--info", str(path)]))
        succeed(call(["dpkg-deb", "--extract", str(path), str(tmp_path / package)]))
    assert "libmlir-22" in said["optimus"] and "libmlir" not in said["optimus-runtime"]
    for library in ("libdnnl2", "libsodium23", "libsqlite3-0", "python3-numpy"):
        assert library in said["optimus-runtime"]
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "text.txt").write_bytes(prose(4000))
    runtime = tmp_path / "optimus-runtime/usr"
    packages = str(runtime / PACKAGES)
    compiler = "%s/bin:/usr/bin:/bin" % (tmp_path / "optimus/usr")
    compiling = Elsewhere(folder, PATH=compiler, PYTHONPATH=packages)
    model = "--layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --batch 2 -o gpt.mlir"
    compiling(PYTHON, "-m", "optimus.models", "gpt2", *model.split())
    compiling("optimus-compile", "gpt.mlir", "-o", "gpt.so")
    training = Elsewhere(folder, PATH="%s/bin:/usr/bin:/bin" % runtime, PYTHONPATH=packages)
    training(*"optimus-run train gpt.so --data text.txt --steps 2 --save c".split())
    session = "import optimus as o; s = o.Session('gpt.so'); s.load('c'); print(s.step)"
    assert training(PYTHON, "-c", session) == "2\n"
    assert not list((runtime / "bin").glob("optimus-compile"))

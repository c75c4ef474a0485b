# ===- test_container.py - The recipe of the container ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The recipes in container/: what they copy and run, and with `--long` the image for
processors itself, built by buildah on a Debian of debootstrap's."""

import json
import os
import re
import shutil
import subprocess

import pytest

from bare_machine import machine
from tools import REPOSITORY, TIMEOUT_SECONDS, call, prose, succeed

RECIPE = (REPOSITORY / "container/Containerfile").read_text()
FOR_PROCESSORS = (REPOSITORY / "container/Containerfile.cpu").read_text()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """What the recipe copies."""
    folder = tmp_path_factory.mktemp("container")
    for arguments in re.findall(r"^COPY (.*)$", RECIPE, re.M):
        *sources, to = arguments.split()
        for source in sources:
            if (REPOSITORY / source).is_dir():
                shutil.copytree(REPOSITORY / source, folder / to)
            else:
                (folder / to).mkdir(exist_ok=True)
                shutil.copy(REPOSITORY / source, folder / to)
    return folder


@pytest.mark.rotates
def test_what_is_copied_suffices_to_configure(checkout):
    (configure,) = re.findall(r"^RUN (cmake .*)$", RECIPE, re.M)
    result = subprocess.run(
        ["bash", "-c", configure],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    targets = (checkout / "build/build.ninja").read_text()
    # What processors' packages are made of is configured in the same way, of the same files.
    assert "cpack --config build/CPackConfig.cmake" in FOR_PROCESSORS
    assert (checkout / "build/CPackConfig.cmake").exists() and "build optimus-tools:" in targets
    for name in ("bin/optimus-compile", "bin/optimus-run", "lib/optimus/liboptimus_device_cuda.so"):
        assert "build %s:" % name in targets


def test_what_is_copied_suffices_to_set_up(checkout):
    (setup,) = re.findall(r"^RUN (scripts/setup .*)$", RECIPE, re.M)
    result = call(["bash", "-c", "cd %s && %s --help" % (checkout, setup)])
    assert result.returncode == 0, result.stderr
    assert "--cuda=full" in result.stdout


def test_commands_find_cuda(checkout):
    (entry,) = re.findall(r'^ENTRYPOINT \["/optimus/(.*)"\]$', RECIPE, re.M)
    environment = checkout / ".cache/cuda/environment"
    environment.parent.mkdir(parents=True)
    environment.write_text("export OPTIMUS_CUBLASLT_LIBRARY=/there\n")
    path = {"PATH": os.environ["PATH"]}
    result = call([str(checkout / entry), "printenv", "OPTIMUS_CUBLASLT_LIBRARY"], env=path)
    assert result.stdout == "/there\n", result.stderr


def test_the_recipe_for_processors_builds_the_same():
    same = lambda recipe: [
        line
        for line in recipe.splitlines()
        if line.startswith(("COPY ", "RUN cmake "))
        and not line.startswith(("COPY --from", "COPY container "))
    ]
    assert same(FOR_PROCESSORS) == same(RECIPE)
    # Packages are made, and installed, where they lie.
    (made,) = re.findall(r"^COPY --from=build /optimus/(\S+)/\*\.deb /packages/$", FOR_PROCESSORS, re.M)
    packages = (REPOSITORY / "cmake/modules/OptimusPackages.cmake").read_text()
    assert "set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)" in packages
    assert made == "build/packages" and "/packages/*.deb" in FOR_PROCESSORS.rsplit("FROM ", 1)[1]


class Images:
    """Buildah with a storage of its own, where containers are a `chroot`: it needs no
    daemon, no registry and no control groups."""

    def __init__(self, folder):
        self.command = ["buildah", "--root", folder / "storage", "--runroot", folder / "run"]
        self.isolated = ["--isolation", "chroot"]

    def __call__(self, *arguments) -> str:
        command = [*map(str, self.command), *map(str, arguments)]
        return succeed(call(command, timeout=7200))

    def add_debian(self, archive) -> None:
        """What recipes begin with, from an archive of its files."""
        self("from", "--name", "debian", "scratch")
        self("add", "-q", "debian", archive, "/")
        self("commit", "-q", "--rm", "debian", "docker.io/library/debian:12")

    def megabytes(self, image) -> float:
        """As `podman images` has it."""
        (found,) = json.loads(self("images", "--json", image))
        number, unit = found["size"].split()
        return float(number) * {"MB": 1, "GB": 1000}[unit]

    def remove_all(self) -> None:
        self("rm", "--all")
        self("rmi", "--all", "--force")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("buildah"), reason="there is no buildah")
def test_the_image_for_processors_trains(machine, tmp_path):
    archive = tmp_path / "debian.tar"
    succeed(call(["tar", "-C", str(machine.root), "-cf", str(archive), "."]))
    images = Images(tmp_path)
    images.add_debian(archive)
    try:
        recipe = REPOSITORY / "container/Containerfile.cpu"
        build = ["build", *images.isolated, "--pull=never", "-t", "optimus-cpu", "-f", recipe]
        images(*build, REPOSITORY)
        page = (REPOSITORY / "docs/installing.md").read_text()
        (stated,) = re.findall(r"The image has (\d+) MB", page)
        assert images.megabytes("optimus-cpu") == pytest.approx(int(stated), rel=0.1)

        images("from", "--pull-never", "--name", "run", "optimus-cpu")
        (tmp_path / "data").mkdir()
        (tmp_path / "data/corpus.txt").write_bytes(prose(100_000))
        run = ["run", *images.isolated, "--volume", "%s:/data" % (tmp_path / "data"), "run", "--"]
        (command,) = re.findall(r'^CMD \["(.*)"\]$', FOR_PROCESSORS, re.M)
        assert "train" in images(*run, *command.split('", "'))
        # The model of scripts/quickstart, by the image's own compiler.
        quickstart = (REPOSITORY / "scripts/quickstart").read_text()
        (model,) = re.findall(r"-m optimus.models (gpt2 .*) \\\n", quickstart)
        images(*run, "python3", "-m", "optimus.models", *model.split(), "-o", "gpt.mlir")
        images(*run, "optimus-compile", "gpt.mlir", "--mesh", "row:2,col:2", "-o", "gpt.so")
        train = "optimus-run train gpt.so --data corpus.txt --steps 10 --save checkpoint"
        losses = re.findall(r"loss (\d+\.\d+)", images(*run, *train.split()))
        assert float(losses[-1]) < float(losses[0])
        assert (tmp_path / "data/checkpoint/model.safetensors").exists()
    finally:
        images.remove_all()

# ===- test_container.py - The recipe of the container ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The recipes in container/, as far as it goes without building a container."""

import os
import re
import shutil
import subprocess

import pytest

from tools import REPOSITORY, TIMEOUT_SECONDS, call

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

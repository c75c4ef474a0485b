# ===- setup.py - The wheel ---------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Puts what CMake builds into the package: tools into optimus/bin, plugins into
optimus/lib, and the module of the runtime.

The build is build/, or OPTIMUS_BUILD_DIR; one that is there is used as it is configured.
"""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError

ROOT = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("OPTIMUS_BUILD_DIR", ROOT / "build")).resolve()
OURS = BUILD / "wheel"


def run(*command) -> None:
    try:
        subprocess.run([str(part) for part in command], cwd=ROOT, check=True)
    except FileNotFoundError:
        raise ExecError(
            "expected %s in PATH, found none; scripts/setup installs what a build needs"
            % command[0]
        ) from None
    except subprocess.CalledProcessError as error:
        raise ExecError("%s failed, see above" % " ".join(error.cmd)) from None


class BuildWithTools(build_py):
    def run(self) -> None:
        # What an earlier build left would become part of the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            self.add_tools(Path(self.build_lib) / "optimus")

    def add_tools(self, package: Path) -> None:
        if not (BUILD / "CMakeCache.txt").exists():
            fast = ["-DOPTIMUS_ENABLE_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON"]
            # As scripts/lib.sh: it takes half of g++'s time.
            if shutil.which("clang++-22"):
                fast += ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
            run("cmake", "--preset", "release", "-B", BUILD, *fast)
        run("cmake", "--build", BUILD, "--target", "optimus-tools")
        for component in ("runtime", "compiler"):
            place = ["--prefix", package, "--component", component]
            run("cmake", "--install", BUILD, "--strip", *place)
        name = "_runtime" + sysconfig.get_config_var("EXT_SUFFIX")
        module = BUILD / "python/optimus" / name
        if not module.exists():
            raise ExecError(
                "expected %s, which needs python3-dev and pybind11-dev, and a build for "
                "this version of Python (cmake -DPython_EXECUTABLE=…); found none" % module
            )
        run("cmake", "-E", "copy", module, package / name)


class BinaryDistribution(Distribution):
    """For one version of Python and one kind of machine."""

    def has_ext_modules(self) -> bool:
        return True


OURS.mkdir(parents=True, exist_ok=True)
setup(
    cmdclass={"build_py": BuildWithTools},
    distclass=BinaryDistribution,
    # Apart from the sources.
    options={
        "build": {"build_base": str(OURS)},
        "egg_info": {"egg_base": str(OURS)},
    },
)

# ===- session.py - The programs and models of a pack, with deadlines ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What checks run on: one unpacked pack, on one machine."""

import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from plan import Library


class Failed(Exception):
    """Something is wrong; the message says what."""


class Skipped(Exception):
    """The machine lacks what a check needs."""


class TimedOut(Exception):
    """A check took longer than it may."""


CUBLASLT = "OPTIMUS_CUBLASLT_LIBRARY"
CUDNN = "OPTIMUS_CUDNN_LIBRARY"
NCCL = "OPTIMUS_NCCL_LIBRARY"

# The libraries opened by optimus-run, newest first, and their stand-ins in a fake pack.
OPENED = {
    CUBLASLT: (("libcublasLt.so.13", "libcublasLt.so.12"), "libfake_cublaslt.so"),
    CUDNN: (("libcudnn.so.9",), "libfake_cudnn.so"),
    NCCL: (("libnccl.so.2",), "libfake_nccl.so"),
}


def find_library(names):
    """Where the toolkit's or PyTorch's lies; empty if neither does."""
    folders = ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"]
    folders += [f"{entry}/nvidia/*/lib" for entry in sys.path if entry]
    for name in names:
        for folder in folders:
            for path in sorted(glob.glob(f"{folder}/{name}")):
                return path
    return ""


class Session:
    """One run of checks."""

    def __init__(self, pack, results, scratch):
        self.pack, self.results, self._scratch = pack, results, scratch
        about = json.loads((pack / "pack.json").read_text(encoding="utf-8"))
        self.fake = about["fake"]
        self.hash = about["hash"]
        self.libraries = [Library(**each) for each in about["libraries"]]
        self._tokens = about["tokens"]
        # The first is not recorded, the second is while it runs.
        self.steps = 3 if self.fake else 12
        self.deadline = 0.0

    def environment(self, gpu_bytes=0):
        """A fake GPU may have so many bytes of memory."""
        environment = dict(os.environ)
        libraries = str(self.pack / "lib" / "needed")
        if environment.get("LD_LIBRARY_PATH"):
            libraries += ":" + environment["LD_LIBRARY_PATH"]
        environment["LD_LIBRARY_PATH"] = libraries
        if self.fake:
            environment["OPTIMUS_CUDA_DRIVER_LIBRARY"] = str(self.pack / "lib/libfake_cuda.so")
            if gpu_bytes:
                environment["OPTIMUS_FAKE_GPU_BYTES"] = str(gpu_bytes)
        for variable, (names, fake) in OPENED.items():
            if self.fake:
                environment[variable] = str(self.pack / "lib" / fake)
            elif not environment.get(variable) and find_library(names):
                environment[variable] = find_library(names)
        return environment

    def library(self, name):
        (found,) = (library for library in self.libraries if library.name == name)
        return found

    def toys(self):
        return sorted((self.pack / "toy").iterdir())

    def data(self, library):
        """Tokens below the vocabulary of a model."""
        return self._tokens[str(library.sizes["vocab"])]

    def scratch(self, name):
        """A file that is not there yet."""
        path = self._scratch / name
        path.unlink(missing_ok=True)
        return path

    def write(self, name, text):
        (self.results / name).write_text(text, encoding="utf-8")

    def program(self, name):
        folders = os.environ.get("PATH", "") + ":/usr/local/cuda/bin"
        found = None if self.fake else shutil.which(name, path=folders)
        if not found:
            raise Skipped("the fake driver is no NVIDIA GPU" if self.fake else f"there is no {name} on this machine")
        return found

    def optimus_run(self, *arguments, under=(), gpu_bytes=0):
        return self.call(*under, self.pack / "bin/optimus-run", *arguments, gpu_bytes=gpu_bytes)

    def call(self, *command, gpu_bytes=0):
        """Standard output of a command, in the pack's folder, before the deadline."""
        command = [str(part) for part in command]
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimedOut("no time was left for: " + " ".join(command))
        with subprocess.Popen(
            command,
            cwd=self.pack,
            env=self.environment(gpu_bytes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # So that a command's children can be ended, too.
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=left)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise TimedOut(f"not done after {left:.0f} s: {' '.join(command)}") from error
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0:
            said = "\n".join((output + errors).strip().splitlines()[-8:])
            raise Failed(f"exit code {process.returncode} from: {' '.join(command)}\n{said}")
        return output


def default_pack():
    """The pack that these files are part of."""
    return pathlib.Path(__file__).resolve().parent

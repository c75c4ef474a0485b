# ===- session.py - The programs and models of a pack, with deadlines ------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What checks run on: one unpacked pack, on one machine."""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
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


# How a check that failed is run again.
BLOCKING, SANITIZED = "blocking", "compute-sanitizer"
# Blocking launches, and the libraries' logs.
LOGGING = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "CUBLASLT_LOG_LEVEL": "2",
    "CUDNN_LOGLEVEL_DBG": "2",
    "CUDNN_LOGDEST_DBG": "stderr",
    "NCCL_DEBUG": "INFO",
}
SANITIZER = ["--tool", "memcheck", "--error-exitcode", "9"]


def wheel_folders():
    """Where PyTorch's wheels have NVIDIA's libraries."""
    return [folder for entry in sys.path if entry for folder in sorted(glob.glob(f"{entry}/nvidia/*/lib"))]


def find_library(names):
    """Where PyTorch's or, if it brought none, the toolkit's lies; empty if neither does. The
    first are of one kind, and fit each other."""
    folders = wheel_folders() + ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu"]
    for folder in folders:
        for name in names:
            if os.path.exists(f"{folder}/{name}"):
                return f"{folder}/{name}"
    return ""


class Session:
    """One run of checks."""

    def __init__(self, pack, results, scratch, seeded=()):
        self.pack, self.results, self._scratch = pack, results, scratch
        about = json.loads((pack / "pack.json").read_text(encoding="utf-8"))
        self.fake = about["fake"]
        self.hash = about["hash"]
        self.libraries = [Library(**each) for each in about["libraries"]]
        self._tokens = about["tokens"]
        # The first is not recorded, the second is while it runs.
        self.steps = 3 if self.fake else 12
        self.deadline = 0.0
        self.check = ""
        """The name of the one that is running."""
        self.how = ""
        """Empty, BLOCKING or SANITIZED."""
        self.figures_of = lambda name: {}
        """What another check has measured; set by `run`."""
        self._seeded = dict(seeded)
        self._outputs = 0

    def environment(self, gpu_bytes=0):
        """A fake GPU may have so many bytes of memory."""
        environment = dict(os.environ)
        folders = [str(self.pack / "lib" / "needed"), *wheel_folders()]
        if environment.get("LD_LIBRARY_PATH"):
            folders.append(environment["LD_LIBRARY_PATH"])
        environment["LD_LIBRARY_PATH"] = ":".join(folders)
        if self.how == BLOCKING:
            environment.update(LOGGING)
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

    def data(self, library):
        """Tokens below the vocabulary of a model."""
        return self._tokens[str(library.sizes["vocab"])]

    def scratch(self, name):
        """A file that is not there yet."""
        path = self._scratch / name
        path.unlink(missing_ok=True)
        return path

    def scratch_folder(self, name):
        """A folder that is not there yet."""
        path = self._scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def write(self, name, text):
        (self.results / name).write_text(text, encoding="utf-8")

    def program(self, name):
        folders = os.environ.get("PATH", "") + ":/usr/local/cuda/bin"
        found = None if self.fake else shutil.which(name, path=folders)
        if not found:
            raise Skipped("the fake driver is no NVIDIA GPU" if self.fake else f"there is no {name} on this machine")
        return found

    def optimus_run(self, *arguments, under=(), gpu_bytes=0, environment=None):
        command = [self.pack / "bin/optimus-run", *arguments]
        if self.how == BLOCKING and "--eager" not in arguments and arguments[0] in ("train", "verify"):
            command.append("--eager")
        if self.how == SANITIZED and not under:
            under = [self.program("compute-sanitizer"), *SANITIZER]
        return self.call(*under, *command, gpu_bytes=gpu_bytes, environment=environment)

    def child(self, name):
        """The figures of one of child.py's questions; Failed without a "yes"."""
        answer = self.ask(name)
        if answer["answer"] != "yes":
            raise Failed(answer["said"])
        return answer["figures"]

    def ask(self, name, *arguments):
        under = [self.program("compute-sanitizer"), *SANITIZER] if self.how == SANITIZED else []
        output = self.call(*under, sys.executable, "child.py", name, *arguments)
        return json.loads(output.strip().splitlines()[-1])

    @contextlib.contextmanager
    def watching_memory(self):
        """Yields a function that tells afterwards how many bytes were gone from the GPU at
        most; None of a fake one."""
        command = [sys.executable, "child.py", "watch"]
        with subprocess.Popen(
            command, cwd=self.pack, env=self.environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                before = int(process.stdout.readline())
                least = [before]

                def read():
                    for line in process.stdout:
                        least.append(min(least.pop(), int(line)))

                reading = threading.Thread(target=read)
                reading.start()
                yield lambda: None if self.fake else before - least[0]
            except ValueError as error:
                raise Failed("the GPU's free memory cannot be read") from error
            finally:
                process.kill()
            reading.join()

    def _seed(self):
        """A mistake on purpose, of tests with a fake pack."""
        how = self._seeded.get(self.check.partition("/")[0]) if self.fake else None
        if how == "fail":
            raise Failed("a mistake on purpose")
        if how == "hang":
            raise TimedOut("a hang on purpose")
        if how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)

    def call(self, *command, gpu_bytes=0, environment=None):
        """Standard output of a command, in the pack's folder, before the deadline. All that
        it said is kept if it fails, or is run again."""
        self._seed()
        command = [str(part) for part in command]
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimedOut("no time was left for: " + " ".join(command))
        with subprocess.Popen(
            command,
            cwd=self.pack,
            env={**self.environment(gpu_bytes), **(environment or {})},
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
                output, errors = process.communicate()
                self._keep(command, "not done", output, errors)
                raise TimedOut(f"not done after {left:.0f} s: {' '.join(command)}") from error
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0 or self.how:
            self._keep(command, f"exit code {process.returncode}", output, errors)
        if process.returncode != 0:
            said = "\n".join((output + errors).strip().splitlines()[-8:])
            raise Failed(f"exit code {process.returncode} from: {' '.join(command)}\n{said}")
        return output

    def _keep(self, command, ending, output, errors):
        """Writes all that a command said into the folder of outputs."""
        self._outputs += 1
        folder = self.results / "output"
        folder.mkdir(exist_ok=True)
        name = f"{self.check.replace('/', '-')}{'-' if self.how else ''}{self.how}-{self._outputs}.txt"
        text = f"{' '.join(command)}\n{ending}\n\n--- output\n{output}\n--- errors\n{errors}\n"
        (folder / name).write_text(text, encoding="utf-8")


def default_pack():
    """The pack that these files are part of."""
    return pathlib.Path(__file__).resolve().parent

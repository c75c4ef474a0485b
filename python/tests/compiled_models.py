# ===- compiled_models.py - Models that were compiled before ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What optimus-compile made of a program, kept in the build folder from one run of
the tests to the next."""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Sequence

UNUSED_SECONDS = 7 * 24 * 3600


class CompiledModels:
    """Outputs by program, flags and compiler: another compiler, another library
    that it loads, or another processor compiles anew."""

    def __init__(self, folder: Path, compiler: Path):
        self._folder = folder
        self._compiler = compiler

    def get(
        self, source: Path, flags: Sequence[str], path: Path, compile: Callable[[Path], None]
    ) -> None:
        """Writes the output to `path`, a copy of its own."""
        key = hashlib.sha256(self._identity)
        key.update(source.read_bytes())
        # The name of the program stands in the output.
        key.update(repr((source.name, path.suffix, *flags)).encode())
        kept = self._folder / (key.hexdigest() + path.suffix)
        try:
            shutil.copyfile(kept, path)
            os.utime(kept)
            return
        except FileNotFoundError:
            compile(path)
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as new:
            new.write(path.read_bytes())
        os.replace(new.name, kept)

    def remove_unused(self) -> None:
        """Removes what no run has used for a week."""
        for path in self._folder.glob("*"):
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                path.unlink(missing_ok=True)

    @functools.cached_property
    def _identity(self) -> bytes:
        digest = hashlib.sha256(self._compiler.read_bytes())
        # The libraries that it loads, as far as they can be replaced without it.
        loaded = subprocess.run(["ldd", self._compiler], stdout=subprocess.PIPE, text=True)
        for library in sorted(re.findall(r"=> (/\S+)", loaded.stdout)):
            status = os.stat(library)
            digest.update(repr((library, status.st_size, status.st_mtime_ns)).encode())
        # Code is for the processor at hand, unless the flags name another.
        described = r"^(?:flags|Features|cpu family|model|model name|CPU part)\s*:.*"
        processor = set(re.findall(described, Path("/proc/cpuinfo").read_text(), re.M))
        digest.update(repr((platform.machine(), sorted(processor))).encode())
        return digest.digest()

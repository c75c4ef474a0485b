# ===- session.py - What the processes of one test run share ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Tests run in several processes at once (`pytest -n`). They share files that
are dear to make, and the machine."""

import contextlib
import fcntl
from pathlib import Path
from typing import Callable, Iterator


class Session:
    """A folder that all processes of one run see."""

    def __init__(self, folder: Path):
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """The file `name`; whoever asks first makes it, the others wait."""
        path = self._folder / name
        # A maker that fails leaves nothing of use.
        done = self._folder / (name + ".done")
        with self._locked(name + ".lock", fcntl.LOCK_EX):
            if not done.exists():
                make(path)
                done.touch()
        return path

    @contextlib.contextmanager
    def machine(self, alone: bool) -> Iterator[None]:
        """The machine together with others, or alone."""
        with contextlib.ExitStack() as using:
            # Who waits to be alone holds the gate: nobody else begins.
            with self._locked("gate", fcntl.LOCK_EX):
                mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
                using.enter_context(self._locked("machine", mode))
            yield

    @contextlib.contextmanager
    def _locked(self, name: str, mode: int) -> Iterator[None]:
        # Closing the file lifts the lock, as does the end of the process.
        with open(self._folder / name, "a") as file:
            fcntl.flock(file, mode)
            yield

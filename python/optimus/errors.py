# ===- errors.py - What goes wrong --------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The exceptions of the package. A message has the expectation, the
finding and the remedy.
"""

from typing import Sequence, Tuple


class Error(Exception):
    """All that follow."""


class InvalidArgumentError(Error, ValueError):
    """A value, a shape, strides or a file that a call cannot do anything with; nothing
    has changed."""


class ArgumentTypeError(Error, TypeError):
    """An argument of the wrong type, or an array of the wrong one."""


class DataLossError(Error):
    """A damaged file."""


class UnavailableError(Error, RuntimeError):
    """The machine lacks something, as memory, a device or another rank; or an earlier
    call has failed on its way."""


class UsageError(Error, RuntimeError):
    """A closed session, another thread than the one that made it, or a forked process."""


class InternalError(Error, RuntimeError):
    """A fault of Optimus."""


class CompileError(Error):
    """optimus-compile has made no library.

    `diagnostics` are its messages, each with the lines below it: places, notes,
    remedies. `command` is what ran, and `exit_code` its end: 1 where the program or a
    flag is wrong, 2 for a fault of the compiler.
    """

    def __init__(self, diagnostics: Sequence[str], command: Sequence[str], exit_code: int):
        self.diagnostics: Tuple[str, ...] = tuple(diagnostics)
        self.command: Tuple[str, ...] = tuple(command)
        self.exit_code = exit_code
        super().__init__(
            "\n".join(self.diagnostics)
            or "%s ended with exit code %d and said nothing" % (command[0], exit_code)
        )

# ===- small_file.py - Files that a user names ------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Reads files of bounded size. Every refusal is an OSError, its `strerror` the reason."""

import errno
import os
import stat
from typing import BinaryIO, NoReturn

MOST_TOKENIZER = 128 << 20
"""Bytes of a tokenizer.json, as of what a checkpoint takes along."""


def read(path: str, most: int) -> bytes:
    """All of a regular file of at most `most` bytes. Raises OSError."""
    with open_regular(path) as file:
        return rest_of(file, path, most)


def read_or_wait(path: str, most: int) -> bytes:
    """As `read`; a pipe is waited for, as the shell's `<(command)`. Raises OSError."""
    with open(path, "rb") as file:
        return rest_of(file, path, most)


def open_regular(path: str) -> BinaryIO:
    """A regular file, for reading. Raises OSError."""
    # A named pipe without a writer would be waited for.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except ValueError as error:  # a zero byte
        raise OSError(errno.EINVAL, str(error), path) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            _refuse(errno.EISDIR, os.strerror(errno.EISDIR), path)
        _refuse(errno.EINVAL, "it is not a regular file", path)
    return open(descriptor, "rb")


def rest_of(file: BinaryIO, path: str, most: int) -> bytes:
    """The bytes to an open file's end, `most` at most. Raises OSError."""
    content = file.read(most + 1)
    if len(content) > most:
        _refuse(errno.EFBIG, "expected at most %d bytes" % most, path)
    return content


def _refuse(number: int, reason: str, path: str) -> NoReturn:
    raise OSError(number, reason, path)

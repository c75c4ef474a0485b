# ===- zstd.py - Files that zstd has compressed --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Decompresses Zstandard by Debian's libzstd, which dpkg needs and every Debian has;
Python 3.11 has no module for it."""

import ctypes
import functools
from typing import BinaryIO

from optimus.arguments import Mistake

LIBRARY = "libzstd.so.1"
BLOCK = 1 << 17
"""Bytes of the disk that are read at a time."""


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("place", ctypes.c_size_t),
    ]


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        message = "cannot open %s: %s; install Debian's libzstd1"
        raise Mistake(message % (LIBRARY, error)) from None
    library.ZSTD_createDStream.restype = ctypes.c_void_p
    library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    buffer = ctypes.POINTER(_Buffer)
    library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, buffer, buffer]
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_isError.argtypes = [ctypes.c_size_t]
    library.ZSTD_getErrorName.argtypes = [ctypes.c_size_t]
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    return library


class Reader:
    """The bytes of all frames of a file, one after the other."""

    def __init__(self, raw: BinaryIO):
        self._raw = raw
        self._stream = _library().ZSTD_createDStream()
        if not self._stream:
            raise MemoryError
        self._block = b""
        self._used = 0
        self._is_between_frames = True

    def __del__(self) -> None:
        if getattr(self, "_stream", None):
            _library().ZSTD_freeDStream(self._stream)

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end. Raises OSError, and EOFError where
        the last frame is cut off."""
        room = ctypes.create_string_buffer(count)
        output = _Buffer(ctypes.addressof(room), count, 0)
        while not output.place:
            if self._used == len(self._block):
                self._block, self._used = self._raw.read(BLOCK), 0
            block = ctypes.cast(self._block, ctypes.c_void_p)
            source = _Buffer(block, len(self._block), self._used)
            # Without input it still gives what it holds back.
            left = _library().ZSTD_decompressStream(
                self._stream, ctypes.byref(output), ctypes.byref(source)
            )
            if _library().ZSTD_isError(left):
                raise OSError(_library().ZSTD_getErrorName(left).decode())
            has_moved = output.place or source.place != self._used
            self._used = source.place
            if has_moved:
                self._is_between_frames = left == 0
            elif not self._block:
                if not self._is_between_frames:
                    raise EOFError("the last frame of zstd is cut off")
                return b""
        return room.raw[: output.place]

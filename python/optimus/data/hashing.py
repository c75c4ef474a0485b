# ===- hashing.py - XXH64 -------------------------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""XXH64, the runtime's hash (support/include/optimus-support/Hash.h), by the same
library.

Python's own hashes make a third of 300 MB/s of text, or a tenth; this one is as fast
as memory, and is installed where the runtime is.
"""

import ctypes
import functools

import numpy as np

from optimus.arguments import Mistake

LIBRARY = "libxxhash.so.0"


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        message = "cannot open %s: %s; install Debian's libxxhash0"
        raise Mistake(message % (LIBRARY, error)) from None
    library.XXH64.restype = ctypes.c_uint64
    library.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    library.XXH64_createState.restype = ctypes.c_void_p
    library.XXH64_freeState.argtypes = [ctypes.c_void_p]
    library.XXH64_reset.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.XXH64_update.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    library.XXH64_digest.restype = ctypes.c_uint64
    library.XXH64_digest.argtypes = [ctypes.c_void_p]
    return library


def hash64(data: bytes, seed: int = 0) -> int:
    return _library().XXH64(data, len(data), seed)


def to_hex(number: int) -> str:
    """As the runtime writes hashes."""
    return "%016x" % number


class Hash64:
    """Of bytes that come in pieces."""

    def __init__(self) -> None:
        self._state = _library().XXH64_createState()
        if not self._state:
            raise MemoryError
        _library().XXH64_reset(self._state, 0)

    def __del__(self) -> None:
        if getattr(self, "_state", None):
            _library().XXH64_freeState(self._state)

    def update(self, data: np.ndarray) -> None:
        """An array without gaps."""
        _library().XXH64_update(self._state, data.ctypes.data, data.nbytes)

    def digest(self) -> str:
        return to_hex(_library().XXH64_digest(self._state))

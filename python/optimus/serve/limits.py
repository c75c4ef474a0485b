# ===- limits.py - What a client may ask for -------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The bounds of a server, each with a default."""

from typing import NamedTuple


class Limits(NamedTuple):
    body_bytes: int = 4 << 20
    connections: int = 256
    texts: int = 64
    """Of a request: prompts times `n`."""
    numbers: int = 1 << 20
    """Log-probabilities of an answer: 1 + `logprobs` for each token. They are held until
    it ends."""
    queue_tokens: int = 0
    """Of prompts and answers that have not begun; set by the cache's size."""
    header_seconds: float = 10.0
    """From a connection, or a request's first byte, to the end of its header."""
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    """That a client may leave an answer unread."""
    idle_seconds: float = 15.0
    """Between two requests of a connection."""
    grace_seconds: float = 30.0
    """That requests have to end after SIGTERM."""

# ===- ranks.py - Ranks that a benchmark starts by itself ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks that no launcher starts: they meet over TCP."""

import os
import socket
import subprocess
import sys


def free_port():
    """A port that nobody has, and that Linux gives to nobody by itself."""
    for port in range(61440 + os.getpid() % 2048, 65536):
        with socket.socket() as free:
            try:
                free.bind(("", port))
                return port
            except OSError:
                continue
    sys.exit("no port from 61440 to 65535 is free")


def start_ranks(size, command, **options):
    """Starts a command as each of so many ranks of one job; `options` are those
    of subprocess.Popen. Returns the processes, in rank order."""
    job = {
        **os.environ,
        "OPTIMUS_RANKS": str(size),
        "OPTIMUS_RENDEZVOUS": f"127.0.0.1:{free_port()}",
    }
    command = [str(part) for part in command]
    return [
        subprocess.Popen(command, env={**job, "OPTIMUS_RANK": str(rank)}, **options)
        for rank in range(size)
    ]

# ===- connect.py - A worker's way to its scheduler -----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Connects a worker of a cluster with its scheduler: both prove that they know the
study's secret, then the connection is the worker's standard input and output."""

import json
import os
import socket
import sys
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from typing import Any, Dict, Optional


def notice_loss(peer: socket.socket) -> None:
    """Has a host that is gone end the connection within two minutes."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, 60),
        (socket.TCP_KEEPINTVL, 10),
        (socket.TCP_KEEPCNT, 6),
    ):
        peer.setsockopt(socket.IPPROTO_TCP, option, value)


def read(path: str) -> Dict[str, Any]:
    """The file that connected.py writes; - is standard input. Ends the process where it is
    not there."""
    try:
        with open(
            0 if path == "-" else path, encoding="utf-8", closefd=path != "-"
        ) as file:
            return json.load(file)
    except OSError as error:
        sys.exit(
            "optimus-tune: a worker cannot read '%s': %s; its folder must be one that the "
            "scheduler and all workers share" % (path, error.strerror)
        )


def connect(found: Dict[str, Any], serial: int, task: Optional[int]) -> Dict[str, Any]:
    """What the worker says of itself. Ends the process where it cannot connect."""
    address = (found["host"], found["port"])
    try:
        connection = Client(address, "AF_INET", authkey=found["secret"].encode())
    except (OSError, EOFError, AuthenticationError) as error:
        sys.exit(
            "optimus-tune: a worker cannot reach its scheduler at %s:%d: %s"
            % (*address, error)
        )
    with socket.socket(fileno=os.dup(connection.fileno())) as peer:
        notice_loss(peer)
    for descriptor in (0, 1):
        os.dup2(connection.fileno(), descriptor)
    connection.close()
    said: Dict[str, Any] = {
        "serial": serial,
        "task": int(os.environ["SLURM_ARRAY_TASK_ID"]) if task is None else task,
    }
    if "SLURM_JOB_END_TIME" in os.environ:
        # Of this machine's clock alone: the scheduler's may be another.
        said["seconds_left"] = int(os.environ["SLURM_JOB_END_TIME"]) - time.time()
    elif found["wall_seconds"] is not None:
        said["seconds_left"] = found["wall_seconds"]
    return said

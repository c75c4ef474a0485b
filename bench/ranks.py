# ===- ranks.py - Ranks that a benchmark starts by itself ------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Ranks started by a benchmark without a launcher, which meet over TCP; a launcher of
them; and ranks with a record of their end:

    ranks.py --start-ranks SIZE COMMAND...
    ranks.py --rank-in FOLDER COMMAND...
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time


def free_port():
    """A free port that Linux gives to nobody by itself."""
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


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def be_rank(folder, command):
    """Runs a rank and writes down its process and what became of it: mpirun
    tells only of the first that ended."""
    group = os.getpgid(0)
    # mpirun's signals go to the whole group, which the rank stays in. Who
    # writes is in none of mpirun's: it outlives SIGKILL.
    recorder = os.fork()
    if recorder == 0:
        os.setpgid(0, 0)
        record(folder, command, group)
    signal.signal(signal.SIGTERM, lambda *_: None)
    _, status = os.waitpid(recorder, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


def record(folder, command, group):
    rank = os.environ.get("OPTIMUS_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]
    child = subprocess.Popen(command, process_group=group)
    (folder / f"pid.{rank}").write_text(str(child.pid))
    code = child.wait()
    (folder / f"status.{rank}").write_text(str(code))
    sys.exit(code if code >= 0 else 128 - code)


def children(process):
    path = pathlib.Path(f"/proc/{process}/task/{process}/children")
    return path.read_text().split()


def is_stopped(wrapper):
    """Whether the rank that this process runs by be_rank() is stopped."""
    try:
        ranks = [rank for recorder in children(wrapper) for rank in children(recorder)]
        stats = [pathlib.Path(f"/proc/{rank}/stat").read_text() for rank in ranks]
        return any(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
    except OSError:
        # It ended while it was looked at.
        return False


def be_launcher(size, command):
    """Starts ranks that meet over TCP. It kills stopped ranks when all others have
    ended, or all ranks after too long a time, and ends with the worst of their
    codes."""
    ranks = start_ranks(size, command, start_new_session=True)
    left = lambda: [rank for rank in ranks if rank.poll() is None]
    wait_for(lambda: any(rank.poll() for rank in ranks) or not left(), float("inf"))
    # However late a rank is that ends by itself, it is given the time to.
    wait_for(lambda: all(is_stopped(rank.pid) for rank in left()), 60)
    for rank in left():
        os.killpg(rank.pid, signal.SIGKILL)
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    if sys.argv[1] == "--rank-in":
        be_rank(pathlib.Path(sys.argv[2]), sys.argv[3:])
    if sys.argv[1] == "--start-ranks":
        be_launcher(int(sys.argv[2]), sys.argv[3:])

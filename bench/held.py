# ===- held.py - What the processes of a run hold --------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Looks at the memory of processes while they run."""

import pathlib
import subprocess
import tempfile
import time

from harness import fail


def anonymous_bytes(pid):
    """What a process has in pages of no file; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            lines = dict(line.split(":", 1) for line in status)
    except OSError:
        return 0
    return 1024 * int(lines.get("RssAnon", "0 kB").split()[0])


def processes_of(parent, name):
    """A process and its descendants, where they run a program; all without one."""
    children = {}
    names = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            head, rest = (folder / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        names[int(folder.name)] = head.split("(", 1)[1]
        children.setdefault(int(rest.split()[1]), []).append(int(folder.name))
    found, waiting = [], [parent]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        if name in (None, names.get(pid)):
            found.append(pid)
    return found


def most_held(command, program="optimus-run"):
    """The standard output of a run, and the most that one of its processes of a
    program held; of all its processes without a program."""
    most = 0
    with tempfile.TemporaryFile("w+") as output:
        command = [str(part) for part in command]
        with subprocess.Popen(command, stdout=output, text=True) as running:
            while running.poll() is None:
                for pid in processes_of(running.pid, program):
                    most = max(most, anonymous_bytes(pid))
                time.sleep(0.02)
        if running.returncode != 0:
            fail(f"exit code {running.returncode} from: {' '.join(command)}")
        output.seek(0)
        return output.read(), most

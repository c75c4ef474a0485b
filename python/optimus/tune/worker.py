# ===- worker.py - Runs what it is given -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.tune.worker` says what it has, then runs one job after the other.
It talks JSON lines: jobs on standard input, what came of them on standard output.

    ← {"hello": {class}}
    → {"job": 7, "folder": DIR, "commands": [{"name", "argv", "log", "makes"}, …]}
    ← {"job": 7, "phase": "train", "code": 0, "seconds": {…}, "made": ["compile"],
       "max_rss": BYTES, "said": …, "disk": whether there is no room left}

Every BEAT seconds it says {"beat": true}, idle or not.

Where no folder is shared a job has files (files.py), which come before its first command;
what it wrote goes before its result.

A command with `makes` is left out where that file is there, and one worker at a time
makes it. A message {"stop": true} ends a job, with the code of a program that SIGTERM
ended. Where standard input ends, the scheduler is gone: what runs is asked to save,
then killed. Where the worker is killed, the kernel asks what it ran to save.
"""

import argparse
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional

from optimus.tune import connect, files, machine

BEAT = 15.0
"""Seconds between two signs of life; the scheduler waits for several (run.py)."""
GRACE = 10.0
"""Seconds for a last checkpoint."""
SAID = 2000
"""Bytes of an error that are handed on."""
PROBE = 1 << 16
"""Bytes without room for which a disk is full."""
FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "; make room")
"""What programs say then."""
STOPPED = 128 + signal.SIGTERM
"""The code of a job that was stopped before its program began."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def _end_with_worker() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def kills_for_memory() -> Optional[int]:
    """How often the kernel killed a process of this machine for memory, so far."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next(
                int(line.split()[1]) for line in file if line.startswith("oom_kill ")
            )
    except (OSError, ValueError, StopIteration):
        return None


def _is_full(folder: str) -> bool:
    """Whether a file system has no room for another file."""
    path = os.path.join(folder, "room-%d" % os.getpid())
    try:
        with open(path, "wb") as file:
            file.write(bytes(PROBE))
    except OSError as error:
        return os.strerror(error.errno) in FULL
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return False


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


class Gone(Exception):
    """The scheduler is."""


class Worker:
    def __init__(self, mirror: Optional[files.Mirror] = None) -> None:
        """`mirror` has the files of jobs, where they are sent."""
        self._input, self._mirror = b"", mirror
        self._next_beat = time.monotonic() + BEAT
        self._is_stopped = False

    def run(self, its_class: machine.Class, **more: Any) -> None:
        """Until standard input ends. What is said in the greeting beside its class."""
        # Nobody may read any more what is said.
        with contextlib.suppress(Gone, BrokenPipeError):
            self._say({"hello": its_class._asdict(), **more})
            while (line := self._line()) is not None:
                message = json.loads(line)
                # One to stop may come when its job is over.
                if "job" in message:
                    self._is_stopped = False
                    self._say(self._with_files(message))

    def _line(self) -> Optional[bytes]:
        while b"\n" not in self._input:
            self._hears([])
            piece = os.read(0, 1 << 16)
            if not piece:
                return None
            self._input += piece
        line, _, self._input = self._input.partition(b"\n")
        return line

    def _hears(self, others: List[int], seconds: Optional[float] = None) -> List[int]:
        """Which of standard input, 0, and other descriptors have something, within some
        time. What was read along with an earlier line counts."""
        if b"\n" in self._input:
            return [0]
        while True:
            found = select.select(
                [0, *others], [], [], BEAT if seconds is None else seconds
            )[0]
            self._beat()
            if found or seconds is not None:
                return found

    def _beat(self) -> None:
        """Raises Gone."""
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + BEAT
        try:
            self._say({"beat": True})
        except BrokenPipeError:
            raise Gone() from None

    def _take_stop(self) -> None:
        """The one thing that the scheduler says while a job is under way. Raises Gone
        where it says nothing any more."""
        line = self._line()
        if line is None:
            raise Gone()
        if "stop" not in json.loads(line):
            raise RuntimeError("a job came while another was under way")

    @staticmethod
    def _say(message: Dict[str, Any]) -> None:
        _write((json.dumps(message) + "\n").encode())

    # Files that are sent.

    def _with_files(self, job: Dict[str, Any]) -> Dict[str, Any]:
        """The result of a job. Its files come, and go back, by their hashes."""
        if "files" not in job:
            return self._job(job)
        found = {"job": job["job"], "phase": "files", "seconds": {}, "max_rss": 0}
        begin = time.monotonic()
        try:
            is_there = self._mirror.prepare(job, self._fetch, self._has)
        except (OSError, files.Missing) as error:
            return {**found, "code": 2, "said": str(error), "disk": _is_full(os.curdir)}
        if self._is_stopped or not is_there:
            return {**found, "code": STOPPED, "said": "", "disk": False}
        found = self._job(job)
        self._give_back(self._mirror.kept(job))
        found["seconds"]["files"] = time.monotonic() - begin - sum(found["seconds"].values())
        return found

    def _answer(self) -> Dict[str, Any]:
        """To what was asked. A word to stop may come before."""
        while True:
            line = self._line()
            if line is None:
                raise Gone()
            message = json.loads(line)
            if "stop" not in message:
                return message
            self._is_stopped = True

    def _fetch(self, digest: str, file: Any) -> None:
        """What cannot be written is read all the same: more follows on the connection."""
        self._say({"fetch": digest})
        found, failure = hashlib.sha256(), None
        while count := self._answer()["piece"]:
            for piece in self._bytes(count):
                found.update(piece)
                try:
                    if failure is None:
                        file.write(piece)
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure
        if found.hexdigest() != digest:
            raise files.Missing("a file of the job changed, or is gone: %s" % digest)

    def _bytes(self, count: int) -> Iterator[bytes]:
        while count:
            if not self._input:
                self._hears([])
                self._input = os.read(0, files.PIECE)
                if not self._input:
                    raise Gone()
            piece, self._input = self._input[:count], self._input[count:]
            count -= len(piece)
            yield piece

    def _give_back(self, kept: files.Manifest) -> None:
        self._say({"kept": kept})
        for path in self._answer()["want"]:
            self._say({"file": path})
            with open(os.path.join(self._mirror.root, path), "rb") as file:
                while piece := file.read(files.PIECE):
                    _write(piece)

    def _job(self, job: Dict[str, Any]) -> Dict[str, Any]:
        result: Dict[str, Any] = {
            "job": job["job"],
            "seconds": {},
            "made": [],
            "max_rss": 0,
            "said": "",
        }
        for command in job["commands"]:
            begin = time.monotonic()
            result["phase"] = command["name"]
            try:
                os.makedirs(job["folder"], exist_ok=True)
                code = self._command(command, job, result)
            except OSError as error:
                code = 2
                result["said"] = "cannot write %s: %s" % (error.filename, error.strerror)
            result["code"] = code
            result["seconds"][command["name"]] = time.monotonic() - begin
            if code != 0:
                break
        result["disk"] = any(each in result["said"] for each in FULL) or _is_full(
            job["folder"]
        )
        return result

    def _command(self, command, job, result) -> int:
        makes = command.get("makes")
        if not makes:
            return self._program(command, job, result)
        with open(makes + ".lock", "w") as lock:
            if not self._has(lock):
                return STOPPED
            if os.path.exists(makes):
                return 0
            code = self._program(command, job, result)
            result["made"] += [command["name"]] if code == 0 else []
            return code

    def _has(self, lock) -> bool:
        """Once another worker that makes the same has ended; False where this job is
        stopped before."""
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if self._hears([], 0.05):
                    self._take_stop()
                    return False

    def _program(self, command, job, result) -> int:
        before = kills_for_memory()
        try:
            with open(command["log"], "wb") as log:
                process = subprocess.Popen(
                    command["argv"],
                    cwd=job["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_end_with_worker,
                    # The lock on the study, held until the last process ends.
                    pass_fds=job.get("pass_fds", []),
                )
        except OSError as error:
            result["said"] = "cannot start %s: %s" % (command["argv"][0], error.strerror)
            return 2
        self._wait(process)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        result["oom"] = kills_for_memory() != before
        if command["name"] == "train":
            result["max_rss"] = usage.ru_maxrss << 10
        if process.returncode != 0:
            with open(command["log"], "rb") as log:
                result["said"] = log.read()[-SAID:].decode("utf-8", "replace")
        return process.returncode

    def _wait(self, process: subprocess.Popen) -> None:
        """Until it ends, or nobody wants to know."""
        descriptor = os.pidfd_open(process.pid)
        try:
            try:
                if descriptor in self._hears([descriptor]):
                    return
                self._take_stop()
            except Gone:
                self._end(process, descriptor)
                os.wait4(process.pid, 0)
                raise
            self._end(process, descriptor)
        finally:
            os.close(descriptor)

    @staticmethod
    def _end(process: subprocess.Popen, descriptor: int) -> None:
        """It may save before."""
        process.terminate()
        if not select.select([descriptor], [], [], GRACE)[0]:
            process.kill()


def main(given: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="optimus.tune.worker")
    parser.add_argument(
        "--share", type=int, default=1, help="workers on these cores and memory"
    )
    parser.add_argument("--cores", help="pins this worker to these cores, as 0,1")
    parser.add_argument(
        "--connect",
        metavar="FILE",
        help="the scheduler's address and secret; - is standard input",
    )
    parser.add_argument("--serial", type=int, default=0, help="of the submission")
    parser.add_argument("--task", type=int, help="its place; default: as Slurm says")
    options = parser.parse_args(given)
    # A stop asked for at a terminal is the scheduler's to hand on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if options.cores:
        os.sched_setaffinity(0, {int(each) for each in options.cores.split(",")})
    more, mirror = {}, None
    if options.connect:
        found = connect.read(options.connect)
        more = connect.connect(found, options.serial, options.task)
        if found["files"]:
            mirror = files.Mirror(found["files"])
            os.chdir(mirror.folder)
    its_class = machine.describe(options.share, is_pinned=bool(options.cores))
    try:
        Worker(mirror).run(its_class, **more)
    finally:
        if mirror:
            mirror.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

# ===- output.py - One output of a program ----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes a file under a name that the user gave, by the rules of the other tools
(support/include/optimus-support/OutputFile.h):

    nothing, or a regular file  a hidden temporary file beside it takes its place,
                                whole; after a failure the old file is as it was
    a device or a named pipe    is written to
    a folder, a disk, a socket  is refused

Symbolic links are followed. "-" and other names of standard output or standard
error mean the stream.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
import traceback
from typing import Iterator, Optional, Tuple

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
# File systems have names of at most 255 bytes; what is put around one takes up
# to 65.
MOST_OF_A_NAME = 190


class OutputError(Exception):
    """What cannot be written, and why, in one sentence."""

    def __init__(self, path: str, why: object):
        name = "to standard output" if path == "-" else "'%s'" % path
        reason = why.strerror if isinstance(why, OSError) else why
        super().__init__("cannot write %s: %s" % (name, reason))


def write(path: str, text: str) -> None:
    """Writes all of an output or leaves it as it was. Raises OutputError."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, data: bytes) -> None:
    """As `write`."""
    try:
        stream = _stream_of(path)
        if stream is not None:
            return _write_all(stream, data)
        if _is_special(path):
            return _write_special(path, data)
        _replace(_follow_links(path), data)
    except OSError as error:
        raise OutputError(path, error) from None


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """The name of a file for others to write, which takes the place of the output at
    the end; after a failure the old file is as it was. Raises OutputError."""
    try:
        if _stream_of(path) is not None or _is_special(path):
            raise OutputError(path, "expected a regular file")
        with _replacement(_follow_links(path)) as (_, temporary):
            yield temporary
    except OSError as error:
        raise OutputError(path, error) from None


def say(message: str) -> None:
    """A line on standard error, if there is one."""
    with contextlib.suppress(OSError):
        _write_all(STANDARD_ERROR, (message + "\n").encode("utf-8", "replace"))


def fail(program: str, message: str) -> int:
    """Reports a mistake in the user's input; returns the exit code."""
    say("%s: error: %s" % (program, message))
    return 1


def fail_with(program: str, error: OSError) -> int:
    """Reports what the system refused, and the file; returns the exit code."""
    where = ": '%s'" % error.filename if error.filename else ""
    return fail(program, "%s%s" % (error.strerror, where))


def fault(program: str) -> int:
    """Says, within an `except`, that the program is wrong; returns the exit code."""
    say(traceback.format_exc().rstrip())
    fail(program, "this is a fault of ours; please report it")
    return 2


def open_missing_streams() -> None:
    """First thing in a program: a standard stream closed by the caller stays closed for
    its users, and no file opened later gets its number."""
    for stream in (0, STANDARD_OUTPUT, STANDARD_ERROR):
        try:
            os.fstat(stream)
        except OSError:
            # The wrong way round; the lowest free number is this one.
            os.open(os.devnull, os.O_WRONLY if stream == 0 else os.O_RDONLY)


def _stream_of(path: str) -> Optional[int]:
    """The standard stream that a name means, if any."""
    if path == "-":
        return STANDARD_OUTPUT
    if not path:
        raise OutputError(path, "expected the name of a file")
    for stream in (STANDARD_OUTPUT, STANDARD_ERROR):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samestat(os.stat(path), os.fstat(stream)):
                return stream
    return None


def _is_special(path: str) -> bool:
    """Whether it must be written to, not replaced."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a zero byte
        raise OutputError(path, error) from None
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise OutputError(path, "it is a folder")
    if stat.S_ISBLK(mode):
        raise OutputError(path, "it is a disk")
    if stat.S_ISSOCK(mode):
        raise OutputError(path, "it is a socket")
    if not os.access(path, os.W_OK):
        raise OutputError(path, "Permission denied")
    return not stat.S_ISREG(mode)


def _write_special(path: str, data: bytes) -> None:
    # Opening a pipe that nobody reads would wait for ever.
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OutputError(path, "nobody reads from it") from None
    try:
        os.set_blocking(descriptor, True)
        _write_all(descriptor, data)
    finally:
        os.close(descriptor)


def _follow_links(path: str) -> str:
    if os.path.basename(path) in ("", ".", ".."):
        raise OutputError(path, "it is a folder")
    target = os.path.realpath(path)
    if os.path.islink(target):
        raise OutputError(path, "it is a symbolic link that leads nowhere")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise OutputError(path, "there is no folder '%s'" % folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        why = "no file can be made in the folder '%s': Permission denied"
        raise OutputError(path, why % folder)
    return target


def _replace(target: str, data: bytes) -> None:
    with _replacement(target) as (descriptor, _):
        _write_all(descriptor, data)


@contextlib.contextmanager
def _replacement(target: str) -> Iterator[Tuple[int, str]]:
    """An empty file, open and by its name, which takes the target's place in the end."""
    folder, name = os.path.split(target)
    prefix = ".%s.optimus-tmp-" % os.fsdecode(os.fsencode(name)[:MOST_OF_A_NAME])
    _remove_stale(folder, prefix)
    temporary = os.path.join(
        folder, "%s%d-%d" % (prefix, os.getpid(), time.time_ns())
    )
    with _removed_at_the_end(temporary):
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666
        )
        try:
            # Says that its writer is alive.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _take_after(target, descriptor)
            yield descriptor, temporary
            os.fsync(descriptor)
            os.replace(temporary, target)
        finally:
            os.close(descriptor)


def _take_after(target: str, descriptor: int) -> None:
    """Keeps the file's owner and permissions, as far as allowed."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    with contextlib.suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)


def _remove_stale(folder: str, prefix: str) -> None:
    """Removes what killed writers of the same file left."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if not entry.name.startswith(prefix):
                continue
            if not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError), open(entry.path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(entry.path)


@contextlib.contextmanager
def _removed_at_the_end(path: str) -> Iterator[None]:
    """Removes the file in the end, and before a signal ends the process."""

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_and_pass_on(number, _frame) -> None:
        remove()
        signal.signal(number, before[number])
        os.kill(os.getpid(), number)

    before = {}
    # Elsewhere handlers cannot be set, and do not run.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            # None: set by something else than Python.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, remove_and_pass_on)
    try:
        yield
    finally:
        remove()
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


@contextlib.contextmanager
def new_folder(target: str) -> Iterator[str]:
    """The path of a folder to fill, which becomes `target` once all is well, and
    vanishes otherwise. Raises OSError."""
    parent, name = os.path.split(os.path.abspath(target))
    hidden = tempfile.mkdtemp(prefix=".%s.optimus-tmp-" % name, dir=parent)
    # The hidden folder is its owner's alone; this one is as any other.
    new = os.path.join(hidden, name)
    try:
        os.mkdir(new)
        yield new
        os.rename(new, target)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)

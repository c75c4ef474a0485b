# ===- arguments.py - Command lines of our programs ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Parsers of command lines, of which each mistake is one line."""

import argparse
import re
import signal
import sys
from typing import Callable, NoReturn, Optional, Type

from optimus import output


class Mistake(Exception):
    """Arguments that are wrong; the message says how."""


class Parser(argparse.ArgumentParser):
    """Raises a mistake instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        raise Mistake("%s (see --help)" % message)

    def _print_message(self, message: str, file=None) -> None:
        # Help and version; argparse would ignore that they cannot be written.
        output.write("-", message)


def whole_number(text: str) -> int:
    # int() takes 1_000 and other scripts' digits too.
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        raise argparse.ArgumentTypeError("expected a whole number, found '%s'" % text)
    return int(text)


def whole_number_from(least: int, most: Optional[int] = None) -> Callable[[str], int]:
    """A type of arguments: whole numbers from `least` on, to `most` where there is one."""
    bounds = "from %d on" % least if most is None else "from %d to %d" % (least, most)

    def parse(text: str) -> int:
        number = whole_number(text)
        if number < least or (most is not None and number > most):
            message = "expected a number %s, found '%s'"
            raise argparse.ArgumentTypeError(message % (bounds, text))
        return number

    return parse


def real_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("expected a number, found '%s'" % text) from None


def outcome(
    program: str, act: Callable[[], Optional[int]], *mistakes: Type[Exception]
) -> int:
    """The exit code of a program around `act`: act's own or 0; 1 after a message where the
    user's input, one of `mistakes` or the system is the reason; 2 after a traceback."""
    output.open_missing_streams()
    try:
        return act() or 0
    except (Mistake, output.OutputError, *mistakes) as error:
        return output.fail(program, str(error))
    except OSError as error:
        return output.fail_with(program, error)
    except Exception:
        return output.fault(program)


def run(main: Callable[[], int]) -> NoReturn:
    """Runs a program. An interrupt is the end, and no traceback; a caller that
    ignores the signal is heeded."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())

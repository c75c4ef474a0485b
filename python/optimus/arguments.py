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
from typing import Callable, NoReturn

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


def run(main: Callable[[], int]) -> NoReturn:
    """Runs a program. An interrupt is the end, and no traceback; a caller that
    ignores the signal is heeded."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())

# ===- __main__.py - The model builders' command line ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.models MODEL …` writes a model's program.

Exit codes: 0 done, 1 the arguments or the output path are wrong.
"""

import argparse
import os
import sys
import tempfile
from typing import List, NoReturn, Optional

from optimus.models import ConfigError, gpt2

PROGRAM = "optimus.models"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # argparse would print the usage and exit with 2, which means a fault
        # of ours.
        self.exit(1, "%s: error: %s (see --help)\n" % (PROGRAM, message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python3 -m optimus.models",
        description="Write a model's program for optimus-compile.",
    )
    models = parser.add_subparsers(dest="model", metavar="MODEL", required=True)
    gpt = models.add_parser(gpt2.KIND, help="GPT-2", description=gpt2.__doc__)
    for flag, meaning in [
        ("--layers", "transformer layers"),
        ("--hidden", "width of the residual stream"),
        ("--heads", "attention heads; must divide --hidden"),
        ("--seq", "tokens in a sequence"),
        ("--vocab", "size of the vocabulary"),
        ("--batch", "sequences in the global batch"),
    ]:
        gpt.add_argument(flag, type=int, required=True, metavar="N", help=meaning)
    gpt.add_argument(
        "--ffn",
        type=int,
        metavar="N",
        help="width of the feed-forward part (default: 4 * hidden)",
    )
    gpt.add_argument(
        "--chunk",
        type=int,
        default=512,
        metavar="N",
        help="tokens whose logits exist at one time (default: %(default)s)",
    )
    gpt.add_argument(
        "--init-std",
        type=float,
        default=0.02,
        metavar="X",
        help="standard deviation of the initial weights (default: %(default)s)",
    )
    gpt.add_argument(
        "--dropout",
        type=float,
        default=0.0,
        metavar="P",
        help="probability with which training drops an element of the embeddings "
        "and of each layer's two contributions (default: %(default)s)",
    )
    gpt.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="where to write; - is standard output, the default",
    )
    return parser


def _write(path: str, text: str) -> None:
    """Writes all of a file or leaves it as it was. Raises OSError."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        # A device or a pipe must be written, not replaced.
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return
    descriptor, temporary = tempfile.mkstemp(
        prefix=os.path.basename(path) + ".", dir=os.path.dirname(path)
    )
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            # mkstemp makes a private file; give it what open() would have.
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(descriptor, 0o666 & ~mask)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        model = gpt2.build(
            gpt2.Config(
                layers=options.layers,
                hidden=options.hidden,
                heads=options.heads,
                sequence=options.seq,
                vocabulary=options.vocab,
                batch=options.batch,
                ffn=options.ffn,
                chunk=options.chunk,
                init_std=options.init_std,
                dropout=options.dropout,
            )
        )
        _write(options.output, model.text())
    except ConfigError as error:
        print("%s: error: %s" % (PROGRAM, error), file=sys.stderr)
        return 1
    except OSError as error:
        print(
            "%s: error: cannot write '%s': %s"
            % (PROGRAM, options.output, error.strerror),
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

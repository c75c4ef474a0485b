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
from typing import Any, Dict, List, NoReturn, Optional

from optimus.ir import LossFunction
from optimus.models import ConfigError, bert, gpt2, llama

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
    gpt.set_defaults(build=_build_gpt2)
    _add_shape(gpt)
    _add_ffn_and_dropout(gpt)

    masked = models.add_parser(bert.KIND, help="BERT", description=bert.__doc__)
    masked.set_defaults(build=_build_bert)
    _add_shape(masked)
    _add_ffn_and_dropout(masked)
    masked.add_argument(
        "--mask-token",
        type=int,
        metavar="N",
        help="what stands for a hidden token (default: the vocabulary's last)",
    )
    masked.add_argument(
        "--pad-token",
        type=int,
        default=0,
        metavar="N",
        help="what fills the end of a shorter sequence (default: %(default)s)",
    )

    model = models.add_parser(llama.KIND, help="Llama", description=llama.__doc__)
    model.set_defaults(build=_build_llama)
    _add_shape(model)
    model.add_argument(
        "--kv-heads",
        type=int,
        metavar="N",
        help="heads of keys and values; must divide --heads (default: --heads)",
    )
    model.add_argument(
        "--ffn",
        type=int,
        required=True,
        metavar="N",
        help="width of the feed-forward part",
    )
    model.add_argument(
        "--rope-theta",
        type=float,
        default=10000.0,
        metavar="X",
        help="base of the position embedding's angles (default: %(default)s)",
    )
    model.add_argument(
        "--norm-eps",
        type=float,
        default=1e-6,
        metavar="X",
        help="epsilon of the norms (default: %(default)s)",
    )
    head = model.add_mutually_exclusive_group()
    head.add_argument(
        "--untied",
        dest="tied",
        action="store_false",
        default=False,
        help="an output head of its own, the default",
    )
    head.add_argument(
        "--tied", action="store_true", help="the token embedding is the output head"
    )
    return parser


def _add_ffn_and_dropout(model: argparse.ArgumentParser) -> None:
    model.add_argument(
        "--ffn",
        type=int,
        metavar="N",
        help="width of the feed-forward part (default: 4 * hidden)",
    )
    model.add_argument(
        "--dropout",
        type=float,
        default=0.0,
        metavar="P",
        help="probability with which training drops an element of the embeddings "
        "and of each layer's two contributions (default: %(default)s)",
    )


def _add_shape(model: argparse.ArgumentParser) -> None:
    """What every model has."""
    for flag, meaning in [
        ("--layers", "transformer layers"),
        ("--hidden", "width of the residual stream"),
        ("--heads", "attention heads; must divide --hidden"),
        ("--seq", "tokens in a sequence"),
        ("--vocab", "size of the vocabulary"),
        ("--batch", "sequences in the global batch"),
    ]:
        model.add_argument(flag, type=int, required=True, metavar="N", help=meaning)
    model.add_argument(
        "--chunk",
        type=int,
        default=512,
        metavar="N",
        help="tokens whose logits exist at one time (default: %(default)s)",
    )
    model.add_argument(
        "--init-std",
        type=float,
        default=0.02,
        metavar="X",
        help="standard deviation of the initial weights (default: %(default)s)",
    )
    model.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="where to write; - is standard output, the default",
    )


def _common(options: argparse.Namespace) -> Dict[str, Any]:
    """The members of every model's Config."""
    return dict(
        layers=options.layers,
        hidden=options.hidden,
        heads=options.heads,
        sequence=options.seq,
        vocabulary=options.vocab,
        batch=options.batch,
        ffn=options.ffn,
        chunk=options.chunk,
        init_std=options.init_std,
    )


def _build_gpt2(options: argparse.Namespace) -> LossFunction:
    return gpt2.build(gpt2.Config(**_common(options), dropout=options.dropout))


def _build_bert(options: argparse.Namespace) -> LossFunction:
    return bert.build(
        bert.Config(
            **_common(options),
            dropout=options.dropout,
            mask_token=options.mask_token,
            pad_token=options.pad_token,
        )
    )


def _build_llama(options: argparse.Namespace) -> LossFunction:
    kv_heads = options.heads if options.kv_heads is None else options.kv_heads
    return llama.build(
        llama.Config(
            **_common(options),
            kv_heads=kv_heads,
            rope_theta=options.rope_theta,
            epsilon=options.norm_eps,
            tied=options.tied,
        )
    )


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
        model = options.build(options)
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

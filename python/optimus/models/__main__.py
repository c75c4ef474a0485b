# ===- __main__.py - The model builders' command line ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.models MODEL …` writes a model's program.

Exit codes: 0 done, 1 the arguments or the output are wrong, 2 a fault of ours.
"""

import argparse
import difflib
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from optimus import __version__, arguments, output
from optimus.arguments import Mistake, whole_number
from optimus.ir import LossFunction
from optimus.models import ConfigError, bert, gpt2, llama, phi, gated_encoder

PROGRAM = "optimus.models"

FLAGS = {
    "sequence": "--seq",
    "vocabulary": "--vocab",
    "epsilon": "--norm-eps",
}
"""Flags with another name than their member of a Config."""


class _Parser(arguments.Parser):
    """The options of a model, some of which must be given."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.needed: List[argparse.Action] = []

    def need(self, flag: str, **settings) -> None:
        """An option that must be given. It is checked after unknown options, since one
        of these may be a misspelt one."""
        self.needed.append(self.add_argument(flag, **settings))


def _suggestion(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return "; did you mean '%s'?" % near[0] if near else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = "expected a number, found '%s'" % text
        raise argparse.ArgumentTypeError(message) from None


def _parse(given: List[str]) -> argparse.Namespace:
    """Raises Mistake."""
    parser, models = _parsers()
    # The program's own options have no values, so this is the model.
    model = next((each for each in given if not each.startswith("-")), None)
    if model is not None and model not in models:
        message = "there is no model '%s'; there are %s" % (model, ", ".join(models))
        parser.error(message + _suggestion(model, models))
    options, unknown = parser.parse_known_args(given)
    chosen = models.get(options.model, parser)
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            parser.error("expected options after the model, found '%s'" % flag)
        known = chosen._option_string_actions
        parser.error("there is no option %s" % flag + _suggestion(flag, known))
    if options.model is None:
        parser.error("expected a model, one of " + ", ".join(models))
    missing = [
        option.option_strings[0]
        for option in chosen.needed
        if getattr(options, option.dest) is None
    ]
    if missing:
        parser.error("%s needs %s" % (options.model, ", ".join(missing)))
    return options


def _parsers():
    """The parser of everything, and each model's."""
    parser = _Parser(
        prog="python3 -m optimus.models",
        description="Write a model's program for optimus-compile.",
    )
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    models = parser.add_subparsers(dest="model", metavar="MODEL")
    gpt = models.add_parser(gpt2.KIND, help="GPT-2", description=gpt2.__doc__)
    gpt.set_defaults(build=_build_gpt2)
    _add_shape(gpt)
    _add_ffn_and_dropout(gpt)

    masked = models.add_parser(bert.KIND, help="BERT", description=bert.__doc__)
    masked.set_defaults(build=_build_bert)
    _add_shape(masked)
    _add_ffn_and_dropout(masked)
    _add_masking(masked)

    model = models.add_parser(llama.KIND, help="Llama", description=llama.__doc__)
    model.set_defaults(build=_build_llama)
    _add_shape(model)
    model.add_argument(
        "--kv-heads",
        type=whole_number,
        metavar="N",
        help="heads of keys and values; must divide --heads (default: --heads)",
    )
    model.need(
        "--ffn",
        type=whole_number,
        metavar="N",
        help="width of the feed-forward part",
    )
    _add_rope_theta(model)
    model.add_argument(
        "--norm-eps",
        type=_number,
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

    parallel = models.add_parser(phi.KIND, help="Phi", description=phi.__doc__)
    parallel.set_defaults(build=_build_phi)
    _add_shape(parallel)
    _add_ffn(parallel)
    parallel.add_argument(
        "--rotary-dim",
        type=whole_number,
        metavar="N",
        help="channels of a head that are rotated (default: half of them)",
    )
    _add_rope_theta(parallel)
    parallel.add_argument(
        "--norms",
        type=whole_number,
        default=1,
        metavar="N",
        help="norms of a layer: 1 for attention and feed-forward part together, or 2 "
        "(default: %(default)s)",
    )

    gated = models.add_parser(
        gated_encoder.KIND, help="an encoder with T5's layers", description=gated_encoder.__doc__
    )
    gated.set_defaults(build=_build_gated_encoder)
    _add_shape(gated, heads="attention heads")
    gated.add_argument(
        "--head-dim",
        type=whole_number,
        metavar="N",
        help="channels of a head (default: hidden / heads)",
    )
    gated.need(
        "--ffn",
        type=whole_number,
        metavar="N",
        help="width of the feed-forward part",
    )
    _add_masking(gated)
    return parser, {
        gpt2.KIND: gpt,
        bert.KIND: masked,
        llama.KIND: model,
        phi.KIND: parallel,
        gated_encoder.KIND: gated,
    }


def _add_rope_theta(model: _Parser) -> None:
    model.add_argument(
        "--rope-theta",
        type=_number,
        default=10000.0,
        metavar="X",
        help="base of the position embedding's angles (default: %(default)s)",
    )


def _add_masking(model: _Parser) -> None:
    """What every model of masked tokens has."""
    model.add_argument(
        "--mask-token",
        type=whole_number,
        metavar="N",
        help="what stands for a hidden token (default: the vocabulary's last)",
    )
    model.add_argument(
        "--pad-token",
        type=whole_number,
        default=0,
        metavar="N",
        help="what fills the end of a shorter sequence (default: %(default)s)",
    )


def _add_ffn(model: _Parser) -> None:
    model.add_argument(
        "--ffn",
        type=whole_number,
        metavar="N",
        help="width of the feed-forward part (default: 4 * hidden)",
    )


def _add_ffn_and_dropout(model: _Parser) -> None:
    _add_ffn(model)
    model.add_argument(
        "--dropout",
        type=_number,
        default=0.0,
        metavar="P",
        help="probability with which training drops an element of the embeddings "
        "and of each layer's two contributions (default: %(default)s)",
    )


def _add_shape(
    model: _Parser, heads: str = "attention heads; must divide --hidden"
) -> None:
    """What every model has."""
    for flag, meaning in [
        ("--layers", "transformer layers"),
        ("--hidden", "width of the residual stream"),
        ("--heads", heads),
        ("--seq", "tokens in a sequence"),
        ("--vocab", "size of the vocabulary"),
        ("--batch", "sequences in the global batch"),
    ]:
        model.need(flag, type=whole_number, metavar="N", help=meaning)
    model.add_argument(
        "--chunk",
        type=whole_number,
        default=512,
        metavar="N",
        help="tokens whose logits exist at one time (default: %(default)s)",
    )
    model.add_argument(
        "--init-std",
        type=_number,
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


def _build_phi(options: argparse.Namespace) -> LossFunction:
    return phi.build(
        phi.Config(
            **_common(options),
            rotary_dim=options.rotary_dim,
            rope_theta=options.rope_theta,
            norms=options.norms,
        )
    )


def _build_gated_encoder(options: argparse.Namespace) -> LossFunction:
    return gated_encoder.build(
        gated_encoder.Config(
            **_common(options),
            head_dim=options.head_dim,
            mask_token=options.mask_token,
            pad_token=options.pad_token,
        )
    )


def program(given: List[str]) -> Tuple[str, str]:
    """What a command line asks for: where to write, and the text. Raises Mistake."""
    options = _parse(given)
    try:
        return options.output, options.build(options).text()
    except ConfigError as error:
        raise Mistake(error.naming(_flag)) from None


def main(given: Optional[List[str]] = None) -> int:
    output.open_missing_streams()
    try:
        output.write(*program(sys.argv[1:] if given is None else given))
    except (Mistake, output.OutputError) as error:
        return output.fail(PROGRAM, str(error))
    except Exception:
        return output.fault(PROGRAM)
    return 0


def _flag(member: str) -> str:
    """What sets a member of a Config."""
    return FLAGS.get(member, "--" + member.replace("_", "-"))


if __name__ == "__main__":
    arguments.run(main)

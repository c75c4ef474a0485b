# ===- __main__.py - The model builders' command line ----------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""`python3 -m optimus.models MODEL …` writes a model's program, `from-hf DIR` that of a
folder of Hugging Face's.

Exit codes: 0 done, 1 the arguments or the output are wrong, 2 a fault of ours.
"""

import argparse
import functools
import inspect
import os
import sys
from typing import Any, Dict, List, Optional, Set, Tuple

from optimus import __version__, arguments, output
from optimus.arguments import Mistake, real_number, whole_number
from optimus.generation import Generation
from optimus.ir import LEAST_CHUNK, MOST_CHUNKS, module_text
from optimus.models import (
    ConfigError,
    bert,
    from_hf,
    gated_encoder,
    gpt2,
    gpt_neox,
    llama,
    phi,
    phi_msft,
    rope,
    to_gguf,
)
from optimus.models.functions import functions_of

PROGRAM = "optimus.models"

FLAGS = {
    "sequence": "--seq",
    "vocabulary": "--vocab",
    "epsilon": "--norm-eps",
    "head_width": "--head-dim",
}
"""Flags with another name than their member of a Config."""

GENERATING = (gpt2, llama, phi, phi_msft, gpt_neox)
"""The models of the next token."""
NO_TEXT = (
    "sees both sides of a token, and generates no text; without --generate, an encoder "
    "without a head (bert --no-head, or a folder of BertModel) has vectors, and "
    "optimus-serve has /v1/embeddings of it"
)
"""Of others."""

FFN = "width of the feed-forward part (default: 4 * hidden)"
ROPE_THETA = "base of the position embedding's angles (default: %(default)s)"


class _Parser(arguments.Parser):
    """The options of a model, some of which must be given."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.needed: List[argparse.Action] = []

    def count(self, flag: str, meaning: str, **settings) -> argparse.Action:
        """A whole number."""
        return self.add_argument(
            flag, type=whole_number, metavar="N", help=meaning, **settings
        )

    def number(self, flag: str, default: float, meaning: str, metavar="X") -> None:
        self.add_argument(
            flag, type=real_number, default=default, metavar=metavar, help=meaning
        )

    def need(self, flag: str, meaning: str) -> None:
        """A whole number that must be given. It is checked after unknown options, since
        one of these may be a misspelt one."""
        self.needed.append(self.count(flag, meaning))


def _scaling(text: str) -> rope.Scaling:
    try:
        return rope.parse(text)
    except ValueError:
        message = "expected linear:FACTOR or llama3:FACTOR,LOW,HIGH,POSITIONS, found '%s'"
        raise argparse.ArgumentTypeError(message % text) from None


def _functions(text: str) -> Tuple[str, ...]:
    names = tuple(text.split(","))
    if len(set(names)) == len(names) and set(names) <= {"loss", "forward"}:
        return names
    message = "expected loss, forward or both, separated by a comma, found '%s'" % text
    raise argparse.ArgumentTypeError(message)


def _generation(text: str) -> Generation:
    found: Dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = part.partition("=")
        if name not in Generation._fields or not equals or name in found:
            break
        found[name] = whole_number(number)
    else:
        if found.keys() >= set(Generation._fields) - Generation._field_defaults.keys():
            return Generation(**found)
    message = "expected slots=N,context=N,chunk=N and perhaps pages=N and best=N, found '%s'"
    raise argparse.ArgumentTypeError(message % text)


def _no_generation(_: str) -> Generation:
    raise argparse.ArgumentTypeError("an encoder " + NO_TEXT)


def _parse(given: List[str]) -> argparse.Namespace:
    """Raises Mistake."""
    parser, models = _parsers()
    parser.check_words(given)
    options, unknown = parser.parse_known_args(given)
    if unknown:
        parser.error("expected options after the model, found '%s'" % unknown[0])
    if options.model is None:
        parser.error("expected a model, one of " + ", ".join(models))
    chosen = models[options.model]
    missing = [
        option.option_strings[0]
        for option in chosen.needed
        if getattr(options, option.dest) is None
    ]
    if missing:
        parser.error("%s needs %s" % (options.model, ", ".join(missing)))
    return options


def flags_of_models() -> Set[str]:
    """The flags of all models, without hyphens."""
    _, models = _parsers()
    strings = (string for each in models.values() for string in each._option_string_actions)
    return {string[2:] for string in strings if string.startswith("--")}


@functools.lru_cache(maxsize=None)
def _parsers():
    """The parser of everything, and each model's."""
    parser = _Parser(
        prog="python3 -m optimus.models",
        description="Write a model's program for optimus-compile.",
    )
    version = "%s %s" % (PROGRAM, __version__)
    parser.add_argument("--version", action="version", version=version)
    models = parser.add_subparsers(dest="model", metavar="MODEL")

    def add(module: Any, title: str, name: Optional[str] = None) -> _Parser:
        model = models.add_parser(
            name or module.KIND, help=title, description=module.__doc__
        )
        model.set_defaults(module=module)
        return model

    gpt = add(gpt2, "GPT-2")
    _add_shape(gpt)
    _add_ffn_and_dropout(gpt)
    _add_epsilon(gpt, 1e-5)
    _add_documents(gpt)

    masked = add(bert, "BERT")
    _add_shape(masked)
    _add_ffn_and_dropout(masked)
    _add_epsilon(masked, 1e-12)
    _add_masking(masked)
    masked.add_argument(
        "--no-head",
        dest="head",
        action="store_false",
        help="an encoder without a head, whose output are hidden states",
    )

    model = add(llama, "Llama")
    _add_shape(model, heads="attention heads; must divide --hidden without --head-dim")
    model.count(
        "--kv-heads",
        "heads of keys and values; must divide --heads (default: --heads)",
    )
    model.need("--ffn", "width of the feed-forward part")
    model.number("--rope-theta", 10000.0, ROPE_THETA)
    _add_epsilon(model, 1e-6)
    _add_documents(model)
    model.count(
        "--window",
        "tokens that a token sees, itself and those before it: Mistral's "
        "sliding_window (default: all)",
    )
    model.add_argument(
        "--qkv-bias",
        action="store_true",
        help="queries, keys and values have biases, as in Qwen2",
    )
    model.count(
        "--head-dim",
        "channels of a head; heads times it need not be --hidden (default: hidden / heads)",
    )
    model.add_argument(
        "--rope-scaling",
        type=_scaling,
        metavar="KIND:NUMBERS",
        help="stretched positions: linear:FACTOR, or llama3:FACTOR,LOW,HIGH,POSITIONS "
        "with the factors of low and high frequencies and the first number of positions",
    )
    model.add_argument(
        "--qk-norm",
        action="store_true",
        help="queries and keys have norms over a head's channels, as in Qwen3",
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

    parallel = add(phi, "Phi")
    _add_partly_rotary(parallel, "half")
    parallel.count(
        "--norms",
        "norms of a layer: 1 for attention and feed-forward part together, or 2 "
        "(default: %(default)s)",
        default=1,
    )

    neox = add(gpt_neox, "GPT-NeoX")
    _add_partly_rotary(neox, "a quarter")
    neox.add_argument(
        "--sequential",
        dest="parallel",
        action="store_false",
        help="the feed-forward part reads what attention left, not the layer's input",
    )
    neox.add_argument(
        "--no-attention-bias",
        dest="attention_bias",
        action="store_false",
        help="queries, keys, values and attention's output have no biases",
    )
    neox.add_argument(
        "--tied", action="store_true", help="the token embedding is the output head"
    )

    gated = add(gated_encoder, "an encoder with T5's layers")
    _add_shape(gated, heads="attention heads")
    gated.count("--head-dim", "channels of a head (default: hidden / heads)")
    gated.need("--ffn", "width of the feed-forward part")
    _add_masking(gated)

    folder = add(from_hf, "a model in a folder that Transformers wrote", from_hf.NAME)
    _add_folder(folder)

    exported = add(to_gguf, "a folder of weights as a GGUF file, for llama.cpp", to_gguf.NAME)
    exported.add_argument(
        "folder",
        metavar="DIR",
        help="folder with a config.json of the type %s" % ", ".join(to_gguf.KINDS),
    )
    exported.add_argument(
        "--type",
        choices=[*to_gguf.TYPES, *to_gguf.BLOCKS],
        help="of matrices (default: what most of them have)",
    )
    exported.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="file to write"
    )
    return parser, models.choices


def _add_partly_rotary(model: _Parser, share: str) -> None:
    """What decoders have with a `share` of rotated channels."""
    _add_shape(model)
    model.count("--ffn", FFN)
    model.count(
        "--rotary-dim", "channels of a head that are rotated (default: %s of them)" % share
    )
    model.number("--rope-theta", 10000.0, ROPE_THETA)
    _add_epsilon(model, 1e-5)
    _add_documents(model)


def _add_folder(model: _Parser) -> None:
    model.add_argument(
        "folder",
        metavar="DIR",
        help="folder with a config.json of the type %s" % ", ".join(from_hf.FAMILIES),
    )
    model.count("--seq", "tokens in a sequence (default: the positions of the model)")
    model.count(
        "--batch", "sequences in the global batch (default: %(default)s)", default=1
    )
    _add_dropout(model)
    _add_documents(model)
    _add_mask_token(model)
    model.count(
        "--padded-vocabulary",
        "rows of the tables of tokens, rounded up for speed: zeros after the folder's, "
        "never predicted (default: the folder's)",
    )
    _add_program(model)


def _add_mask_token(model: _Parser) -> None:
    model.count(
        "--mask-token",
        "what stands for a hidden token (default: the vocabulary's last)",
    )


def _add_masking(model: _Parser) -> None:
    """What every model of masked tokens has."""
    _add_mask_token(model)
    model.count(
        "--pad-token",
        "what fills the end of a shorter sequence (default: %(default)s)",
        default=0,
    )
    # Known, to say why not.
    model.add_argument("--generate", type=_no_generation, help=argparse.SUPPRESS)


def _add_documents(model: _Parser) -> None:
    """What every model of the next token has."""
    model.add_argument(
        "--within-documents",
        action="store_true",
        help="positions begin anew with each document of a sequence, and nothing is "
        "seen of others; optimus-run is told --document-end",
    )


    _add_generation(model)


def _add_generation(model: _Parser) -> None:
    model.add_argument(
        "--generate",
        type=_generation,
        metavar="EXTENTS",
        help="add the functions of optimus-run generate: slots=N,context=N,chunk=N, the "
        "texts generated side by side, the tokens of each at most, and those of a prompt "
        "that one call takes in; with pages=N slots share so many pages of 64 tokens, and "
        "with best=N the most probable tokens come back from a GPU in place of all logits",
    )


def _add_epsilon(model: _Parser, default: float) -> None:
    model.number("--norm-eps", default, "epsilon of the norms (default: %(default)s)")


def _add_ffn_and_dropout(model: _Parser) -> None:
    model.count("--ffn", FFN)
    _add_dropout(model)


def _add_dropout(model: _Parser) -> None:
    model.number(
        "--dropout",
        0.0,
        "probability with which training drops an element of the embeddings "
        "and of each layer's two contributions (default: %(default)s)",
        metavar="P",
    )


def _add_shape(
    model: _Parser, heads: str = "attention heads; must divide --hidden"
) -> None:
    """What every model has."""
    model.need("--layers", "transformer layers")
    model.need("--hidden", "width of the residual stream")
    model.need("--heads", heads)
    model.need("--seq", "tokens in a sequence")
    model.need("--vocab", "size of the vocabulary")
    model.need("--batch", "sequences in the global batch")
    model.number(
        "--init-std",
        0.02,
        "standard deviation of the initial weights (default: %(default)s)",
    )
    _add_program(model)


def _add_program(model: _Parser) -> None:
    """How a model is computed, and where its program goes."""
    model.count(
        "--chunk",
        "tokens whose logits exist at one time (default: %d, or more where that makes "
        "more than %d chunks)" % (LEAST_CHUNK, MOST_CHUNKS),
    )
    model.add_argument(
        "--functions",
        type=_functions,
        metavar="LIST",
        help="of loss, from which training, evaluation and gradients are made, and "
        "forward, the logits of a batch, or the hidden states of an encoder without a "
        "head (default: loss, or forward of such an encoder, or neither with "
        "--generate)",
    )
    model.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="where to write; - is standard output, the default",
    )


def _import(options: argparse.Namespace) -> str:
    """The module of a model in a folder."""
    chosen = {name: getattr(options, _dest(name)) for name in from_hf.Choices._fields}
    found = from_hf.read(options.folder, from_hf.Choices(**chosen))
    try:
        text = _text(found.module, found.config, options, found.attributes)
    except ConfigError as error:
        where = os.path.join(options.folder, from_hf.CONFIG)
        name_of = lambda member: found.fields.get(member) or _flag(member)
        raise Mistake("%s: %s" % (where, error.naming(name_of))) from None
    for note in found.notes:
        output.say("%s: %s" % (PROGRAM, note))
    return text


def _write(options: argparse.Namespace) -> str:
    """The module. Each member of the model's Config is the option of its name."""
    module = options.module
    if module is from_hf:
        return _import(options)
    names = inspect.signature(module.Config).parameters
    given = {name: _dest(name) for name in names if hasattr(options, _dest(name))}
    members = {name: getattr(options, dest) for name, dest in given.items()}
    return _text(module, module.Config(**members), options)


def _text(
    module: Any, config: Any, options: argparse.Namespace, more: Dict[str, Any] = {}
) -> str:
    """`more` are attributes of the model beside, or in place of, the builder's."""
    generation = getattr(options, "generate", None)
    names = options.functions
    has_loss = getattr(config, "head", True)
    if names is None:
        names = () if generation else ("loss",) if has_loss else ("forward",)
    elif "loss" in names and not has_loss:
        raise Mistake("--functions loss needs a model with a head; this one has forward")
    if generation:
        if module not in GENERATING:
            raise ConfigError(
                "{generate}: %s %s" % (module.KIND, NO_TEXT)
            )
        generation.check(config.sequence if module is gpt2 else None)
    return module_text(functions_of(module, config, names, generation, more))


def program(given: List[str]) -> Tuple[str, str]:
    """What a command line asks for: where to write, and the text. Raises Mistake."""
    options = _parse(given)
    try:
        return options.output, _write(options)
    except ConfigError as error:
        raise Mistake(error.naming(_flag)) from None


def _export(options: argparse.Namespace) -> None:
    for note in to_gguf.write(options.folder, options.output, options.type):
        output.say("%s: %s" % (PROGRAM, note))


def main(given: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if given is None else given

    def act() -> None:
        if to_gguf.NAME in words and (options := _parse(words)).module is to_gguf:
            _export(options)
        else:
            output.write(*program(words))

    return arguments.outcome(PROGRAM, act)


def _dest(member: str) -> str:
    """The option's attribute in a namespace."""
    return _flag(member)[2:].replace("-", "_")


def _flag(member: str) -> str:
    """What sets a member of a Config."""
    return FLAGS.get(member, "--" + member.replace("_", "-"))


if __name__ == "__main__":
    arguments.run(main)

# ===- functions.py - The functions of a model --------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Builds several functions of one model, for one module."""

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

from optimus.generation import (
    DecodeFunction,
    Generation,
    PrefillFunction,
    ScoreFunction,
)
from optimus.ir import ForwardFunction, LossFunction

KINDS = {"loss": LossFunction, "forward": ForwardFunction}


def functions_of(
    module: Any,
    config: Any,
    names: Sequence[str] = ("loss",),
    generation: Optional[Generation] = None,
    more: Optional[Dict[str, Any]] = None,
) -> List[LossFunction]:
    """The functions of a model, each beside the one before: of "loss" and "forward",
    and those that generate texts if `generation` has their extents.

        functions_of(gpt2, gpt2.Config(…), ("loss", "forward"))

    `module` is the builder's, and `config` its Config. `more` are attributes of the model
    beside, or in place of, the builder's. Raises ConfigError.
    """
    # The loss first: it is the module's main function.
    kinds: List[Callable[..., LossFunction]] = [
        KINDS[name] for name in sorted(names, key=list(KINDS).index)
    ]
    if generation:
        generating = (PrefillFunction, DecodeFunction, ScoreFunction)
        kinds += [partial(kind, generation) for kind in generating]
    functions: List[LossFunction] = []
    for kind in kinds:
        beside = functions[0] if functions else None
        make = lambda model: kind({**model, **(more or {})}, beside)
        functions.append(module.build(config, make))
    return functions

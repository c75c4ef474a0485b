# ===- test_transformer.py - Families as presets of one transformer ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The programs of families, byte for byte those of the days when each family had a
builder of its own; and what their common configuration refuses."""

import hashlib
import itertools
import re

import pytest

from optimus.models import ConfigError, bert, gpt_neox, llama
from optimus.models.__main__ import program

SHAPE = "--layers 2 --hidden 24 --heads 4 --seq 8 --vocab 50 --batch 2 --init-std 0.3"
DECODERS = ["", "--within-documents", "--functions loss,forward", "--norm-eps 1e-4 --chunk 7"]
DECODERS += ["--functions forward --generate slots=2,context=6,chunk=3 --within-documents"]
ENCODERS = ["", "--mask-token 7 --pad-token 2", "--functions loss,forward --chunk 7"]
PARTLY_ROTARY = ["", "--ffn 20 --rotary-dim 4 --rope-theta 50"]

#: Of each family: options of which every combination is taken, and the digest of all
#: programs, one after the other.
GRIDS = {
    "bert": (
        [
            ENCODERS,
            ["", "--ffn 20 --norm-eps 1e-5"],
            ["", "--dropout 0.1"],
            ["", "--no-head --functions forward"],
        ],
        "54f515634a4559b3",
    ),
    "llama": (
        [
            DECODERS,
            ["--ffn 20", "--ffn 20 --kv-heads 2 --rope-theta 50", "--ffn 20 --head-dim 10"],
            ["", "--tied", "--untied --window 3"],
            ["", "--qkv-bias", "--qk-norm", "--qk-norm --qkv-bias"],
            ["", "--rope-scaling linear:2.5", "--rope-scaling llama3:8,1,4,64"],
        ],
        "6f8fbdeda38b9471",
    ),
    "phi": ([DECODERS, PARTLY_ROTARY, ["--norms 1", "--norms 2"]], "2c11b74653e33542"),
    "gpt_neox": (
        [
            DECODERS,
            PARTLY_ROTARY,
            ["", "--sequential"],
            ["", "--no-attention-bias"],
            ["", "--tied"],
        ],
        "ca53a9eea29b20f5",
    ),
    "gated-encoder": ([ENCODERS, ["--ffn 20", "--ffn 20 --head-dim 10"]], "03f628e969a3e2c5"),
}


def without_lines(text):
    """A program whose operations have their paths alone for locations."""
    paths = dict(re.findall(r'^(#loc\d+) = loc\("([^"]*)"\(.*\)\)$', text, re.M))
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    return re.sub(r"loc\((#loc\d+)\)", lambda found: "loc(%s)" % paths[found[1]], text)


@pytest.mark.parametrize("family", GRIDS)
def test_programs_are_those_of_the_familys_own_builder(family):
    axes, expected = GRIDS[family]
    digest = hashlib.sha256()
    for options in itertools.product(*axes):
        options = " ".join(options).split()
        if "--no-head" in options and "loss,forward" in options:
            continue
        _, text = program([family, *SHAPE.split(), *options])
        digest.update(without_lines(text).encode())
    assert digest.hexdigest()[:16] == expected


@pytest.mark.parametrize(
    "builder, option, message",
    [
        (llama, dict(dropout=0.1), "dropout is not for llama"),
        (bert, dict(window=2), "window is not for bert"),
        (gpt_neox, dict(norms=1), "norms is not for gpt_neox"),
    ],
)
def test_a_family_has_its_own_options_alone(builder, option, message):
    shape = dict(layers=1, hidden=12, heads=3, sequence=4, vocabulary=9, batch=2)
    builder.build(builder.Config(**shape))
    with pytest.raises(ConfigError, match="^%s$" % message):
        builder.build(builder.Config(**shape, **option))

# ===- test_generation_beams.py - The most probable texts -----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Beams of `optimus-run generate` are those of NumPy, on every layout."""

import json

import numpy as np
import pytest

from beam_reference import search
from generation_models import (
    EXTENTS,
    LAYOUTS,
    MODELS,
    NEW,
    draw_prompts,
    run_generate,
)
from sampling_reference import Sampling
from test_forward import reference
from tools import mpirun

BEAMS = [
    # Beams, length penalty, stop tokens, copying penalty.
    (3, 1.0, [], 1.0),
    (2, 0.0, [4, 7, 9, 12], 1.0),
    (3, 2.5, [4, 7, 9, 12], 1.0),
    (3, -1.0, [1, 2, 5], 0.05),
    (2, 1.0, [3], 20.0),
]


@pytest.mark.variants
@pytest.mark.parametrize("mesh, strategy", [LAYOUTS[0], LAYOUTS[1], LAYOUTS[3]])
def test_beams_are_those_of_numpy(tools, states, tmp_path, mesh, strategy):
    """On 2x2 the three slots lie on two rows of ranks: caches move between them."""
    model = MODELS["gpt2"]
    state, _ = states("gpt2")
    parameters = {k: v.astype(float) for k, v in state.parameters.items()}
    whole = reference(model, parameters).logits

    def logits_behind(tokens):
        return whole(np.array([tokens]))[0, -1]

    library = tools.library(model, mesh, strategy, functions=None, generate=EXTENTS)
    prompts = draw_prompts(model, len(BEAMS))
    requests = [
        {
            **dict(tokens=prompt, beams=beams, length_penalty=penalty),
            **dict(stop=[[stop] for stop in stops], copying_penalty=alpha),
        }
        for prompt, (beams, penalty, stops, alpha) in zip(prompts, BEAMS)
    ]
    # A text of one beam beside them.
    requests.append({"tokens": prompts[0], "max_tokens": 3})
    answers = run_generate(tools, library, state, tmp_path, requests)
    for prompt, (beams, penalty, stops, alpha), answer in zip(prompts, BEAMS, answers):
        sampling = Sampling(copying_penalty=alpha)
        best, margin = search(logits_behind, prompt, beams, penalty, NEW, stops, sampling)
        assert margin > 1e-5, "the order of candidates could be another one in f32"
        assert (answer["tokens"], answer["finish_reason"]) == (best.tokens, best.finish)
        assert answer["score"] == pytest.approx(best.score, abs=1e-4)
    assert "score" not in answers[-1]
    # With 20 times the probability more is copied.
    assert answers[4]["copied"] >= answers[3]["copied"]
    for flags, prefix in [
        (["--threads-per-rank", 2], []),
        *([([], mpirun(4)), (["--backend", "tcp"], mpirun(4))] if mesh else []),
    ]:
        again = run_generate(tools, library, state, tmp_path, requests, *flags, prefix=prefix)
        assert again == answers


@pytest.mark.parametrize(
    "request_, said",
    [
        ({"beams": 4}, "expected from 1 to 3 beams, one a slot of the library, found 4"),
        ({"beams": 2, "temperature": 1}, "expected temperature 0 beside them, found 1"),
        ({"beams": 2, "length_penalty": 1e3}, "the length penalty is 1000; expected"),
    ],
)
def test_beams_are_checked(tools, states, tmp_path, request_, said):
    state, _ = states("gpt2")
    library = tools.library(MODELS["gpt2"], functions=None, generate=EXTENTS)
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"tokens": [1, 2], **request_}))
    result = tools.call("optimus-run", "generate", library, "--load", state.folder,
                        "--tokens", file)
    assert result.returncode == 1 and said in result.stderr

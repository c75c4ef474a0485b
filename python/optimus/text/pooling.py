# ===- pooling.py - From hidden states to a sentence's vector --------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes a vector of a sentence's hidden states, as a folder of sentence-transformers
says: `modules.json`, and the settings of its pooling."""

import json
import os
from typing import Any, List, NamedTuple

import numpy as np

from optimus import small_file
from optimus.arguments import Mistake
from optimus.models import config_file

KINDS = {"Transformer", "Pooling", "Normalize"}
"""Of modules that are known."""
MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}


class Pooling(NamedTuple):
    mode: str = "mean"
    """Of all tokens, or the first one's."""
    is_normalized: bool = False
    """Whether vectors have the length 1."""

    def vector(self, hidden: np.ndarray) -> List[float]:
        """Of the hidden states of a sentence's tokens, [tokens, width]."""
        wide = hidden.astype(np.float64)
        vector = wide[0] if self.mode == "first" else wide.mean(axis=0)
        if self.is_normalized:
            vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return [float(number) for number in vector.astype(np.float32)]


def read(folder: str) -> Pooling:
    """Without modules.json the mean of all tokens. Raises Mistake."""
    path = os.path.join(folder, "modules.json")
    if not os.path.exists(path):
        return Pooling()
    try:
        modules = json.loads(small_file.read(path, config_file.MOST_BYTES))
        if not isinstance(modules, list):
            raise ValueError
        found = {module["type"].rsplit(".", 1)[1]: module.get("path", "") for module in modules}
        places = list(found.values())
        if not all(isinstance(place, str) for place in places):
            raise ValueError
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Mistake("%s: expected a list of modules, each with type and path" % path) from None
    for kind in found:
        if kind not in KINDS:
            raise Mistake("%s: %s is not supported; there are %s" % (path, kind, sorted(KINDS)))
    # No path leads elsewhere.
    if any(os.path.isabs(place) or ".." in place.split("/") for place in places):
        raise Mistake("%s: expected paths within the folder" % path)
    mode = "mean"
    if "Pooling" in found:
        mode = _mode(os.path.join(folder, found["Pooling"], "config.json"))
    return Pooling(mode, "Normalize" in found)


def _mode(path: str) -> str:
    settings: Any = config_file.read(path)
    asked = [name for name, value in settings.items() if name.startswith("pooling_mode") and value]
    if len(asked) != 1 or asked[0] not in MODES:
        raise Mistake("%s: expected one of %s, found %s" % (path, list(MODES), asked))
    return MODES[asked[0]]

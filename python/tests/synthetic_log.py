# ===- synthetic_log.py - Logs of training that no run wrote ---------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes logs as `optimus-run train --log-json` does, with numbers that are known."""

import json
import math
import random
from pathlib import Path
from typing import Dict, List, Optional

FLAGS = {"--lr": "0.001", "--schedule": "constant", "--seed": "0"}


def beginning(after: int = 0, **changes) -> Dict:
    facts = {
        "began": "2026-01-02T03:04:05Z",
        "step": after,
        "library": "gpt.so",
        "strategy": "summa",
        "optimus": "1.0",
        "batch": 4,
        "data": {"path": "corpus.txt", "tokens": 1000},
        "flags": {**FLAGS, **changes.pop("flags", {})},
    }
    return {**facts, **changes}


def steps(first: int, last: int, seed: int = 0, eval_every: int = 0) -> List[Dict]:
    """Steps of 10 ms and 1,000 tokens, whose loss falls from 6 towards 2."""
    noise = random.Random(seed)
    found = []
    for step in range(first, last + 1):
        line = {
            "step": step,
            "loss": 2 + 4 * math.exp(-5 * step / 1000) + noise.gauss(0, 0.05),
            "grad_norm": noise.uniform(0.1, 2),
            "lr": 1e-5 * noise.random(),
            "ms": 10.0,
            "tokens_per_s": 1e5,
            "seconds": 0.0125 * (step - first + 1),
            "comm_bytes": 4096,
            "peak_bytes": 3 << 20,
            "comm_ms": 2.0,
            "comm_exposed_ms": 0.5,
        }
        if eval_every and step % eval_every == 0:
            line["eval_loss"] = line["loss"] + 0.25
        found.append(line)
    return found


def ended(how: str, step: int, message: Optional[str] = None) -> Dict:
    return {"ended": how, "step": step, **({"message": message} if message else {})}


def write(path: Path, records: List[Dict], rest: str = "") -> Path:
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    path.write_text("\n".join(lines) + "\n" + rest)
    return path

# ===- decisions.py - Fusions of a step, weighed ----------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Which fusions of a training step are made, by the bytes kept from memory.

A fusion without a saving is not made, nor one of less than 2 % of a step for some 500
lines.  Bytes are read off the step's table; milliseconds are predicted from
them by constants.json, and none was measured.
"""

import dataclasses
import re

from predictions import OPERAND

ELEMENT = {"f32": 4, "bf16": 2}


@dataclasses.dataclass
class Fusion:
    """What a fusion saves of a step: bytes that it keeps from memory."""

    name: str
    made: bool
    reason: str
    bytes: int = 0
    milliseconds: float = 0.0


def operands(line):
    """The access, bytes and type of each operand of a command's line."""
    return [
        (access, int(count) * int(bits) // 8, kind + bits)
        for access, _, _, count, kind, bits in OPERAND.findall(line)
    ]


def written(line):
    return [size for access, size, _ in operands(line) if access == "write"]


def read(line):
    return [size for access, size, _ in operands(line) if access == "read"]


def bias_gradients(line):
    """The rows that a launch of the sum alone would read again."""
    found = re.search(r": gemm (\d+)x(\d+)x(\d+).* bias_grad ", line)
    factor = re.search(r" read b=\S+?:\S*?([a-z]+\d+) ", line)
    return int(found[2]) * int(found[3]) * ELEMENT[factor[1]] if found else 0


def kept_inputs(line):
    """GELU's saved slope, one of two results."""
    return written(line)[-1] if re.search(r": gelu_with_slope\w* extent", line) else 0


def written_weights(line):
    """Weights of f32 that are read again for their narrow copies."""
    return sum(read(line)) if re.search(r": cast_f32_to_bf16\w* extent", line) else 0


def summed_squares(line):
    """Gradients that are read for their norm alone."""
    return sum(read(line)) if re.search(r": grouped_\w*sum_squares\w* extent", line) else 0


def partial_sums(line):
    """Parts of sums of columns, written by one launch and read by another."""
    return 2 * sum(read(line)) if re.search(r": sum_leading_\d+x\d+ extent", line) else 0


FUSIONS = [
    ("a bias's gradient in its weight's product", True, "an epilogue of cuBLASLt", bias_gradients),
    (
        "GELU keeps its input alone",
        False,
        "an operation with its kernel, rules and proof, for less than 2 %",
        kept_inputs,
    ),
    (
        "narrow weights written by the optimizer",
        False,
        "all of them would be alive from a step's begin to its end",
        written_weights,
    ),
    ("squares summed where gradients are made", False, "products make them, without such an epilogue", summed_squares),
    ("parts of column sums added in place", False, "512 parts are left; adding in place would have no order", partial_sums),
]


def weigh_sorted_tokens(commands, constants):
    """What the embedding's gradient takes beyond the time of its operands, since it looks
    for the tokens of each row of the table."""
    found = [command for name, command in commands.items() if name.startswith("embedding_grad")]
    by_bytes = sum(1e3 * command.bytes / constants["memory_bytes_per_s"] for command in found)
    beyond = sum(command.milliseconds for command in found) - by_bytes
    reason = f"its kernel takes {by_bytes + beyond:.3f} ms, of which its operands {by_bytes:.3f}"
    return Fusion("the embedding's gradient from sorted tokens", False, reason, 0, max(beyond, 0.0))


def weigh(text, commands, constants):
    """The fusions of a function, as `optimus-run inspect --commands` prints it, with the
    predictions of its commands."""
    lines = [line for line in text.splitlines() if re.match(r"\d+ \w+: ", line)]
    fusions = [weigh_sorted_tokens(commands, constants)]
    for name, made, reason, saved in FUSIONS:
        size = sum(map(saved, lines))
        fusions.append(Fusion(name, made, reason, size, 1e3 * size / constants["memory_bytes_per_s"]))
    return sorted(fusions, key=lambda fusion: -fusion.milliseconds)


def show(fusions, total_bytes, total_ms):
    """The table, and the step's bytes beside the least."""
    lines = ["fusions, weighed: what each saves, by prediction alone", f"{'ms':>8} {'GB':>7} {'step':>6}  made"]
    for one in fusions:
        lines.append(
            f"{one.milliseconds:8.3f} {one.bytes / 1e9:7.2f} {one.milliseconds / total_ms:6.1%}  "
            f"{'yes' if one.made else 'no':4}  {one.name}: {one.reason}"
        )
    least = total_bytes - sum(one.bytes for one in fusions if not one.made)
    lines.append(
        f"kernels move {total_bytes / 1e9:.1f} GB, each operand once; with all of these {least / 1e9:.1f} GB: "
        f"{total_bytes / least:.3f} of the least"
    )
    return "\n".join(lines)

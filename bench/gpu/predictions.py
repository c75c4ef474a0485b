# ===- predictions.py - What bounds each kernel of a step --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""The least times of the commands of a step, from its table and its cubin.

A command takes the longest of three times: its bytes through memory, its products
through tensor cores, and its instructions through issue slots.  Bytes and operations
are the table's.  Instructions are counted in the cubin: of a loop with products, for
each of them; of other kernels, for each byte that the innermost loops store, since
results are stored once, or load and store where a kernel stores little.
"""

import dataclasses
import re

from instructions import find_loops, read_code, split_sections

# Operations of one HMMA.16816 of a warp, and a warp's threads.
HMMA_FLOPS, WARP = 2 * 16 * 8 * 16, 32
# Products of each of our attention's kernels: scores and values; scores, their
# gradient and queries'; scores, their gradient, keys' and values'.
ATTENTION_PRODUCTS = {"attention": 2, "attention_query_grad": 3, "attention_key_grad": 4}
ATTENTION = re.compile(
    r"(attention(?:_query_grad|_key_grad)?)(_causal)?_.*_(\d+)x(\d+)_(\d+)x\d+_(\d+)_\d+x\d+$"
)
# Rows of a tile; one on the diagonal is multiplied whole.
TILE = 64
# A kernel with at least this share of its bytes stored is counted by its stores.
STORES_COUNT = 1 / 8


@dataclasses.dataclass
class Command:
    """One kind of command of a step, with the sums of all its calls."""

    name: str
    kind: str
    calls: int = 0
    bytes: int = 0
    flops: int = 0
    """Of products."""
    stored: int = 0
    """Bytes of results."""
    instructions: float = 0.0
    """Issued by warps."""
    milliseconds: float = 0.0
    bound: str = ""


def attention_flops(name):
    """Operations of one launch of our attention, by the extents in its name."""
    kernel, causal, batch, sequence, heads, width = ATTENTION.match(name).groups()
    batch, sequence, heads, width = int(batch), int(sequence), int(heads), int(width)
    tiles = -(-sequence // TILE)
    share = (tiles + 1) / (2 * tiles) if causal else 1.0
    product = 2 * batch * heads * sequence * sequence * width
    return round(ATTENTION_PRODUCTS[kernel] * product * share)


OPERAND = re.compile(r" (read|write|update) (?:\w+=)?(\w+)\[(\d+)\]:(\d+)([a-z]+)(\d+)(?= )")


def moved_bytes(line):
    """Bytes read and bytes written by a launch, once each: operands are parts of one
    packed tensor, as queries and keys, and lie in each other."""
    spans = {"read": [], "write": []}
    for access, base, begin, count, _, bits in OPERAND.findall(line):
        span = (base, int(begin), int(begin) + int(count) * int(bits) // 8)
        for side in ("read", "write") if access == "update" else (access,):
            spans[side].append(span)
    totals = {}
    for side, found in spans.items():
        totals[side], last, end = 0, None, 0
        for base, begin, stop in sorted(found):
            end = end if base == last else 0
            totals[side] += max(0, stop - max(begin, end))
            last, end = base, max(end, stop)
    return totals["read"], totals["write"]


def read_commands(text):
    """The commands of a function, as `optimus-run inspect --commands` prints them, by name."""
    commands = {}
    for line in text.splitlines():
        found = re.match(r"\d+ \w+: (\S+)(?: (\d+x\d+x\d+))?", line)
        touched = re.search(r" bytes=(\d+)", line)
        if not found or not touched:
            continue
        kind = "launch" if " extent=" in line else found[1]
        name = f"{found[1]} {found[2]}" if found[2] else found[1]
        flops = re.search(r" flops=(\d+)", line)
        command = commands.setdefault(name, Command(name, kind))
        command.calls += 1
        read, written = moved_bytes(line)
        command.stored += written
        if ATTENTION.match(name):
            command.bytes += read + written
            command.flops += attention_flops(name)
            continue
        command.bytes += int(touched[1])
        command.flops += int(flops[1]) if flops else 0
    return commands


def read_touched(report, function):
    """How many times its least bytes each kernel loads and stores, of `--report`."""
    part = re.search(rf"^{function}: \d+ commands, of which.*?(?=\n\n|\Z)", report, re.M | re.S)
    rows = re.findall(r"^(\S+) .*?([\d.]+)$", part[0] if part else "", re.M)
    return {name: float(times) for name, times in rows if times}


def access_bytes(opcode, kinds=("LDG", "STG", "LDGSTS")):
    """Bytes of a thread that an instruction moves from or to memory."""
    if opcode.split(".")[0] not in kinds:
        return 0
    width = re.search(r"\.(U8|S8|U16|S16|64|128)\b", opcode)
    return {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}[width[1]] if width else 4


def instructions_a_byte(lines, kinds=("LDG", "STG", "LDGSTS")):
    """Instructions of a warp for each byte that it moves so: in the innermost loops with
    accesses, or in all of a kernel without one. 0 where nothing is moved so."""
    opcodes, spans = read_code(lines)
    moving = [
        (begin, end)
        for begin, end in spans
        if any(access_bytes(opcode) for opcode in opcodes[begin : end + 1])
    ]
    inner = [
        span
        for span in moving
        if not any(span[0] <= b and e <= span[1] and (b, e) != span for b, e in moving)
    ] or [(0, len(opcodes) - 1)]
    count = sum(end + 1 - begin for begin, end in inner)
    moved = sum(
        access_bytes(opcodes[at], kinds) for begin, end in inner for at in range(begin, end + 1)
    )
    return count / (WARP * moved) if moved else 0.0


def count_instructions(commands, listing, touched):
    """Puts the instructions of launches into them, read off a cubin's listing. `touched`
    has how many times its bytes a kernel loads and stores."""
    code = split_sections(listing)
    for command in commands.values():
        body = code.get(f".text.{command.name}")
        if body is None:
            continue
        lines = body.splitlines()
        for_stores = instructions_a_byte(lines, ("STG",))
        if loops := find_loops(lines):
            command.instructions = command.flops / HMMA_FLOPS * loops[0].ratio
        elif for_stores and command.stored >= STORES_COUNT * command.bytes:
            command.instructions = command.stored * for_stores
        else:
            moved = command.bytes * touched.get(command.name, 1.0)
            command.instructions = moved * instructions_a_byte(lines)


def predict(commands, constants):
    """Puts the least time and its bound into each command."""
    slots = constants["multiprocessors"] * constants["issue_slots"]
    issued = slots * constants["clock_hz"] * constants["issued_share"]
    for command in commands.values():
        if command.kind in ("attention", "attention_grad"):
            rate = constants["cudnn_attention_flops"] / constants["cudnn_attention_ms"]
            command.milliseconds, command.bound = command.flops / rate, "cuDNN"
            continue
        times = {
            "bytes": command.bytes / constants["memory_bytes_per_s"],
            "products": command.flops / constants["product_flops_per_s"],
            "issue": command.instructions / issued,
        }
        command.bound = max(times, key=times.get)
        command.milliseconds = 1e3 * times[command.bound]

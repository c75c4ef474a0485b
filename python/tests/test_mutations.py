# ===- test_mutations.py - Plausible bugs of a partitioner ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Bugs that a partitioner may have, planted one at a time in what ours writes.

Two nets are held under them. `--optimus-verify-partition` refuses what reads an
partial sum as a sum, sums twice, or joins parts that do not belong together. What is
a sound partition of a *wrong* program passes it; that is compiled on, past the
check, and `optimus-run verify` compares its gradients with the serial program's.
Each bug has the net that must catch it; `STATIC` ones whose program compiles are
caught by the other net too.
"""

import re
from typing import Callable, List, NamedTuple

import pytest

from tools import Model

MODEL = Model(layers=2, hidden=32, heads=4, sequence=16, vocabulary=256, batch=4)
MESH = ["--mesh", "row:2,col:2"]
STATIC, NUMERIC, LOADED = "verify-partition", "verify", "the check of tables"


class Lines(List[str]):
    """The lines of @grad_step, each with one operation."""

    def find(self, pattern: str, number: int = 0) -> int:
        """The line of the number-th operation that matches."""
        found = [i for i, line in enumerate(self) if re.search(pattern, line)]
        assert len(found) > number, "no operation %d like %s" % (number, pattern)
        return found[number]

    def producer(self, value: str) -> int:
        return self.find(r"^\s*(%\w+, )*" + re.escape(value) + r"(,| =)")

    def rename(self, value: str, other: str) -> None:
        pattern = re.compile(re.escape(value) + r"(?!\w)")
        self[:] = [pattern.sub(other, line) for line in self]

    def edit(self, number: int, pattern: str, text: str, count: int = 1) -> None:
        self[number], done = re.subn(pattern, text, self[number], count=count)
        assert done > 0, self[number]


COLLECTIVE = re.compile(r"\s*(%\w+) = ccl.all_reduce (%\w+) .* : \((.*)\) -> (.*)$")


def drop_all_reduce(lines: Lines, of: str) -> None:
    """Each rank's partial sum is taken for the sum."""
    for i, line in enumerate(lines):
        found = COLLECTIVE.match(line)
        if found and re.search(of, lines[lines.producer(found[2])]):
            result, term, partial, whole = found.groups()
            source = lines.producer(term)
            # The last such type: operands come before results.
            head, _, tail = lines[source].rpartition(partial)
            lines[source] = head + whole + tail
            del lines[i]
            lines.rename(result, term)
            return
    raise AssertionError("no all-reduce of " + of)


def unreduced_bias_gradient(lines: Lines) -> None:
    drop_all_reduce(lines, r"optimus.sum_leading .*mlp.c_proj.bias")


def gradient_summed_twice(lines: Lines) -> None:
    """What every rank of `col` has whole is summed over `col` besides."""
    one = lines.find(r"ccl.all_reduce .*tensor<32xf32.*\[\{\}\], unreduced = \{\"row\"\}")
    result, term, partial, whole = COLLECTIVE.match(lines[one]).groups()
    both = partial.replace('{"row"}>', '{"col", "row"}>')
    over_col = partial.replace('unreduced = {"row"}>', 'unreduced = {"col"}>')
    source = lines.producer(term)
    head, _, tail = lines[source].rpartition(partial)
    lines[source] = head + both + tail
    lines[one] = '    %%part = ccl.all_reduce %s {axis = "row"} : (%s) -> %s' % (
        *(term, both, over_col),
    )
    lines.insert(
        one + 1,
        '    %s = ccl.all_reduce %%part {axis = "col"} : (%s) -> %s'
        % (result, over_col, whole),
    )


def loss_of_a_part_of_the_batch(lines: Lines) -> None:
    """The mean is taken over the tokens of one row of ranks."""
    drop_all_reduce(lines, "head_loss_grad")


def bias_on_every_rank(lines: Lines) -> None:
    """A bias is added before the reduction instead of after it."""
    at = lines.find(r"ccl.all_reduce .*\{axis = \"col\"\}", 1)
    result, term, partial, whole = COLLECTIVE.match(lines[at]).groups()
    assert ("optimus.add %s," % result) in lines[at + 1]
    total = lines[at + 1].split("=")[0].strip()
    bias = re.search(r"optimus.add %\w+, (%\w+)", lines[at + 1])[1]
    lines[at] = "    %%early = optimus.add %s, %s : (%s, tensor<32xf32>) -> %s" % (
        *(term, bias, partial, partial),
    )
    lines[at + 1] = '    %s = ccl.all_reduce %%early {axis = "col"} : (%s) -> %s' % (
        *(total, partial, whole),
    )


def swapped_axes(lines: Lines) -> None:
    """A gradient is reduced over the columns, though rows made its parts."""
    at = lines.find(r"ccl.all_reduce .*\{axis = \"row\"\}.*tensor<32xf32")
    lines.edit(at, 'axis = "row"', 'axis = "col"')


def norm_of_a_part(lines: Lines) -> None:
    """The means of dy in a norm's gradient divide by one rank's columns."""
    lines.edit(lines.find("optimus.norm_grad_apply"), "size = 32", "size = 16")


def statistics_of_another_norm(lines: Lines) -> None:
    at = lines.find("optimus.norm_grad_apply", 1)
    own = re.search(r"%mean\w*, %rstd\w*", lines[at])[0]
    (other,) = {
        re.search(r"%mean\w*, %rstd\w*", line)[0]
        for line in lines
        if "optimus.norm_grad_apply" in line and own not in line
    } & {"%mean, %rstd"}
    lines.edit(at, own + r"(?!\w)", other)


def lost_residual(lines: Lines) -> None:
    """The gradient around a block is forgotten."""
    at = lines.find(r"optimus.norm_grad_apply .*residual\(", 1)
    value = re.search(r"residual\((%\w+)\)", lines[at])[1]
    lines.edit(at, r" residual\(%\w+\)", "")
    # Its type is the last of the operands'.
    operands, _, result = lines[at].rpartition(") -> ")
    lines[at] = operands[: operands.rindex(", tensor<")] + ") -> " + result
    assert value not in lines[at]


def lost_half_of_a_tied_table(lines: Lines) -> None:
    """The head's part of the table's gradient is not added to the look-up's."""
    at = lines.find(r"optimus.embedding_grad .*accumulate")
    lines.edit(at, r" accumulate\(%\w+\)", "")
    operands, _, result = lines[at].rpartition(") -> ")
    lines[at] = operands[: operands.rindex(", tensor<")] + ") -> " + result


def activation_of_another_layer(lines: Lines) -> None:
    """A weight's gradient is made from the same activation, a layer off."""
    first = lines.find(r"ccl.matmul .*mlp.c_fc.weight", 0)
    second = lines.find(r"ccl.matmul .*mlp.c_fc.weight", 1)
    other = re.search(r"ccl.matmul (%\w+),", lines[second])[1]
    lines.edit(first, r"ccl.matmul %\w+,", "ccl.matmul %s," % other)


def uncausal_gradient(lines: Lines) -> None:
    lines.edit(lines.find("optimus.attention_grad"), "{causal, ", "{")


def wrong_root(lines: Lines) -> None:
    """A panel of a weight comes from another rank than its owner."""
    at = lines.find(r"collective_start *broadcast .*over \"row\".*root = 1")
    lines.edit(at, r"root = 1 : i64, ", "")


class Bug(NamedTuple):
    plant: Callable[[Lines], None]
    net: str
    strategy: str = "summa"
    phase: str = "partition"


BUGS = [
    Bug(unreduced_bias_gradient, STATIC),
    Bug(gradient_summed_twice, STATIC, "megatron"),
    Bug(loss_of_a_part_of_the_batch, STATIC),
    Bug(bias_on_every_rank, STATIC, "megatron"),
    Bug(swapped_axes, STATIC, "megatron"),
    Bug(norm_of_a_part, NUMERIC),
    Bug(statistics_of_another_norm, NUMERIC),
    Bug(lost_residual, NUMERIC),
    Bug(lost_half_of_a_tied_table, NUMERIC),
    Bug(activation_of_another_layer, NUMERIC),
    Bug(uncausal_gradient, NUMERIC),
    # The device program's own verifier knows buffers, not who owns a panel.
    Bug(wrong_root, LOADED, phase="exec"),
]


@pytest.fixture(scope="module")
def trained(tools, text, tmp_path_factory):
    """A checkpoint: at the start biases are 0, and whoever loses one is right."""
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--lr", 3e-3, "--threads-per-rank", 1, "--save", folder / "at"]
    tools.train(tools.library(MODEL), text, 5, *flags, log=folder / "log")
    return folder / "at"


@pytest.fixture(scope="module")
def phase(tools, tmp_path_factory):
    """The program after a phase: before @grad_step, its lines, and after it."""
    folder, known = tmp_path_factory.mktemp("phases"), {}

    def compile_to(strategy, name):
        if (strategy, name) not in known:
            path = folder / ("%s-%s.mlir" % (strategy, name))
            flags = [*MESH, "--strategy", strategy, "--compile-to", name]
            tools.run("optimus-compile", tools.program(MODEL), *flags, "-o", path)
            # What is planted has no location.
            known[strategy, name] = re.sub(r" loc\(#loc\d*\)", "", path.read_text())
        lines = known[strategy, name].split("\n")
        begin = next(i for i, line in enumerate(lines) if "func.func @grad_step" in line)
        end = next(i for i in range(begin, len(lines)) if lines[i] == "  }")
        return lines[: begin + 1], Lines(lines[begin + 1 : end]), lines[end:]

    return compile_to


def nets(tools, text, trained, folder, program: str, strategy: str, start: str):
    """Whether each of the nets holds the program."""
    path, library = folder / "program.mlir", folder / "program.so"
    path.write_text(program)
    checked = tools.call(
        "optimus-opt", path, "--optimus-verify-partition", "-o", folder / "checked"
    )
    flags = [*MESH, "--strategy", strategy, "--compile-from", start]
    compiled = tools.call("optimus-compile", path, *flags, "-o", library)
    if compiled.returncode != 0:
        return checked, None
    verified = tools.call(
        *("optimus-run", "verify", tools.library(MODEL), library, "--data", text),
        *("--threads-per-rank", 1, "--load", trained),
    )
    return checked, verified


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_bug_is_caught(tools, text, trained, tmp_path, phase, bug):
    before, lines, after = phase(bug.strategy, bug.phase)
    unplanted = list(lines)
    bug.plant(lines)
    assert lines != unplanted
    program = "\n".join([*before, *lines, *after])
    checked, verified = nets(
        tools, text, trained, tmp_path, program, bug.strategy, bug.phase
    )
    if bug.net == STATIC:
        assert checked.returncode == 1, "the static check let it pass"
        assert "error:" in checked.stderr
        # Where it runs at all, it gives other gradients.
        assert verified is None or verified.returncode != 0
    else:
        assert checked.returncode == 0, checked.stderr[-400:]
        assert verified is not None, "it does not compile"
        assert verified.returncode == 1, verified.stdout
        # Who is not the root would receive into the owner's parameter.
        found = ("the libraries disagree" if bug.net == NUMERIC
                 else "which the manifest says it reads")
        assert found in verified.stderr


@pytest.mark.parametrize("strategy, start", sorted({bug[2:] for bug in BUGS}))
def test_without_a_bug_nothing_is_caught(
    tools, text, trained, tmp_path, phase, strategy, start
):
    before, lines, after = phase(strategy, start)
    program = "\n".join([*before, *lines, *after])
    checked, verified = nets(tools, text, trained, tmp_path, program, strategy, start)
    assert checked.returncode == 0, checked.stderr
    assert verified.returncode == 0, verified.stderr

# ===- test_mutations.py - Plausible bugs of a partitioner ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Possible bugs of a partitioner, planted one at a time in the output of ours.

Three nets are held under them. `--optimus-verify-partition` refuses a partial sum read
as a sum, a double sum, and a concatenation of parts that do not belong together. A
sound partition of a *wrong* program passes; compared with the serial program
(`serial=FILE`) it is refused too, before anything runs. Past both, it is compiled on,
and `optimus-run verify` compares its gradients with the serial program's. Each bug has
the net that must catch it first; those that come later catch it too, where its program
compiles.
"""

import re
from subprocess import CompletedProcess
from typing import Callable, Dict, List, NamedTuple, Optional

import pytest

from tools import Model

pytestmark = pytest.mark.rotates

MODEL = Model(layers=2, hidden=32, heads=4, sequence=16, vocabulary=256, batch=4)
MESH = ["--mesh", "row:2,col:2"]
STATIC, PROOF, LOADED = "its own rule", "the proof", "the check of tables"


def results(line: str) -> str:
    return line.partition(" = ")[0].strip()


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

    def retype(self, value: str, other: str) -> None:
        """The operation says another type of one of its results."""
        source = self.producer(value)
        names = results(self[source]).split(", ")
        head, _, types = self[source].rpartition(" -> ")
        parts = re.split(r", (?=tensor<)", types.strip("()"))
        parts[names.index(value)] = other
        assert len(parts) == len(names), self[source]
        text = ", ".join(parts)
        self[source] = head + " -> " + ("(%s)" % text if len(parts) > 1 else text)

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
            lines.retype(term, whole)
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
    lines.retype(term, both)
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
    lines[at] = "    %s = optimus.add %s, %s : (%s, tensor<32xf32>) -> %s" % (
        *(result, term, bias, partial, partial),
    )
    lines[at + 1] = '    %s = ccl.all_reduce %s {axis = "col"} : (%s) -> %s' % (
        *(total, result, partial, whole),
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
    path: str = ""
    """Of the operation that is named, but where tables are the first net."""


BUGS = [
    Bug(unreduced_bias_gradient, STATIC, path="h.0.mlp.down backward"),
    Bug(gradient_summed_twice, STATIC, "megatron", path="h.0.ln_1 backward"),
    Bug(loss_of_a_part_of_the_batch, STATIC, path="head"),
    Bug(bias_on_every_rank, STATIC, "megatron", path="h.0.attn.out_product"),
    Bug(swapped_axes, STATIC, "megatron", path="h.0.ln_1 backward"),
    Bug(norm_of_a_part, PROOF, path="ln_f backward"),
    Bug(statistics_of_another_norm, PROOF, path="h.1.ln_2 backward"),
    Bug(lost_residual, PROOF, path="h.1.ln_1 backward"),
    Bug(lost_half_of_a_tied_table, PROOF, path="embedded backward"),
    Bug(activation_of_another_layer, PROOF, path="h.1.mlp.up_product backward"),
    Bug(uncausal_gradient, PROOF, path="h.1.attn.heads backward"),
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


LOCATION = re.compile(r" loc\(#loc\d*\)$")


class Planted(NamedTuple):
    """A program whose @grad_step can be edited."""

    before: List[str]
    lines: Lines
    after: List[str]
    locations: Dict[str, str]
    """By the results of a line, where it comes from."""

    def text(self) -> str:
        lines = [line + self.locations.get(results(line), "") for line in self.lines]
        return "\n".join([*self.before, *lines, *self.after])


def without_aliases(text: str) -> str:
    """Local types written out where they stand."""
    aliases = dict(re.findall(r"^(#local_\w+) = (.*)\n", text, re.M))
    text = re.sub(r"^#local_\w+ = .*\n", "", text, flags=re.M)
    return re.sub(r"#local_\w+", lambda found: aliases[found[0]], text)


@pytest.fixture(scope="module")
def phase(tools, tmp_path_factory):
    """The program after a phase, to be edited."""
    folder, known = tmp_path_factory.mktemp("phases"), {}

    def compile_to(strategy, name):
        if (strategy, name) not in known:
            path = folder / ("%s-%s.mlir" % (strategy, name))
            flags = [*MESH, "--strategy", strategy, "--compile-to", name]
            tools.run("optimus-compile", tools.program(MODEL), *flags, "-o", path)
            known[strategy, name] = without_aliases(path.read_text())
        lines = known[strategy, name].split("\n")
        begin = next(i for i, line in enumerate(lines) if "func.func @grad_step" in line)
        end = next(i for i in range(begin, len(lines)) if lines[i].startswith("  }"))
        body = lines[begin + 1 : end]
        found = {results(line): LOCATION.search(line) for line in body}
        locations = {key: match[0] for key, match in found.items() if match}
        plain = Lines(LOCATION.sub("", line) for line in body)
        return Planted(lines[: begin + 1], plain, lines[end:], locations)

    return compile_to


@pytest.fixture(scope="module")
def serial(tools, tmp_path_factory):
    path = tmp_path_factory.mktemp("serial") / "step.mlir"
    tools.run("optimus-compile", tools.program(MODEL), "--compile-to=step", "-o", path)
    return path


class Nets(NamedTuple):
    checked: CompletedProcess
    """Each operation by itself."""
    proven: CompletedProcess
    """Against the serial program."""
    verified: Optional[CompletedProcess]
    """By gradients; none where the program does not compile."""


@pytest.fixture
def nets(tools, text, trained, serial, tmp_path):
    def cast(program: str, strategy: str, start: str) -> Nets:
        path, library = tmp_path / "program.mlir", tmp_path / "program.so"
        path.write_text(program)
        flags = [*MESH, "--strategy", strategy, "--compile-from", start]
        command = ["optimus-compile", path, *flags, "-o", library]
        check = ["optimus-opt", path, "-o", tmp_path / "checked"]
        checked = proven = None
        if start == "partition":
            checked = tools.call(*check, "--optimus-verify-partition")
            proven = tools.call(*check, "--optimus-verify-partition=serial=%s" % serial)
        compiled = tools.call(*command)
        if compiled.returncode != 0:
            return Nets(checked, proven, None)
        assert start != "partition" or "not compared" in compiled.stderr
        verified = tools.call(
            *("optimus-run", "verify", tools.library(MODEL), library, "--data", text),
            *("--threads-per-rank", 1, "--load", trained),
        )
        return Nets(checked, proven, verified)

    return cast


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_bug_is_caught(phase, nets, bug):
    planted = phase(bug.strategy, bug.phase)
    unplanted = list(planted.lines)
    bug.plant(planted.lines)
    assert planted.lines != unplanted
    caught = nets(planted.text(), bug.strategy, bug.phase)
    if bug.net == STATIC:
        assert caught.checked.returncode == 1, "its own rule let it pass"
        assert "error: %s: '" % bug.path in caught.checked.stderr
        assert caught.proven.returncode == 1
        # Where it runs at all, it gives other gradients.
        assert caught.verified is None or caught.verified.returncode != 0
        return
    assert caught.verified is not None, "it does not compile"
    assert caught.verified.returncode == 1, caught.verified.stdout
    if bug.net == LOADED:
        # Who is not the root would receive into the owner's parameter.
        assert "which the manifest says it reads" in caught.verified.stderr
        return
    assert caught.checked.returncode == 0, caught.checked.stderr[-400:]
    assert caught.proven.returncode == 1, "the proof let it pass"
    assert "error: %s: V8" % bug.path in caught.proven.stderr
    assert "the libraries disagree" in caught.verified.stderr


@pytest.mark.parametrize("strategy, start", sorted({bug[2:4] for bug in BUGS}))
def test_without_a_bug_nothing_is_caught(phase, nets, strategy, start):
    caught = nets(phase(strategy, start).text(), strategy, start)
    for net in caught:
        assert net is None or net.returncode == 0, net.stderr


def test_a_compilation_refuses_what_is_not_shown(tools, phase, serial, tmp_path):
    planted = phase("summa", "partition")
    lost_residual(planted.lines)
    path, library = tmp_path / "program.mlir", tmp_path / "program.so"
    path.write_text(planted.text())
    flags = [*MESH, "--compile-from=partition", "--serial", serial, "-o", library]
    compiled = tools.call("optimus-compile", path, *flags)
    assert compiled.returncode == 1
    assert "V8" in compiled.stderr and not library.exists()

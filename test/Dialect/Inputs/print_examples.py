# ===- print_examples.py - The examples of a dialect's reference ----------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Prints every example of operations in TableGen files as a module of its own.

An example is a block marked ```mlir. Values that it does not define become
arguments of a function around it, with the types that the first operation to
use them names; a mesh is added where it has none.
"""

import re
import sys
import textwrap

MESH = 'optimus.mesh @mesh <["row" = 2, "col" = 2]>'


def operand_types(operation, count):
    """The types that an operation's text gives its operands."""
    single = re.search(r" : (tensor<[^()]*>)$", operation)
    if single:
        return [single[1]] * count
    text = operation[re.search(r" : \(", operation.replace("\n", " ")).end() :]
    types, depth = [""], 0
    for char in text:
        depth += (char in "(<[{") - (char in ")>]}")
        if depth < 0:
            return [" ".join(each.split()) for each in types]
        if char == "," and depth == 0:
            types.append("")
        else:
            types[-1] += char
    raise ValueError("no types in %r" % operation)


def to_module(example):
    """A module around an example, or nothing if it has no operation on values."""
    lines = textwrap.dedent(example).splitlines()
    outside = [line for line in lines if re.match(r"#|//|optimus\.mesh", line)]
    body = "\n".join(line for line in lines if line not in outside)
    if "=" not in body:
        return "\n".join(outside) if "optimus.mesh" in example else None
    if "optimus.mesh" not in example:
        outside.insert(0, MESH)
    arguments, defined = {}, set()
    for operation in re.split(r"\n+(?=%)", body.strip()):
        results, rest = operation.split(" = ", 1)
        operands = re.findall(r"%\w+", rest)
        for operand, type in zip(operands, operand_types(rest, len(operands))):
            if operand not in defined:
                arguments.setdefault(operand, type)
        defined.update(re.findall(r"%\w+", results))
    signature = ", ".join("%s: %s" % item for item in arguments.items())
    return "%s\nfunc.func @example(%s) {\n%s\nreturn\n}" % (
        "\n".join(outside), signature, body)


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for definition in re.split(r"\n(?=def )", text):
            name = re.match(r"def (\w+)Op\b", definition)
            for example in re.findall(r"```mlir\n(.*?)```", definition, re.S):
                module = to_module(example) if name else None
                if module:
                    print("// %s\n%s\n\n// -----\n" % (name[1], module))


main()

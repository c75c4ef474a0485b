# ===- check_products.py - Every product that verifies is right ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes `ccl.matmul` with every way to cut its tensors over 2×3 ranks, and
compares those that verify with the serial product, in the interpreter.

    check_products.py FILE    FILE holds the candidates
"""

import itertools
import re
import subprocess
import sys

MESH = 'optimus.mesh @mesh <["row" = 2, "col" = 3]>\n'
SIZES = {"row": 2, "col": 3, None: 1}
# None is a multiple of 6, so all are padded.
EXTENTS = {"M": 5, "K": 7, "N": 4}
PANELS = 6
CUTS = [
    (one, other)
    for one, other in itertools.product((None, "row", "col"), repeat=2)
    if one is None or one != other
]
ADDENDS = [(), ("row",), ("col",), ("row", "col")]
# The order of at most 3 addends, each a sum of at most 12 products, in f64.
TOLERANCE = 1e-14

SERIAL = MESH + """
func.func @serial(%a: tensor<5x7xf32>, %b: tensor<7x4xf32>) -> tensor<5x4xf32> {
  %0 = optimus.matmul %a, %b : (tensor<5x7xf32>, tensor<7x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
"""


def local_type(dims, cut, addends=()):
    padded = [-(-EXTENTS[dim] // PANELS) * PANELS for dim in dims]
    local = "x".join(str(extent // SIZES[axis]) for extent, axis in zip(padded, cut))
    axes = ", ".join('{"%s"}' % axis if axis else "{}" for axis in cut)
    names = ", ".join('"%s"' % axis for axis in addends)
    return "tensor<%sxf32, #ccl.local<[%s], #optimus.sharding<@mesh, [%s]%s>>>" % (
        local,
        ", ".join(str(EXTENTS[dim]) for dim in dims),
        axes,
        ", unreduced = {%s}" % names if addends else "",
    )


def candidate(name, a, b, c, stationary, addends):
    """A function that multiplies and adds the result's addends up."""
    type_a, type_b = local_type("MK", a), local_type("KN", b)
    value, result = "%product", local_type("MN", c, addends)
    body = '  %%product = ccl.matmul %%a, %%b {stationary = "%s", panels = %d : i64}' % (
        stationary, PANELS)
    body += " : (%s, %s) -> %s\n" % (type_a, type_b, result)
    for count in reversed(range(len(addends))):
        rest = local_type("MN", c, addends[:count])
        body += '  %%sum%d = ccl.all_reduce %s {axis = "%s"} : (%s) -> %s\n' % (
            count, value, addends[count], result, rest)
        value, result = "%%sum%d" % count, rest
    return "func.func @%s(%%a: %s, %%b: %s) -> %s {\n%s  return %s : %s\n}\n" % (
        name, type_a, type_b, result, body, value, result)


def candidates():
    for a, b, c, stationary, addends in itertools.product(
        CUTS, CUTS, CUTS, "abc", ADDENDS
    ):
        if not set(addends) & set(c):
            name = "%s_stays_%s" % (stationary, "_".join(
                str(axis) for axis in a + b + c + addends))
            yield name, candidate(name, a, b, c, stationary, addends)


def main():
    functions = dict(candidates())
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n// -----\n".join(MESH + text for text in functions.values()))
    # What does not verify is reported and not printed.
    printed = subprocess.run(
        ["optimus-opt", sys.argv[1], "--split-input-file"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    verified = re.findall(r"func\.func @(\w+)", printed.stdout)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(SERIAL + "".join(functions[name] for name in verified))
    print("%d of %d products verify" % (len(verified), len(functions)))
    wrong = []
    for name in verified:
        run = subprocess.run(
            ["optimus-interpret", sys.argv[1], "--function", name,
             "--compare-with", "serial", "--draw", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        difference = re.match(r"result0: (\S+) from @serial", run.stdout)
        if not difference or float(difference[1]) > TOLERANCE:
            wrong.append("%s: %s" % (name, run.stdout))
    print("%d are wrong" % len(wrong))
    print("".join(wrong))


main()

# ===- check_products.py - Every product that verifies is right ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes `ccl.matmul` with every way to cut its tensors over 2×3 ranks, and
compares those that verify with the serial product, in the interpreter. Then
does so with an axis more, over which one index is cut alike in both tensors
that have it: nothing moves over that axis, and the result holds addends over
it where the index is the contracted one.

    check_products.py FILE            FILE holds the candidates
    check_products.py FILE PASSES     first rewrites those that verify
"""

import itertools
import math
import re
import subprocess
import sys

MESH = 'optimus.mesh @mesh <["data" = 2, "row" = 2, "col" = 3]>\n'
SIZES = {"data": 2, "row": 2, "col": 3}
# None is a multiple of 6, so all are padded.
EXTENTS = {"M": 5, "K": 7, "N": 4}
PANELS = 6
# Whatever two axes leave of it can be cut into panels.
PADDED = 24
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


def local_type(dims, cut, addends=(), shared=None):
    """`shared` is the dimension that the data axis cuts."""
    axes = [
        [axis for axis in ("data" if dim == shared else None, own) if axis]
        for dim, own in zip(dims, cut)
    ]
    local = "x".join(
        str(PADDED // math.prod(SIZES[axis] for axis in names)) for names in axes)
    if shared and shared not in dims:
        addends = ("data",) + addends
    def quote(names):
        return "{%s}" % ", ".join('"%s"' % name for name in names)
    return "tensor<%sxf32, #ccl.local<[%s], #optimus.sharding<@mesh, [%s]%s>>>" % (
        local,
        ", ".join(str(EXTENTS[dim]) for dim in dims),
        ", ".join(quote(names) for names in axes),
        ", unreduced = %s" % quote(addends) if addends else "",
    )


def candidate(name, a, b, c, stationary, addends, shared=None):
    """A function that multiplies and adds the result's addends up."""
    type_a = local_type("MK", a, (), shared if shared != "N" else None)
    type_b = local_type("KN", b, (), shared if shared != "M" else None)
    value, result = "%product", local_type("MN", c, addends, shared)
    body = '  %%product = ccl.matmul %%a, %%b {stationary = "%s", panels = %d : i64}' % (
        stationary, PANELS)
    body += " : (%s, %s) -> %s\n" % (type_a, type_b, result)
    for count in reversed(range(len(addends))):
        rest = local_type("MN", c, addends[:count], shared)
        body += '  %%sum%d = ccl.all_reduce %s {axis = "%s"} : (%s) -> %s\n' % (
            count, value, addends[count], result, rest)
        value, result = "%%sum%d" % count, rest
    if shared == "K":
        rest = local_type("MN", c)
        body += '  %%sum = ccl.all_reduce %s {axis = "data"} : (%s) -> %s\n' % (
            value, result, rest)
        value, result = "%sum", rest
    return "func.func @%s(%%a: %s, %%b: %s) -> %s {\n%s  return %s : %s\n}\n" % (
        name, type_a, type_b, result, body, value, result)


def candidates():
    for form in itertools.product(CUTS, CUTS, CUTS, "abc", ADDENDS):
        a, b, c, stationary, addends = form
        if not set(addends) & set(c):
            yield "%s_stays_%s" % (stationary, "_".join(
                str(axis) for axis in a + b + c + addends)), form


def find_verified(path, functions):
    """The names of those that verify."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n// -----\n".join(MESH + text for text in functions.values()))
    # What does not verify is reported and not printed.
    printed = subprocess.run(
        ["optimus-opt", path, "--split-input-file"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    verified = re.findall(r"func\.func @(\w+)", printed.stdout)
    print("%d of %d products verify" % (len(verified), len(functions)))
    return verified


def main():
    path, forms = sys.argv[1], dict(candidates())
    verified = find_verified(
        path, {name: candidate(name, *form) for name, form in forms.items()})
    functions = {name: candidate(name, *forms[name]) for name in verified}
    shared = {}
    for dim in "MKN":
        for name in verified:
            shared[name + "_data_" + dim] = candidate(
                name + "_data_" + dim, *forms[name], dim)
    for name in find_verified(path, shared):
        functions[name] = shared[name]
    with open(path, "w", encoding="utf-8") as file:
        file.write(SERIAL + "".join(functions.values()))
    if len(sys.argv) > 2:
        rewrite = ["optimus-opt", path, "--pass-pipeline=" + sys.argv[2]]
        text = subprocess.run(
            rewrite, stdout=subprocess.PIPE, text=True, check=True).stdout
        print("%d products are left" % text.count("ccl.matmul"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    wrong = []
    for name in functions:
        run = subprocess.run(
            ["optimus-interpret", path, "--function", name,
             "--compare-with", "serial", "--draw", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        difference = re.match(r"result0: (\S+) from @serial", run.stdout)
        if not difference or float(difference[1]) > TOLERANCE:
            wrong.append("%s: %s" % (name, run.stdout))
    print("%d are wrong" % len(wrong))
    print("".join(wrong))


main()

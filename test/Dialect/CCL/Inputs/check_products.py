# ===- check_products.py - Every product that verifies is right ------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes `ccl.matmul` with every way to shard its tensors over 2×3 ranks, and
compares those that verify with serial products, in the interpreter. Then
does so with an axis more, over which one index is sharded alike in both tensors
that have it: nothing moves over that axis, and the result holds partial sums over
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
SHARDINGS = [
    (one, other)
    for one, other in itertools.product((None, "row", "col"), repeat=2)
    if one is None or one != other
]
PARTIAL = [(), ("row",), ("col",), ("row", "col")]
# The order of at most 3 addends, each a sum of at most 12 products, in f64.
TOLERANCE = 1e-14


class Product:
    """One product: the types of %a, %b and the result, and what makes
    `result` of them. Its values have an @, which a number takes the place of
    where many are in one function."""

    def __init__(self, type_a, type_b, body, result, type_result):
        self.types, self.body = (type_a, type_b), body
        self.result, self.type_result = result, type_result


SERIAL = Product(
    "tensor<5x7xf32>", "tensor<7x4xf32>",
    "  %product@ = optimus.matmul %a@, %b@ : (tensor<5x7xf32>, tensor<7x4xf32>) -> tensor<5x4xf32>\n",
    "%product@", "tensor<5x4xf32>")


def function(name, products):
    arguments, body, results = [], "", []
    for number, product in enumerate(products):
        number = "_%d" % number
        for value, type_of in zip(("%a", "%b"), product.types):
            arguments.append("%s: %s" % (value + number, type_of))
        # Types have the mesh's name.
        body += re.sub(r"(%\w+)@", r"\1" + number, product.body)
        results.append(product.result.replace("@", number))
    types = ", ".join(product.type_result for product in products)
    return "func.func @%s(%s) -> (%s) {\n%s  return %s : %s\n}\n" % (
        name, ", ".join(arguments), types, body, ", ".join(results), types)


def local_type(dims, sharded, partial=(), shared=None):
    """`shared` is the dimension that the data axis shards."""
    axes = [
        [axis for axis in ("data" if dim == shared else None, own) if axis]
        for dim, own in zip(dims, sharded)
    ]
    local = "x".join(
        str(PADDED // math.prod(SIZES[axis] for axis in names)) for names in axes)
    if shared and shared not in dims:
        partial = ("data",) + partial
    def quote(names):
        return "{%s}" % ", ".join('"%s"' % name for name in names)
    return "tensor<%sxf32, #ccl.local<[%s], #optimus.sharding<@mesh, [%s]%s>>>" % (
        local,
        ", ".join(str(EXTENTS[dim]) for dim in dims),
        ", ".join(quote(names) for names in axes),
        ", unreduced = %s" % quote(partial) if partial else "",
    )


def candidate(a, b, c, stationary, partial, shared=None):
    """A product whose result's partial sums are added up."""
    type_a = local_type("MK", a, (), shared if shared != "N" else None)
    type_b = local_type("KN", b, (), shared if shared != "M" else None)
    value, result = "%product@", local_type("MN", c, partial, shared)
    body = '  %%product@ = ccl.matmul %%a@, %%b@ {stationary = "%s", panels = %d : i64}' % (
        stationary, PANELS)
    body += " : (%s, %s) -> %s\n" % (type_a, type_b, result)
    for count in reversed(range(len(partial))):
        rest = local_type("MN", c, partial[:count], shared)
        body += '  %%sum%d@ = ccl.all_reduce %s {axis = "%s"} : (%s) -> %s\n' % (
            count, value, partial[count], result, rest)
        value, result = "%%sum%d@" % count, rest
    if shared == "K":
        rest = local_type("MN", c)
        body += '  %%sum@ = ccl.all_reduce %s {axis = "data"} : (%s) -> %s\n' % (
            value, result, rest)
        value, result = "%sum@", rest
    return Product(type_a, type_b, body, value, result)


def candidates():
    for form in itertools.product(SHARDINGS, SHARDINGS, SHARDINGS, "abc", PARTIAL):
        a, b, c, stationary, partial = form
        if not set(partial) & set(c):
            yield "%s_stays_%s" % (stationary, "_".join(
                str(axis) for axis in a + b + c + partial)), form


def find_verified(path, products):
    """The names of those that verify."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n// -----\n".join(
            MESH + function(name, [product]) for name, product in products.items()))
    # What does not verify is reported and not printed.
    printed = subprocess.run(
        ["optimus-opt", path, "--split-input-file"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    verified = re.findall(r"func\.func @(\w+)", printed.stdout)
    print("%d of %d products verify" % (len(verified), len(products)))
    return verified


def find_wrong(path, names):
    """Those of the products of @all that are not the serial ones."""
    run = subprocess.run(
        ["optimus-interpret", path, "--function", "all",
         "--compare-with", "serial", "--draw", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = dict(re.findall(r"^result(\d+): (\S+) from @serial$", run.stdout, re.M))
    wrong = [name for number, name in enumerate(names)
             if not float(found.get(str(number), "inf")) <= TOLERANCE]
    return wrong, run.stdout if wrong else ""


def main():
    path, forms = sys.argv[1], dict(candidates())
    verified = find_verified(
        path, {name: candidate(*form) for name, form in forms.items()})
    products = {name: candidate(*forms[name]) for name in verified}
    shared = {}
    for dim in "MKN":
        for name in verified:
            shared[name + "_data_" + dim] = candidate(*forms[name], dim)
    for name in find_verified(path, shared):
        products[name] = shared[name]
    # Many in one function, as a process for each would take much longer.
    with open(path, "w", encoding="utf-8") as file:
        file.write(MESH + function("serial", [SERIAL] * len(products)))
        file.write(function("all", list(products.values())))
    if len(sys.argv) > 2:
        rewrite = ["optimus-opt", path, "--pass-pipeline=" + sys.argv[2]]
        text = subprocess.run(
            rewrite, stdout=subprocess.PIPE, text=True, check=True).stdout
        print("%d products are left" % text.count("ccl.matmul"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    wrong, output = find_wrong(path, products)
    print("%d are wrong" % len(wrong))
    print("\n".join(wrong) + output)
    # Each by itself, for the passes that follow.
    with open(path, "w", encoding="utf-8") as file:
        file.write(MESH + "".join(
            function(name, [product]) for name, product in products.items()))


main()

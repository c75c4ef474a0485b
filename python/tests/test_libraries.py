# ===- test_libraries.py - What a model library promises --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""A library is self-contained, loading it runs nothing, and nobody changes it.

The compiler keeps the promise for every family and processor; the runtime checks it
before it loads a library. runtime/model/unittests/SharedObjectTest.cpp breaks it in
ways that no linker writes.
"""

import json
import platform
import re
import shutil
import subprocess
import time

import pytest

from test_families import TRAINED
from tools import BertModel, LlamaModel, Model, call, read_log, succeed

FAMILIES = {
    "gpt2": Model(layers=1, hidden=24, heads=3, sequence=16, vocabulary=256, batch=6),
    "bert": BertModel(layers=1, hidden=24, heads=3, sequence=16, vocabulary=257, batch=6),
    "llama": LlamaModel(
        *(1, 24, 4), kv_heads=2, ffn=40, sequence=16, vocabulary=256, batch=6
    ),
    **TRAINED,
}
CROSS = "aarch64-linux-gnu:generic"
TARGETS = {
    "native": [],
    "bf16": ["--precision", "bf16"],
    # The least that such a processor has: what it lacks, code might call for.
    "baseline": ["--mcpu", "x86_64-linux-gnu:x86-64", "--precision", "bf16"],
    "arm": ["--mcpu", CROSS],
    "cuda": ["--target", "cuda", "--gpu-arch", "emulated"],
}
FOREIGN = {
    "baseline": platform.machine() == "x86_64",
    "arm": any(map(shutil.which, ["aarch64-linux-gnu-ld", "ld.lld"])),
}


def read_elf(library, flags):
    return succeed(call(["readelf", "--wide", *flags, str(library)]))


def cases():
    """Each family for this processor and each target once always, the rest if asked."""
    for family in FAMILIES:
        for target in TARGETS:
            always = target == "native" or family == "gpt2"
            marks = [] if always else [pytest.mark.long]
            yield pytest.param(family, target, marks=marks)


@pytest.mark.rotates
@pytest.mark.parametrize("family, target", cases())
def test_the_compiler_keeps_the_promise(tools, family, target):
    if not FOREIGN.get(target, True):
        pytest.skip("no linker makes libraries of that kind here")
    flags = [*TARGETS[target], "--optimizer", "lamb"]
    library = tools.library(FAMILIES[family], "row:2,col:2", "summa", *flags)
    tags = set(re.findall(r"^ 0x\w+ \((\w+)\)", read_elf(library, ["-d"]), re.MULTILINE))
    assert "SYMTAB" in tags
    assert not tags & {"NEEDED", "INIT", "FINI", "INIT_ARRAY", "FINI_ARRAY", "TEXTREL"}
    undefined = re.findall(r" UND (\S+)", read_elf(library, ["--dyn-syms"]))
    assert undefined == []
    relocations = set(re.findall(r" (R_\w+)", read_elf(library, ["-r"])))
    assert relocations and all(name.endswith("_RELATIVE") for name in relocations)


TRAP = "static void run(void) { __builtin_trap(); }\n"
BREACHES = {
    "another library": ("#include <math.h>\n", ["-Wl,--no-as-needed", "-lm"], "DT_NEEDED"),
    "a constructor": (
        "__attribute__((constructor)) " + TRAP,
        ["-nostdlib"],
        "DT_INIT_ARRAY",
    ),
    "a destructor": ("__attribute__((destructor)) " + TRAP, ["-nostdlib"], "DT_FINI_ARRAY"),
    "an initialiser": (
        TRAP.replace("static", ""),
        ["-nostdlib", "-Wl,-init=run"],
        "DT_INIT",
    ),
    "a finaliser": (TRAP.replace("static", ""), ["-nostdlib", "-Wl,-fini=run"], "DT_FINI"),
    "a resolver": (
        "static void *choose(void) { __builtin_trap(); }\n"
        "static void chosen(void) __attribute__((ifunc(\"choose\")));\n"
        "void (*const used)(void) = chosen;\n",
        ["-nostdlib"],
        "an IFUNC relocation",
    ),
    "an import": (
        "extern int elsewhere; int *const used = &elsewhere;\n",
        ["-nostdlib"],
        "it imports the symbol 'elsewhere'",
    ),
    "a weak import": (
        "extern int elsewhere __attribute__((weak)); int *const used = &elsewhere;\n",
        ["-nostdlib"],
        "it imports the symbol 'elsewhere'",
    ),
    "an executable stack": ("", ["-nostdlib", "-Wl,-z,execstack"], "a stack that is executable"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_refused_before_anything_runs(tools, text, tmp_path, breach):
    """Of each library, what would run is a trap."""
    source, flags, message = BREACHES[breach]
    path, library = tmp_path / "breach.c", tmp_path / "breach.so"
    path.write_text(
        source
        + '__attribute__((section(".optimus.manifest"))) const char manifest[] = "{}";\n'
        + '__attribute__((section(".optimus.programs"))) const char programs[8] = {0};\n'
        + "void *optimus_model_query(unsigned version) { __builtin_trap(); }\n"
    )
    succeed(call(["gcc", "-shared", "-fPIC", str(path), "-o", str(library), *flags]))
    result = tools.call("optimus-run", "train", library, "--data", text)
    assert result.returncode == 1, result.stderr
    assert message in result.stderr
    assert "`%s`" % library in result.stderr
    assert "compile the model again with optimus-compile" in result.stderr
    # Reading runs nothing: it is the manifest that is wrong.
    result = tools.call("optimus-run", "inspect", library)
    assert result.returncode == 1, result.stderr
    assert "manifest of `%s`" % library in result.stderr


def test_a_library_without_its_entry(tools, text, tmp_path):
    path, library = tmp_path / "none.c", tmp_path / "none.so"
    path.write_text(
        '__attribute__((section(".optimus.manifest"))) const char manifest[] = "{}";\n'
    )
    flags = ["-shared", "-fPIC", "-nostdlib", str(path), "-o", str(library)]
    succeed(call(["gcc", *flags]))
    result = tools.call("optimus-run", "train", library, "--data", text)
    assert result.returncode == 1
    assert "it has no symbol optimus_model_query" in result.stderr


@pytest.mark.skipif(not FOREIGN["arm"], reason="no linker makes libraries for ARM here")
def test_inspect_reads_libraries_of_other_processors(tools):
    model = FAMILIES["gpt2"]
    here = tools.library(model, "row:2,col:2", "summa")
    there = tools.library(model, "row:2,col:2", "summa", "--mcpu", CROSS)
    shown = [
        tools.run("optimus-run", "inspect", library, "--json") for library in (here, there)
    ]
    names = [[one["name"] for one in json.loads(text)["buffers"]] for text in shown]
    assert "h.0.attn.c_attn.weight" in names[0] and names[0] == names[1]
    assert "h.0.attn.c_attn.weight" in tools.run("optimus-run", "inspect", there)
    assert "function train_step" in tools.run("optimus-run", "inspect", there, "--commands")


@pytest.mark.parametrize("change", ["truncate", "overwrite"])
def test_a_library_that_changes_while_it_runs(tools, text, tmp_path, change):
    """The run has a copy: a mapped file cut short is a bus error, and an overwritten
    one runs unchecked code."""
    source = tools.library(FAMILIES["gpt2"])
    library, log = tmp_path / "model.so", tmp_path / "log.jsonl"
    expected = tools.train(source, text, 300, log=tmp_path / "expected.jsonl")
    shutil.copy(source, library)
    run = subprocess.Popen(
        tools.train_command(library, text, 300, log=log),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while run.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > 1):
        time.sleep(0.005)
    assert run.poll() is None, "the run was over before the library changed"
    with open(library, "r+b") as file:
        if change == "truncate":
            file.truncate(0)
        else:
            file.write(b"\xcc" * library.stat().st_size)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert [line["loss"] for line in read_log(log)] == [line["loss"] for line in expected]

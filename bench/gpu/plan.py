# ===- plan.py - The models that a GPU is measured with --------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""What `bench/gpu/pack` compiles, for a GPU or, tiny, for the fake one."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Library:
    """One model library of a pack."""

    name: str
    family: str
    sizes: dict
    """Flags of the model's builder."""
    precision: str
    target: str
    flags: tuple = ()
    mesh: str = ""
    reference: str = ""
    """The library whose gradients and losses this one must have."""
    timed: str = ""
    """The model of which this is one batch, where steps are timed."""
    gpu_bytes: int = 0
    """Of two libraries with the same ones, the first has the largest batch that
    a rank is predicted to hold in so much memory, and the second the next one."""

    @property
    def model(self):
        """Of which this is a batch and an attention; empty where nothing is timed."""
        return self.timed.partition(" ")[0]

    @property
    def is_emulated(self):
        """Whether its kernels are run alone, beside their emulation: all attention is ours."""
        return bool(self.reference) and not self.mesh and "cudnn" not in self.flags

    @property
    def file(self):
        return f"models/{self.name}.so"


MESHES = {
    "2x2": ("row:2,col:2", "summa"),
    "2x3": ("row:2,col:3", "summa"),
    "1x4": ("row:1,col:4", "megatron"),
}

# Heads of 16 channels, which GPUs attend to in tiles.
CHECKED = {
    "gpt2": dict(layers=2, hidden=64, heads=4, seq=64, vocab=512, batch=4, dropout=0.1),
    "bert": dict(layers=2, hidden=64, heads=4, seq=64, vocab=512, batch=4),
    "llama": {
        **dict(layers=2, hidden=64, heads=4, seq=64, vocab=512, batch=4, ffn=96),
        "kv-heads": 2,
    },
}
CUDNN = ("--attention", "cudnn")
BUILTIN = ("--attention", "builtin")
# The batch that matters most comes first, should time run out.
SMALL, LARGE = "gpt2-124m", "gpt2-1.5b"
TIMED = {
    SMALL: (dict(layers=12, hidden=768, heads=12, seq=1024, vocab=50304), [64, 16]),
    LARGE: (dict(layers=48, hidden=1600, heads=25, seq=1024, vocab=50304), [8]),
}
# Steps of the last batch of SMALL that drop out.
DROPOUT = 0.1
# With one layer and a few tokens, to see that everything runs.
TINY_CHECKED = {
    family: {**sizes, "layers": 1, "hidden": 32, "heads": 2, "seq": 8, "vocab": 64, "batch": 2}
    for family, sizes in CHECKED.items()
    if family != "bert"
}
TINY_MESHES = {"2x2": MESHES["2x2"]}
TINY_TIMED = {
    SMALL: (dict(layers=1, hidden=32, heads=2, seq=8, vocab=64), [2, 1]),
    LARGE: (dict(layers=1, hidden=48, heads=3, seq=8, vocab=64), [1]),
}


# The model for the largest batch, the batch's unit, and the memory of the fake GPU,
# which has 32 MiB for the workspace of products and one for attention's.
LARGEST, LARGEST_UNIT = SMALL, 4
TINY_GPU_BYTES = 34 << 20


def largest_libraries(batch, gpu_bytes, cuda, tiny=False):
    """The largest batch and the next one."""
    sizes, _ = (TINY_TIMED if tiny else TIMED)[LARGEST]
    return [
        Library(
            f"{LARGEST}-{name}",
            "gpt2",
            {**sizes, "batch": size},
            "bf16",
            "cuda",
            cuda,
            gpu_bytes=gpu_bytes,
        )
        for name, size in (("largest", batch), ("beyond", batch + LARGEST_UNIT))
    ]


def plan(architectures, tiny=False):
    """The libraries of a pack."""
    # Processors of any kind must run what the GPU is compared with.
    cpu = ("--mcpu", "x86-64")
    cuda = ("--gpu-arch", ",".join(architectures))
    libraries = []
    for family, sizes in (TINY_CHECKED if tiny else CHECKED).items():
        for precision in ("f32", "bf16"):
            if tiny and (family, precision) == ("llama", "bf16"):
                continue
            name = f"{family}-{precision}"
            shared = dict(family=family, sizes=sizes, precision=precision)
            # For steps of several batches.
            more = ("--accumulate",) if family == "gpt2" else ()
            reference = Library(f"{name}-cpu", target="cpu", flags=(*cpu, *more), **shared)
            shared["reference"] = reference.name
            libraries += [reference, Library(name, target="cuda", flags=(*cuda, *BUILTIN, *more), **shared)]
            if precision == "bf16":
                libraries.append(
                    Library(f"{name}-cudnn", target="cuda", flags=(*cuda, *CUDNN, *more), **shared)
                )
            if family != "gpt2" or (tiny and precision == "bf16"):
                continue
            for shape, (mesh, strategy) in (TINY_MESHES if tiny else MESHES).items():
                flags = (*cuda, *BUILTIN, "--mesh", mesh, "--strategy", strategy)
                libraries.append(
                    Library(f"{name}-{shape}", target="cuda", flags=flags, mesh=mesh, **shared)
                )
    for model, (sizes, batches) in (TINY_TIMED if tiny else TIMED).items():
        for batch in batches:
            shared = dict(family="gpt2", sizes={**sizes, "batch": batch}, precision="bf16", target="cuda")
            name = f"{model}-b{batch}"
            libraries += [
                Library(
                    f"{name}-cudnn",
                    flags=(*cuda, *CUDNN),
                    timed=f"{model} with cuDNN's attention",
                    **shared,
                ),
                Library(name, flags=(*cuda, *BUILTIN), timed=model, **shared),
            ]
        if model == SMALL:
            shared["sizes"] = {**shared["sizes"], "dropout": DROPOUT}
            timed = f"{model}-dropout with dropout of {DROPOUT}"
            libraries.append(Library(f"{name}-dropout", flags=cuda, timed=timed, **shared))
    return libraries


def operations_a_token(sizes):
    """Of a training step, by the usual formula: six for each parameter of a
    product and twelve for each channel that attention meets."""
    hidden, layers = sizes["hidden"], sizes["layers"]
    weights = 12 * layers * hidden * hidden + sizes["vocab"] * hidden
    return 6 * weights + 12 * layers * hidden * sizes["seq"]

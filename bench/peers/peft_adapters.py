#!/usr/bin/env python3
# ===- peft_adapters.py - Adapters that go to PEFT and back ---------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Adapters of rank 4, trained beside a base of each family, in PEFT: the folder of
`train --save` opens by PeftModel.from_pretrained() as it is, no tensor is missing or
unexpected, and in f64 the logits are those of our library, in f32. `convert --merge`
has the weights of merge_and_unload(), rounded once, and Transformers opens the folder.
All of them go on with the same greedy text.

Then the other way: adapters that PEFT drew and saved, by --load and by --merge.

    "$(bench/peers/setup)" bench/peers/peft_adapters.py --build build

Prints a row of a table for each family.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file
from transformers_checkpoints import REPOSITORY
from transformers_folders import Peer, off, read_build

SHAPE = "--layers 2 --hidden 48 --heads 6 --seq 64 --vocab 256 --batch 8"
LLAMA = SHAPE + " --kv-heads 2 --ffn 40"
FAMILIES = {
    "gpt2": ("gpt2 " + SHAPE, ["c_attn", "c_proj"]),
    "llama": ("llama " + LLAMA, ["q_proj", "v_proj", "down_proj"]),
    "qwen2": ("llama " + LLAMA + " --qkv-bias", ["q_proj", "k_proj", "o_proj"]),
    "qwen3": ("llama " + LLAMA + " --qk-norm --head-dim 14", ["q_proj", "up_proj"]),
    "phi": ("phi " + SHAPE, ["q_proj", "dense", "fc2"]),
    "gpt_neox": ("gpt_neox " + SHAPE, ["dense", "dense_h_to_4h"]),
}
RANK, ALPHA, WINDOWS, PROMPT, NEW = 4, 6, 4, 16, 24
TOLERANCE = 1e-6
"""Of the largest logit, as in transformers_folders.py."""
UNIT = 2.0**-24


class AdapterPeer(Peer):
    def __init__(self, build, folder):
        super().__init__(build, folder)
        text = (REPOSITORY / "README.md").read_bytes()
        self.data.write_bytes(bytes(byte for byte in text if byte < 128))
        self.tokens = np.frombuffer(self.data.read_bytes(), np.uint8).astype(np.int64)
        self.prompts = folder / "prompts.jsonl"
        self.prompts.write_text(json.dumps(self.tokens[:PROMPT].tolist()) + "\n")

    def logits(self, library, weights):
        output = self.folder / "logits.npy"
        flags = ["--data", self.data, "--windows", WINDOWS, "--load", weights, "-o", output]
        self.optimus("forward", library, *flags)
        return np.load(output)

    def text(self, library, weights):
        flags = ["--load", weights, "--tokens", self.prompts, "--max-tokens", NEW, "--json"]
        said = self.optimus("generate", library, *flags)
        return json.loads(said)["tokens"]

    def theirs(self, model):
        """Logits of a module, in f64, and its greedy text."""
        windows = self.tokens[: WINDOWS * 64].reshape(WINDOWS, 64)
        with torch.no_grad():
            logits = model.eval().double()(input_ids=torch.from_numpy(windows)).logits
            prompt = torch.from_numpy(self.tokens[None, :PROMPT])
            # Of these models no token ends a text.
            settings = dict(do_sample=False, max_new_tokens=NEW, eos_token_id=None, pad_token_id=0)
            text = model.generate(
                input_ids=prompt, attention_mask=torch.ones_like(prompt), **settings
            )
        return logits.numpy(), text[0, PROMPT:].tolist()


def open_base(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).double()


def open_adapters(base, folder):
    """Strictly."""
    model = peft.PeftModel.from_pretrained(open_base(base), folder)
    stored = peft.utils.load_peft_weights(folder, device="cpu")
    expected = peft.get_peft_model_state_dict(model)
    assert stored.keys() == expected.keys(), stored.keys() ^ expected.keys()
    return model


def merged_off(ours, model):
    """How far our merged weights are from PEFT's sums in f64, in units of a rounding."""
    sums = model.merge_and_unload().state_dict()
    stored = load_file(ours / "model.safetensors")
    worst = 0.0
    for name, weight in stored.items():
        # Files of GPT-2 lack a prefix, those of GPT-NeoX have another name for the head.
        known = (name, "transformer." + name, name.replace("embed_out", "lm_head"))
        exact = next(sums[one] for one in known if one in sums)
        error = (weight.double() - exact).abs() / exact.abs().clamp_min(1e-30)
        worst = max(worst, float(error.max()) / UNIT)
    return worst


def check(flags, targets, build, folder):
    peer = AdapterPeer(build, folder)
    more = ["--generate", "slots=1,context=64,chunk=16"]
    library = peer.compile("plain", *flags.split(), *more)
    start, base = folder / "start", folder / "base"
    train = ["--data", peer.data, "--steps", 30, "--lr", 0.003]
    peer.optimus("train", library, *train, "--save", start)
    peer.optimus("convert", "--load", start, "--save", base)
    lora = "rank=%d,alpha=%d,targets=%s" % (RANK, ALPHA, ",".join(targets))
    beside = peer.compile("beside", *flags.split(), *more, lora=lora)

    def compare(adapters):
        """Logits beside the base and merged, our merged weights, and the texts."""
        merged = folder / (adapters.name + "-merged")
        peer.optimus("convert", "--load", adapters, "--merge", "--save", merged)
        model = open_adapters(base, adapters)
        logits, text = peer.theirs(model)
        # They do something.
        assert off(peer.logits(library, base), logits) > 0.01
        whole, whole_text = peer.theirs(open_base(merged))
        texts = [peer.text(beside, adapters), peer.text(library, merged), whole_text]
        assert all(one == text for one in texts), (text, texts)
        return (
            off(peer.logits(beside, adapters), logits),
            off(peer.logits(library, merged), whole),
            merged_off(merged, model),
        )

    saved, drawn = folder / "saved", folder / "drawn"
    peer.optimus("train", beside, *train, "--load-weights", base, "--save", saved)
    found = [*compare(saved)]
    config = peft.LoraConfig(
        r=RANK,
        lora_alpha=ALPHA,
        target_modules=targets,
        fan_in_fan_out=flags.startswith("gpt2"),
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    torch.manual_seed(3)
    peft.get_peft_model(open_base(base).float(), config).save_pretrained(drawn)
    # PEFT has the name of a hub or a folder there.
    assert json.loads((drawn / "adapter_config.json").read_text())["base_model_name_or_path"]
    found += compare(drawn)
    return found


def main():
    build = read_build(__doc__)
    wrong = 0
    for family, (flags, targets) in FAMILIES.items():
        with tempfile.TemporaryDirectory() as name:
            found = check(flags, targets, build, pathlib.Path(name))
        logits, rounding = found[0:2] + found[3:5], found[2::3]
        cells = [family, ", ".join("`%s`" % one for one in targets), peft.__version__]
        cells += ["%.1e" % one for one in logits] + ["%.2f" % one for one in rounding]
        print("| %s |" % " | ".join(cells), flush=True)
        wrong += max(logits) > TOLERANCE or max(rounding) > 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# ===- lm_eval_scores.py - lm-eval asks optimus-serve ------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""PyPI's `lm-eval` evaluates a model by its `local-completions`, which asks `optimus-serve`
for prompts with log-probabilities, on two tasks of local JSON: choices behind a text, and
the perplexity of texts. `optimus-run score` is asked for the same.

    "$(bench/peers/setup lm-eval)" bench/peers/lm_eval_scores.py --build build

The model has a tokenizer of 512 tokens, and is trained for a moment on the licence's
paragraphs, with its token for the end between them. Behind some of the texts this is the
most probable token. Prints the figures of both; fails where a sum of log-probabilities
differs by more than 1e-4, or a choice.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import lm_eval  # noqa: E402
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
from lm_eval.models.openai_completions import LocalCompletionsAPI  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Tools, run  # noqa: E402

sys.path.append(str(ROOT / "python/tests"))
from serving import Server  # noqa: E402

END, VOCABULARY, CONTEXT = "<|end|>", 512, 128
TOLERANCE = 1e-4
CHOICES = {
    "task": "choices", "dataset_path": "json", "test_split": "test",
    "output_type": "multiple_choice", "doc_to_text": "{{text}}",
    "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}", "target_delimiter": "",
    "metric_list": [{"metric": name} for name in ("acc", "acc_norm")],
}
TEXTS = {
    "task": "texts", "dataset_path": "json", "test_split": "test",
    "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
    "metric_list": [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
}


def train_tokenizer(paragraphs, folder):
    found = tokenizers.Tokenizer(tokenizers.models.BPE())
    found.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    found.train_from_iterator(paragraphs, trainer)
    folder.mkdir()
    found.save(str(folder / "tokenizer.json"))
    configuration = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    end = {"eos_token_id": found.token_to_id(END)}
    (folder / "generation_config.json").write_text(json.dumps(end))
    return found


def train_model(tools, folder, tokens):
    """The library, and the folder with its weights and tokenizer."""
    source = tools.build_model(
        folder / "gpt.mlir", layers=2, hidden=64, heads=2, seq=CONTEXT, vocab=VOCABULARY,
        batch=8, functions="loss", generate=f"slots=4,context={CONTEXT},chunk=32")
    library, data, state = folder / "gpt.so", folder / "tokens.bin", folder / "state"
    tools.compile(source, library)
    np.array(tokens, np.uint16).tofile(data)
    run([tools.path("run"), "train", library, "--data", data, "--steps", 300, "--lr", 3e-3,
         "--save", state])
    for file in (folder / "tokenizer").iterdir():
        (state / file.name).write_bytes(file.read_bytes())
    return library, state


class Scores:
    """Those of `optimus-run score`."""

    def __init__(self, tools, library, state, folder):
        self._command = [tools.path("run"), "score", library, "--load", state, "--tokens"]
        self._file = folder / "scored.jsonl"

    def __call__(self, line):
        self._file.write_text(json.dumps(line))
        return json.loads(run([*self._command, self._file]))


def evaluate(model, task, documents, folder):
    """lm-eval's figures, and its samples."""
    file = folder / (task["task"] + ".jsonl")
    file.write_text("".join(json.dumps(document) + "\n" for document in documents))
    task = {**task, "dataset_kwargs": {"data_files": {"test": str(file)}}}
    found = lm_eval.simple_evaluate(model=model, tasks=[task], bootstrap_iters=0)
    samples = found["samples"][task["task"]]
    return found["results"][task["task"]], sorted(samples, key=lambda one: one["doc_id"])


class Comparison:
    def __init__(self):
        self.wrong, self.apart, self.count = 0, 0.0, 0

    def add(self, theirs, ours):
        self.count += 1
        self.apart = max(self.apart, abs(theirs - ours))
        self.wrong += not abs(theirs - ours) <= TOLERANCE


def compare_choices(model, documents, score, folder):
    figures, samples = evaluate(model, CHOICES, documents, folder)
    compared, right = Comparison(), 0
    for document, sample in zip(documents, samples):
        pairs = [model._encode_pair(document["text"], choice) for choice in document["choices"]]
        said = [score({"tokens": begin, "choices": [rest]})["log_probabilities"][0]
                for begin, rest in pairs]
        for response, ours in zip(sample["filtered_resps"], said):
            compared.add(float(response[0]), ours)
        right += int(np.argmax(said)) == document["answer"]
    compared.wrong += figures["acc,none"] != right / len(documents)
    print(f"choices: acc {figures['acc,none']:.4f}, by optimus-run score "
          f"{right / len(documents):.4f}; {compared.count} sums differ by {compared.apart:.1e}")
    return compared


def compare_texts(model, texts, score, folder):
    figures, samples = evaluate(model, TEXTS, [{"text": text} for text in texts], folder)
    compared, total, words = Comparison(), 0.0, 0
    for text, sample in zip(texts, samples):
        tokens = [model.prefix_token_id, *model.tok_encode(text)]
        ours = score(tokens)["log_probability"]
        compared.add(float(np.ravel(sample["filtered_resps"])[0]), ours)
        total, words = total + ours, words + len(re.split(r"\s+", text))
    perplexity = np.exp(-total / words)
    theirs = figures["word_perplexity,none"]
    compared.wrong += not abs(theirs / perplexity - 1) <= TOLERANCE
    print(f"texts: word perplexity {theirs:.4f}, by optimus-run score {perplexity:.4f}; "
          f"{compared.count} sums differ by {compared.apart:.1e}")
    return compared


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    tools = Tools(parser.parse_args().build)
    paragraphs = (ROOT / "LICENSE").read_text().split("\n\n")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = train_tokenizer(paragraphs, folder / "tokenizer")
        end = tokenizer.token_to_id(END)
        encoded = [tokenizer.encode(paragraph).ids for paragraph in paragraphs]
        library, state = train_model(
            tools, folder, [token for tokens in encoded for token in [*tokens, end]] * 4)
        short = [text for text, tokens in zip(paragraphs, encoded)
                 if 8 < len(tokens) < 100 and len(text.split()) > 2]
        documents = []
        for number, text in enumerate(short):
            words = text.split()
            half = (len(words) + 1) // 2
            begin, rest = " ".join(words[:half]), " " + " ".join(words[half:])
            others = [" " + short[number - 1].strip()[:40], rest[:20] + " of", " and"]
            documents.append({"text": begin, "choices": [rest, *others], "answer": 0})
        # Server and compiler's Python has no tokenizers of its own.
        places = [str(pathlib.Path(tokenizers.__file__).parents[1])]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(places))
        command = [tools.path("serve"), library, "--load", state, "--name", "tiny"]
        with Server(list(map(str, command)), env=environment) as server:
            model = LocalCompletionsAPI(
                base_url=f"http://127.0.0.1:{server.port}/v1/completions", model="tiny",
                tokenizer=str(state), tokenizer_backend="huggingface", max_length=CONTEXT,
                batch_size=8)
            score = Scores(tools, library, state, folder)
            compared = [compare_choices(model, documents, score, folder),
                        compare_texts(model, short, score, folder)]
            answers = [server.complete(prompt=tokenizer.encode(text).ids, max_tokens=1,
                                       temperature=0) for text in short]
    ends = sum(answer["choices"][0]["finish_reason"] == "stop" for answer in answers)
    wrong = sum(each.wrong for each in compared)
    print(f"lm-eval {lm_eval.__version__}: {wrong} differ; behind {ends} of {len(short)} texts "
          "the end is most probable")
    return 1 if wrong or not ends else 0


if __name__ == "__main__":
    sys.exit(main())

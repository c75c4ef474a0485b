#!/usr/bin/env python3
# ===- openai_client.py - OpenAI's own client of optimus-serve ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""PyPI's `openai`, unchanged, asks `optimus-serve` for completions and chats, whole and
as streams, for log-probabilities, models and embeddings, and for what is refused: each
answer is that of plain HTTP, and each refusal an error of the client's own.

    pip install openai
    bench/peers/openai_client.py --build build

Prints a line for each request; fails where one differs.
"""

import argparse
import pathlib
import random
import sys
import tempfile

import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Tools, run  # noqa: E402

sys.path.append(str(ROOT / "python/tests"))
from serving import Server  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
CHAT = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]


class Requests:
    def __init__(self, server, client):
        self._server, self._client, self.wrong = server, client, 0

    def expect(self, name, found, expected):
        self.wrong += found != expected
        print(f"{name}: {'as by HTTP' if found == expected else f'{found!r}, not {expected!r}'}")

    def complete(self, name, **body):
        """The same by both; a stream has the same text in parts."""
        whole = self._server.complete(**body)
        ours = {"model": "tiny", **body}
        # What OpenAI's API does not know goes beside the rest.
        extra = {key: ours.pop(key) for key in ("top_k", "beams") if key in ours}
        said = self._client.completions.create(**ours, extra_body=extra)
        texts = [choice["text"] for choice in whole["choices"]]
        self.expect(name, [choice.text for choice in said.choices], texts)
        self.expect(name + ", usage", said.usage.to_dict(), whole["usage"])
        if body.get("logprobs") is not None:
            known = [choice["logprobs"] for choice in whole["choices"]]
            self.expect(
                name + ", logprobs", [each.logprobs.to_dict() for each in said.choices], known
            )
        parts = [""] * len(texts)
        for event in self._client.completions.create(**ours, extra_body=extra, stream=True):
            for choice in event.choices:
                parts[choice.index] += choice.text
        self.expect(name + ", streamed", parts, texts)

    def chat(self):
        body = {"messages": CHAT, "max_completion_tokens": 12, "temperature": 0}
        reply = self._server.post("/v1/chat/completions", body).json()
        expected = reply["choices"][0]["message"]["content"]
        said = self._client.chat.completions.create(model="tiny", **body)
        self.expect("chat", said.choices[0].message.content, expected)
        events = self._client.chat.completions.create(model="tiny", **body, stream=True)
        text = "".join(event.choices[0].delta.content or "" for event in events)
        self.expect("chat, streamed", text, expected)

    def refuse(self, name, error, create, **body):
        try:
            create(model="tiny", **body)
            found = None
        except openai.OpenAIError as refused:
            found = type(refused)
        self.expect(name, found, error)

    def all(self):
        client = self._client
        self.expect("models", [each.id for each in client.models.list()], ["tiny"])
        self.complete("a completion", prompt="abc", max_tokens=9, temperature=0)
        self.complete("draws", prompt="abc", max_tokens=9, n=3, seed=5, temperature=1.5, top_k=40)
        self.complete("lists", prompt=["ab", "e d"], max_tokens=5, seed=1, stop=["a", "zz"])
        self.complete(
            "scores", prompt=[97, 98, 99], max_tokens=0, logprobs=2, echo=True, temperature=0
        )
        self.complete("beams", prompt="ab", max_tokens=6, temperature=0, beams=2)
        self.chat()
        create = client.completions.create
        self.refuse("tools", openai.BadRequestError, client.chat.completions.create,
                    messages=CHAT, tools=[{"type": "function", "function": {"name": "f"}}])
        self.refuse("best_of", openai.BadRequestError, create, prompt="a", best_of=2)
        self.refuse("no such token", openai.BadRequestError, create, prompt=[256])
        self.refuse("beyond the context", openai.BadRequestError, create, prompt="a" * 300)
        self.refuse("no embeddings", openai.NotFoundError, client.embeddings.create, input="a")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    tools = Tools(parser.parse_args().build)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = tools.build_model(
            folder / "gpt.mlir", layers=2, hidden=64, heads=2, seq=256, vocab=256, batch=1,
            functions="loss", generate="slots=4,context=256,chunk=32")
        library, text, state = folder / "gpt.so", folder / "text.txt", folder / "state"
        tools.compile(source, library)
        text.write_bytes(bytes(random.Random(1).choices(b"abcde \n", k=20_000)))
        run([tools.path("run"), "train", library, "--data", text, "--steps", 20,
             "--save", state])
        (state / "chat_template.jinja").write_text(TEMPLATE)
        command = [tools.path("serve"), library, "--load", state, "--name", "tiny"]
        with Server(list(map(str, command))) as server:
            where = f"http://127.0.0.1:{server.port}/v1"
            client = openai.OpenAI(base_url=where, api_key="none", max_retries=0)
            requests = Requests(server, client)
            requests.all()
    print(f"openai {openai.__version__}: {requests.wrong} differ")
    return 1 if requests.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

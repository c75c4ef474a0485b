# ===- records.py - What was found so far, and how it reads ----------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Results of checks in results.json and, for people, results.md. Both are rewritten
whole after every check, so that the findings stay, however a job ends."""

import json
import os
import pathlib
import tarfile

FAKE = "**Fake driver, not a measurement:** kernels were emulated on a processor."


def replace(path, text):
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def unpack(archive, folder):
    """Puts the archive of an earlier run where this one goes on."""
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            path = pathlib.PurePosixPath(member.name)
            # The folder's name may be another now.
            if not member.isfile() or ".." in path.parts or len(path.parts) < 2:
                continue
            target = folder.joinpath(*path.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.extractfile(member).read())


class Records:
    """The results of the checks of one pack in one folder."""

    def __init__(self, folder, pack, fake):
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._all = {"format": 2, "pack": pack, "fake": fake, "checks": {}}
        if self._json.exists():
            before = json.loads(self._json.read_text(encoding="utf-8"))
            # Of another pack nothing counts.
            if (before["format"], before["pack"], before["fake"]) == (2, pack, fake):
                self._all = before

    @property
    def _json(self):
        return self._folder / "results.json"

    @property
    def checks(self):
        return self._all["checks"]

    def is_done(self, name):
        check = self.checks.get(name, {})
        # What was answered "no" is asked again: the machine may be another one now.
        return check.get("status") == "passed" and check.get("figures", {}).get("answer") != "no"

    def figures_of(self, name):
        """Those of a check that passed; none of any other."""
        return self.checks.get(name, {}).get("figures", {}) if self.is_done(name) else {}

    @property
    def archive(self):
        return self._folder.with_name(self._folder.name + ".tar.gz")

    def pack_up(self):
        """Writes the archive of all that was found and said, whole or not at all."""
        part = self.archive.with_name(self.archive.name + ".part")
        with tarfile.open(part, "w:gz") as out:
            out.add(self._folder, "results")
        os.replace(part, self.archive)

    def note(self, name, **result):
        self.checks[name] = result
        replace(self._json, json.dumps(self._all, indent=1, ensure_ascii=False) + "\n")
        replace(self._folder / "results.md", render(self._all))


def number(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())


def table(rows):
    """Of dictionaries with the same keys."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows:
        lines.append("| " + " | ".join(number(row.get(name)) for name in names) + " |")
    return "\n".join(lines)


def steps_beside_torch(checks):
    """For each model that was timed, its batches beside PyTorch's, and the best."""
    models = {}
    for name, check in checks.items():
        kind, _, what = name.partition("/")
        if kind in ("steps", "torch") and check["status"] == "passed":
            figures = check["figures"]
            batches = models.setdefault(figures["model"], {})
            batches.setdefault(figures["batch"], {})[kind] = figures
    sections = []
    for model, batches in sorted(models.items()):
        rows, best = [], {}
        for batch, found in sorted(batches.items()):
            ours, theirs = found.get("steps", {}), found.get("torch", {})
            rates = ours.get("tokens_per_s"), theirs.get("tokens_per_s")
            for kind, rate in zip(("ours", "theirs"), rates):
                if rate and rate > best.get(kind, (0,))[0]:
                    best[kind] = rate, batch
            rows.append({
                "batch": batch,
                "ms a step": ours.get("ms"),
                "tokens/s": rates[0],
                "TFLOP/s": ours.get("tflops"),
                "PyTorch, ms": theirs.get("ms"),
                "PyTorch, tokens/s": rates[1],
                "its attention": theirs.get("attention"),
                "ours / PyTorch": rates[0] / rates[1] if all(rates) else None,
            })
        text = f"## Steps of {model}\n\n{table(rows)}\n"
        for kind, whose in (("ours", "Best batch"), ("theirs", "PyTorch's best batch")):
            if kind in best:
                text += f"\n{whose}: {best[kind][1]}, {number(float(best[kind][0]))} tokens/s."
        if len(best) == 2:
            text += f"\nOurs is {best['ours'][0] / best['theirs'][0]:.3f} times PyTorch's."
        sections.append(text + "\n")
    return sections


def render(results):
    """All results as a page."""
    checks = results["checks"]
    lines = ["# Measured on a GPU", ""]
    if results["fake"]:
        lines += [FAKE, ""]
    rows = [
        {
            "job": check["job"],
            "check": name,
            "result": check["status"],
            "seconds": check["seconds"],
            "what": check.get("reason") or check.get("summary", ""),
        }
        for name, check in sorted(checks.items(), key=lambda item: item[1]["job"])
    ]
    lines += ["## Checks", "", table(rows), ""]
    lines += steps_beside_torch(checks)
    for name, check in checks.items():
        if check.get("rows"):
            lines += ["", f"## {check['title']}", "", table(check["rows"])]
    return "\n".join(lines) + "\n"

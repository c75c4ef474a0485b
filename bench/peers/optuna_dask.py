# ===- optuna_dask - A search by Optuna on Dask ---------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Trials of a search of optimus-tune by Optuna on Dask.distributed, as the documentation
of Optuna's DaskStorage has it: a storage on Dask's scheduler, and a call of
`study.optimize(objective, n_trials=1)` for each trial, which the workers take as they are
free. Reads JSON, and writes JSON with seconds, losses and what was killed:

    {"workers": [{"name": "small", "prefix": […], "memory_mib": 1024}], "trials": [{values}],
     "folder": DIR, "compile": PATH, "run": PATH, "timeout": SECONDS}

A worker whose wall time ends is started again, as a queue does. A trial that was killed,
with its worker or for memory, is enqueued again, until all have ended. The clock begins
when all workers are there. `bench/run search --peer FOLDER` runs it.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import optuna
from distributed import Client, LocalCluster, wait
from optuna_integration import DaskStorage

LAST = 900
"""Seconds, after which a trial is lost."""


def objective(trial, given):
    """Builds, compiles and trains by the values that were enqueued."""
    index = trial.suggest_int("index", 0, len(given["trials"]) - 1)
    values = given["trials"][index]
    folder = pathlib.Path(given["folder"]) / f"{index}-{trial.number}"
    folder.mkdir(parents=True)

    def flags(group):
        return [f"--{name.partition('.')[2]}" + (f"={value}" if value is not True else "")
                for name, value in values.items()
                if name.startswith(group + ".") and name != "model.name"]

    def call(*command):
        subprocess.run([*map(str, command)], check=True, cwd=given["folder"],
                       timeout=given["timeout"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    model, library, log = (folder / name for name in ("a.mlir", "a.so", "log.jsonl"))
    call(sys.executable, "-m", "optimus.models", values["model.name"], *flags("model"), "-o",
         model)
    call(given["compile"], model, *flags("compile"), "-o", library)
    call(given["run"], "train", library, *flags("train"), "--log-json", log)
    losses = [json.loads(line).get("loss") for line in log.read_text().splitlines()]
    return [loss for loss in losses if loss is not None][-1]


class Workers:
    """`dask worker` by each prefix, started again whenever it ends."""

    def __init__(self, given, address):
        self._given, self._address, self.ended = given, address, 0
        self._is_over = False
        self._processes = {}
        for place in range(len(given["workers"])):
            threading.Thread(target=self._keep, args=(place,), daemon=True).start()

    def _keep(self, place):
        worker = self._given["workers"][place]
        while not self._is_over:
            self._processes[place] = subprocess.Popen(
                [*worker["prefix"], sys.executable, "-m", "distributed.cli.dask_worker",
                 self._address, "--name", worker["name"], "--nworkers", "1", "--nthreads",
                 "1", "--no-nanny", "--memory-limit", f"{worker['memory_mib']}MiB",
                 "--no-dashboard", "--local-directory", self._given["folder"]],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._processes[place].wait()
            self.ended += not self._is_over

    def close(self):
        self._is_over = True
        for process in self._processes.values():
            process.kill()


def main():
    given = json.load(sys.stdin)
    count = len(given["trials"])
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        workers = Workers(given, cluster.scheduler_address)
        client.wait_for_workers(len(given["workers"]), timeout=LAST)
        study = optuna.create_study(
            storage=DaskStorage(client=client), sampler=optuna.samplers.RandomSampler(seed=5))
        begin, failed = time.monotonic(), 0
        missing = set(range(count))
        ends = {}
        while missing and time.monotonic() < begin + LAST:
            for index in sorted(missing):
                study.enqueue_trial({"index": index})
            futures = [
                client.submit(study.optimize, lambda trial: objective(trial, given), n_trials=1,
                              pure=False) for _ in missing]
            wait(futures, timeout=LAST)
            failed += sum(future.status == "error" for future in futures)
            for trial in study.get_trials(deepcopy=False):
                if trial.state == optuna.trial.TrialState.COMPLETE:
                    ends[trial.params["index"]] = (
                        trial.datetime_complete.timestamp(), trial.value)
            missing -= set(ends)
        seconds = time.monotonic() - begin
        now = time.time()
        workers.close()
    json.dump({
        "seconds": seconds, "failed": failed, "workers_ended": workers.ended,
        "ends": {index: [seconds - (now - at), loss] for index, (at, loss) in ends.items()},
    }, sys.stdout)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()

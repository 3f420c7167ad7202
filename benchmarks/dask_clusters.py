"""Dask clusters for tests and benchmarks: worker processes of this machine, workers started by hand, lost workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed.diagnostics.plugin import SchedulerPlugin

# On a busy machine a worker process takes longer to start than Dask waits by default.
_PATIENT = {"distributed.comm.timeouts.connect": "120s", "distributed.comm.timeouts.tcp": "120s"}
_OPTIONS = {"dashboard_address": ":0", "worker_dashboard_address": ":0", "silence_logs": 50}


@contextmanager
def local_cluster(n: int) -> Iterator[Any]:
    """Start a cluster of n worker processes with one thread each, and yield its client."""
    with (
        dask.config.set(_PATIENT),
        distributed.LocalCluster(n_workers=n, threads_per_worker=1, **_OPTIONS) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def workers_by_hand(n: int) -> Iterator[Any]:
    """Start ``dask scheduler`` and n times ``dask worker`` as programs that talk over TCP, and yield a client."""
    programs: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> None:
        command = [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        programs.append(subprocess.Popen(command, **quiet))

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "scheduler.json")
        try:
            start("scheduler", "--port", "0", "--scheduler-file", file)
            for _ in range(n):
                start("worker", "--nthreads", "1", "--scheduler-file", file, "--local-directory", folder)
            with distributed.Client(scheduler_file=file, timeout=60) as client:
                client.wait_for_workers(n, timeout=120)
                yield client
        finally:
            for program in reversed(programs):
                program.terminate()
            for program in programs:
                program.wait(30)


class EndWorker(SchedulerPlugin):  # type: ignore[misc]
    """Ends the worker process that gets a task of a stage, once.

    stage: Name of the tasks, such as ``"scores of contexts"``.
    processes: Process of each worker, by its address.
    after: Number of tasks of the stage that are given to workers before.
    """

    def __init__(self, stage: str, processes: dict[str, int], after: int = 0) -> None:
        self.stage, self.processes, self.after, self.ended = f"dmlrank {stage}", processes, after, 0
        self._seen = 0

    def transition(self, key: Any, start: str, finish: str, *arguments: Any, **keywords: Any) -> None:
        """End the worker to which the task is given."""
        name = key[0] if isinstance(key, tuple) else str(key)
        if finish != "processing" or not name.startswith(self.stage) or self.ended:
            return
        self._seen += 1
        if self._seen > self.after:
            address = self.scheduler.tasks[key].processing_on.address
            self.ended = self.processes.get(address, 0)
            if self.ended:
                os.kill(self.ended, signal.SIGKILL)

    async def start(self, scheduler: Any) -> None:
        """Keep the scheduler."""
        self.scheduler = scheduler


@contextmanager
def ending_a_worker(client: Any, stage: str, after: int = 0) -> Iterator[EndWorker]:
    """End one worker process of a local cluster in a stage of a fit within the ``with`` block."""
    # A worker that was ended before may still be among the scheduler's workers.
    processes = client.run(os.getpid, on_error="ignore")
    plugin = EndWorker(stage, {address: pid for address, pid in processes.items() if isinstance(pid, int)}, after)
    scheduler = client.cluster.scheduler
    plugin.scheduler = scheduler
    scheduler.add_plugin(plugin, name="end a worker")
    try:
        yield plugin
    finally:
        scheduler.remove_plugin(name="end a worker")

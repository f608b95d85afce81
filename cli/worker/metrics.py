"""What the processes of `telesto worker` have done, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Metrics:
    """Counts over all processes, those that have ended included."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._tasks = Counter(
            "telesto_tasks",
            "Messages that tasks were called for, by how that ended: done, failed, rejected or cancelled.",
            ["task", "outcome"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "telesto_task_seconds", "How long tasks ran.", ["task"], registry=self._registry, buckets=BUCKETS
        )
        self._processes = Gauge("telesto_worker_processes", "Processes at work.", registry=self._registry)
        self._restarts = Counter(
            "telesto_worker_restarts", "Processes that died and were replaced.", registry=self._registry
        )

    def done(self, task: str, outcome: str, seconds: float) -> None:
        """Count a message."""
        self._tasks.labels(task, outcome).inc()
        self._seconds.labels(task).observe(seconds)

    def processes(self, count: int) -> None:
        """So many processes are at work."""
        self._processes.set(count)

    def restarted(self) -> None:
        """Count a process that died."""
        self._restarts.inc()

    @contextmanager
    def served(self, host: str, port: int) -> Iterator[str]:
        """Serve them inside the block; gives the address. Raises CommandError when it is in use."""
        try:
            server, thread = start_http_server(port, host, self._registry)
        except OSError as error:
            raise CommandError(
                f"cannot serve metrics on {host}:{port}: {error.strerror}", ExitCode.IN_USE
            ) from error
        try:
            yield f"{host}:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

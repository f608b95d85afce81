"""Services and consumers as processes, for scenarios."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from started import STARTED, end

PATIENCE_S = 60.0
SERVE = ["-m", "telesto.cli.main", "serve", "--port", "0", "--admin-port", "0", "--json"]


def clean_environment() -> dict[str, str]:
    """The environment without the user's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TELESTO_")}


@contextmanager
def serving(database_url: str) -> Iterator[dict[str, Any]]:
    """A running service: what `telesto serve --json` says about it."""
    with subprocess.Popen(
        [*STARTED, sys.executable, *SERVE],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment() | {"TELESTO_DATABASE_URL": database_url},
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            end(process)


class Worker:
    """A consumer in a process of its own, which does what it is told; see worker_process.py."""

    def __init__(self, url: str, name: str, queue_id: int, credit: int = 256) -> None:
        task = {"url": url, "name": name, "queue_id": queue_id, "credit": credit}
        program = Path(__file__).with_name("worker_process.py")
        self._process = subprocess.Popen(
            [*STARTED, sys.executable, str(program), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
        )
        self._answer()

    def take(self) -> dict[str, Any]:
        """Takes the next message, which is held then; its fields."""
        return self._do("take")

    def ack(self) -> None:
        """Acknowledges the message that it has held longest, and waits for the answer."""
        self._do("ack")

    def crash(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.crash()
        self._process.communicate()

    def _do(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

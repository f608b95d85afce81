"""Programs that the tests of the examples start as a user does, and what they print."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

#: Seconds after which something counts as not happening: far more than it takes, for machines may be busy.
LIMIT = 60.0


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that gives no signal."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it has not come true in time"
        time.sleep(0.05)


class Program:
    """A program that runs, and the lines that it prints."""

    def __init__(
        self, command: tuple[str, ...], folder: Path, environment: dict[str, str], with_errors: bool = False
    ) -> None:
        # A session of its own, so that the processes that it starts can be ended with it.
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if with_errors else None,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self) -> str:
        """Wait for the next line."""
        line = self._lines.get(timeout=LIMIT)
        assert line is not None, "the program has ended"
        return line

    def wait_for(self, text: str) -> str:
        """Wait for a line that contains the text, and return it."""
        while text not in (line := self.line()):
            pass
        return line

    def finish(self, text: str = "") -> list[str]:
        """Give it the text as its input, wait for its end, and return the lines that are left."""
        assert self.process.stdin is not None
        with self.process.stdin as stdin:
            stdin.write(text)
        assert self.process.wait(LIMIT) == 0
        self._reading.join(LIMIT)
        return list(iter(self._lines.get_nowait, None))

    def stop(self) -> list[str]:
        """End it as an operator does, and return the lines that are left."""
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def kill(self) -> None:
        """End it, and all processes that it has started, in the middle of what they do."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(LIMIT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reading.join(LIMIT)

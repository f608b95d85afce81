"""A worker that the message "poison" kills, in the way that it is told to consume: see test_begun.py."""

import os
import signal

import consuming_process
from telesto.client import Message


def handle(message: Message) -> None:
    """Says what it has, or dies of it in its first statement."""
    if message.text == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    print(message.text, flush=True)


if __name__ == "__main__":
    consuming_process.main(handle, lambda how: {"concurrency": 8 if how == "threads" else 1})

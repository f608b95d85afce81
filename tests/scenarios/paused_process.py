"""A worker that prints what it begins, and waits for a line when that is "first": see test_paused.py."""

import os
import sys

import consuming_process
from telesto.client import Message


def handle(message: Message) -> None:
    """Says what it has; the whole process stands still meanwhile if it is an event loop."""
    print(message.text, flush=True)
    if message.text == "first":
        sys.stdin.readline()
    if message.text == "end":
        os._exit(0)


if __name__ == "__main__":
    consuming_process.main(handle, lambda how: {"keep_alive": how == "kept"})

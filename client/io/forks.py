"""Keeps a forked child process from using its parent's connections.

A socket shared by two processes would mix their frames; so in the child every client of the parent refuses to
work, with a clear error. This costs nothing while a client is used.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from telesto.client.errors import ForkedError


class Forkable(Protocol):
    """A client that can be told that it belongs to the parent process."""

    def forked(self, error: ForkedError) -> None:
        """This process is a child of the one that made the client."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(client: Forkable) -> None:
    """Tells the client when this process turns out to be a child of the one that made it."""
    _watched.add(client)


def _in_child() -> None:
    for client in list(_watched):
        client.forked(
            ForkedError("this client was opened before the process was forked; open a new one in the child")
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

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
    """The driver of a client, for asyncio or for threads."""

    def forked(self, error: ForkedError) -> None:
        """This process is a child of the one that made the client."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(driver: Forkable) -> None:
    """Tells the driver when this process turns out to be a child of the one that made it."""
    _watched.add(driver)


def _in_child() -> None:
    for driver in list(_watched):
        driver.forked(
            ForkedError("this client was opened before the process was forked; open a new one in the child")
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

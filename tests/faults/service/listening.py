"""Ends the listening of an asyncio server of a test without losing a connection."""

import asyncio
from typing import Any


async def stop_listening(server: Any) -> None:
    """Accepts nothing more, and lets what was just accepted have its transport and its protocol.

    Python 3.11 drops a connection that is accepted in the turn of the loop in which its server is closed. The
    warning that its socket was not closed then fails whichever test is running. A listener of TLS accepts by
    itself and has no sockets here.
    """
    loop = asyncio.get_running_loop()
    for listener in getattr(server, "sockets", ()):
        loop.remove_reader(listener)
    for _ in range(3):
        await asyncio.sleep(0)

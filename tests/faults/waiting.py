"""Waits for what gives no signal; what never comes fails the test."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

#: Nothing that a test waits for takes longer, also on a very busy machine.
PATIENCE_S = 60.0
#: How long the test pauses until it looks again.
PAUSE_S = 0.002


async def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Returns when a condition holds, which may be a coroutine function."""
    async with asyncio.timeout(patience_s):
        while True:
            holds = condition()
            if inspect.isawaitable(holds):
                holds = await holds
            if holds:
                return
            await asyncio.sleep(PAUSE_S)


def wait_until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Blocks until a condition holds."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "it never happens"
        time.sleep(PAUSE_S)

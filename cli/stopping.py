"""Running a coroutine so that SIGTERM and the like end it as Ctrl-C does: cancelled, and cleaned up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from telesto.cli.interrupts import raise_for

SIGNALS = (signal.SIGTERM, signal.SIGHUP)

ResultT = TypeVar("ResultT")


def run_to_its_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` and return its result.

    A signal cancels it; when it has cleaned up, SystemExit is raised with 128 plus the number. An exception
    raised in the midst of a loop, as signal handlers do otherwise, would leave the loop without the work
    having been told.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []
    try:
        return asyncio.run(_cancelled_by_signals(work, received))
    except asyncio.CancelledError:
        if not received:
            raise
        raise_for(received[0])
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


async def _cancelled_by_signals(work: Coroutine[Any, Any, ResultT], received: list[int]) -> ResultT:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        # One cancels; what follows must not cut short the cleaning up.
        if not received:
            received.append(number)
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        return await work
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

"""Running a coroutine so that a signal ends it by cancelling it, with the time to clean up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from telesto.cli.terminal.interrupts import handled, raise_for

ResultT = TypeVar("ResultT")


def run_to_its_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` and return its result.

    The first signal cancels it; later ones do not shorten its clean-up. Afterwards SIGINT raises
    KeyboardInterrupt, and another signal SystemExit with 128 plus its number. If a signal handler raised in
    the middle of the event loop, the loop would end without telling the work.
    """
    handlers = {number: signal.getsignal(number) for number in handled()}
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

    def stop(number: int, _frame: FrameType | None) -> None:
        if not received:
            received.append(number)
            loop.call_soon_threadsafe(task.cancel)

    # Not the loop's own handlers: those are removed before the loop has ended all its tasks.
    for number in handled():
        signal.signal(number, stop)
    return await work

"""A signal ends a coroutine of the command line by cancelling it."""

import asyncio
import os
import signal

import pytest

from telesto.cli.terminal.interrupts import SIGNALS
from telesto.cli.terminal.stopping import run_to_its_end


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_cancels_and_lets_the_work_clean_up(number: signal.Signals) -> None:
    cleaned: list[str] = []
    before = signal.default_int_handler
    inherited = signal.signal(number, before)  # a job under nohup ignores SIGHUP

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            # Signals after the first must not cut this short.
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            await asyncio.to_thread(cleaned.append, "cleaned")

    try:
        with pytest.raises(KeyboardInterrupt if number == signal.SIGINT else SystemExit) as raised:
            run_to_its_end(work())
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, inherited)
    assert raised.value.args == (() if number == signal.SIGINT else (128 + number,))
    assert cleaned == ["cleaned"]


def test_without_a_signal_there_is_a_result() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert run_to_its_end(work()) == 7


def test_work_that_is_cancelled_by_itself_says_so() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_to_its_end(work())

"""When calls wait for one another: only where that costs nobody anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from telesto.middleware.scheduling.dispatcher import CallPacing, PacedCall

QUICK_S = 0.003
LONG_S = 3600.0


class Gathered:
    def __init__(self, messages: int) -> None:
        self.messages = messages

    def has_messages(self, count: int) -> bool:
        return self.messages >= count


FEW, MANY = Gathered(1), Gathered(64)


class Scene:
    """A pace, a clock moved by hand, and the number of requests under way."""

    def __init__(self, wait_s: float) -> None:
        self.now = 0.0
        self.under_way = 100
        self.pace = CallPacing(lambda: self.now, lambda: self.under_way, 8, 64, QUICK_S, wait_s)
        self.tasks: list[asyncio.Task[PacedCall]] = []

    async def call(self, took_s: float, count: int = 1) -> None:
        """Calls that have the database for themselves."""
        for _ in range(count):
            turn = await self.pace.begin(FEW)
            self.now += took_s
            self.pace.end(turn, wrote=True)

    async def begin(self, gathered: Gathered = FEW) -> asyncio.Task[PacedCall]:
        """Has a call begin as soon as it may; it has if it may now."""
        task = asyncio.create_task(self.pace.begin(gathered))
        self.tasks.append(task)
        for _ in range(5):
            await asyncio.sleep(0)
        return task

    def end(self, task: asyncio.Task[PacedCall]) -> None:
        self.pace.end(task.result(), wrote=True)


@asynccontextmanager
async def scene(wait_s: float = LONG_S) -> AsyncIterator[Scene]:
    made = Scene(wait_s)
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_quick_calls_follow_one_another_in_turn() -> None:
    async with scene() as at:
        first = await at.begin()
        second, third = await at.begin(), await at.begin()
        assert [task.done() for task in (first, second, third)] == [True, False, False]
        at.end(first)
        fourth = await at.begin()
        assert [task.done() for task in (second, third, fourth)] == [True, False, False]
        at.end(second)
        await asyncio.sleep(0)
        await third
        at.end(third)
        await fourth
        at.end(fourth)
        assert (await at.begin()).done()


async def test_with_few_requests_under_way_nobody_waits() -> None:
    async with scene() as at:
        at.under_way = 8
        assert (await at.begin()).done()
        assert (await at.begin()).done()


async def test_what_has_gathered_enough_does_not_wait() -> None:
    async with scene() as at:
        assert (await at.begin()).done()
        assert (await at.begin(MANY)).done()
        assert not (await at.begin()).done()


async def test_where_calls_take_long_they_run_side_by_side() -> None:
    async with scene() as at:
        await at.call(2 * QUICK_S, 30)
        first, second = await at.begin(), await at.begin()
        assert first.done()
        assert second.done()


async def test_it_is_tried_anew_after_a_while() -> None:
    """A disk that was slow for a moment must not leave the calls side by side for good."""
    async with scene() as at:
        await at.call(2 * QUICK_S, 30)
        at.now += 10
        await at.call(QUICK_S / 3, 2)
        assert (await at.begin()).done()
        assert not (await at.begin()).done()


@pytest.mark.parametrize("wrote", [False, True])
async def test_calls_that_commit_nothing_say_nothing_about_the_disk(wrote: bool) -> None:
    async with scene() as at:
        await at.call(2 * QUICK_S, 30)
        for _ in range(100):
            turn = await at.pace.begin(FEW)
            at.pace.end(turn, wrote=wrote)
        await at.begin()
        assert (await at.begin()).done() is not wrote


async def test_nobody_waits_for_a_call_that_hangs() -> None:
    """It may wait for a lock that somebody holds for long."""
    async with scene(wait_s=0.01) as at:
        hangs = await at.begin()
        waits = await at.begin()
        assert not waits.done()
        await waits  # until it gives up waiting by itself
        at.end(waits)
        at.now += 1
        assert (await at.begin()).done()
        at.end(hangs)


async def test_who_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    async with scene() as at:
        first = await at.begin()
        cancelled, waits = await at.begin(), await at.begin()
        cancelled.cancel()
        await asyncio.sleep(0)
        at.end(first)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waits.done()

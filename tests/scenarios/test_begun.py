"""An attempt counts only for what was begun: processes that die of a message, handlers that are slow."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from running import PATIENCE_S, clean_environment
from started import STARTED
from telesto.client import AsyncTelestoClient, Message, TelestoClient

NewQueue = Callable[..., int]

MAX_ATTEMPTS = 3
GOOD = [f"good {number}" for number in range(30)]


@pytest.mark.parametrize(
    "how",
    ["run_consumer", "threads", "loop", "async loop", "async pool", "uvloop async loop", "uvloop async pool"],
)
def test_a_message_that_kills_its_process_dies_alone(
    url: str, client: TelestoClient, new_queue: NewQueue, how: str
) -> None:
    queue_id = new_queue(max_attempts=MAX_ATTEMPTS)
    client.queue(queue_id).put_many([b"poison", *(text.encode() for text in GOOD)])
    program = str(Path(__file__).with_name("poison_process.py"))
    handled: Counter[str] = Counter()
    for _ in range(MAX_ATTEMPTS):  # whoever supervises it starts it again
        ended = subprocess.run(
            [*STARTED, sys.executable, program, how, url, f"victim {how} {queue_id}", str(queue_id)],
            stdout=subprocess.PIPE,
            env=clean_environment(),
            timeout=PATIENCE_S,
        )
        assert ended.returncode != 0
        handled.update(ended.stdout.decode().splitlines())
    deadline = time.monotonic() + PATIENCE_S
    while not (letters := list(client.queue(queue_id).dead_letters())):
        assert time.monotonic() < deadline
    dead = {letter.message.text: letter.reason for letter in letters}
    assert dead.pop("poison") == "lost"
    # Other threads were at work when it died: what they had begun may have counted each time.
    assert len(dead) < (8 if how == "threads" else 1)
    with client.queue(queue_id).consume() as consumer:
        while set(handled) | set(dead) < set(GOOD):
            leased = consumer.get(PATIENCE_S)
            assert leased is not None
            # That it only waited at a process that died is no attempt.
            assert leased.message.attempt == 1 or how == "threads"
            with leased:
                handled[leased.message.text] += 1
    assert set(handled) | set(dead) == set(GOOD)


#: Well within the lease of 3 s, but the last of twelve waits for two leases.
HANDLER_S = 0.6


def test_what_waits_behind_slow_handlers_is_neither_late_nor_lost(
    client: TelestoClient, new_queue: NewQueue
) -> None:
    queue_id = new_queue(lease=3, max_attempts=2)
    bodies = [b"%d" % number for number in range(12)]
    client.queue(queue_id).put_many(bodies)
    seen = []
    with client.queue(queue_id).consume() as consumer:
        while len(seen) < len(bodies):
            leased = consumer.get(PATIENCE_S)
            assert leased is not None
            with leased:
                time.sleep(HANDLER_S)
            seen.append(leased.message)
    assert [message.body for message in seen] == bodies
    assert {(message.attempt, message.redelivered) for message in seen} == {(1, False)}
    assert list(client.queue(queue_id).dead_letters()) == []


async def test_a_handler_that_blocks_its_loop_kills_nothing(
    url: str, client: TelestoClient, new_queue: NewQueue
) -> None:
    queue_id = new_queue(lease=1.5, max_attempts=2, fail_limit=0)
    bodies = [b"%d" % number for number in range(12)]
    client.queue(queue_id).put_many(bodies)
    seen: Counter[bytes] = Counter()
    done = asyncio.Event()

    async def handle(message: Message) -> None:
        if not seen:
            time.sleep(3)  # noqa: ASYNC251 - beyond the lease, and nothing is heard of the client
        seen[message.body] += 1
        if set(seen) == set(bodies):
            done.set()

    async with AsyncTelestoClient(url, name=f"blocking {queue_id}") as consuming:
        await consuming.connect()
        working = asyncio.create_task(consuming.queue(queue_id).run_consumer(handle))
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert list(client.queue(queue_id).dead_letters()) == []

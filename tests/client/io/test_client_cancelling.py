"""Every call, cancelled at every turn of the event loop: the client stays usable and loses nothing."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cancelling import TURNS_MAX, Scene, run_and_cancel
from telesto.client import AsyncTelestoClient, MessageState, NotConnectedError


async def put(scene: Scene) -> None:
    await scene.client.put_message(scene.queue_id, b"4")


async def put_several(scene: Scene) -> None:
    await scene.client.put_messages([scene.queue_id], b"4")


async def put_many(scene: Scene) -> None:
    await scene.client.queue(scene.queue_id).put_many([b"4", b"5", b"6"])


async def read_one(scene: Scene) -> None:
    message = await scene.client.retrieve_message(scene.queue_id)
    assert message is not None
    scene.handed.append(message.body)


async def read_several(scene: Scene) -> None:
    messages = await scene.client.queue(scene.queue_id).get_many(max_messages=2)
    scene.handed += [message.body for message in messages]


async def read_what_comes_later(scene: Scene) -> None:
    for _ in range(3):
        await read_one(scene)
    scene.put_soon(b"4")
    await read_one(scene)


async def read_within_a_limit(scene: Scene) -> None:
    async with asyncio.timeout(30):
        await read_one(scene)
    await asyncio.wait_for(read_one(scene), 30)


async def release(scene: Scene) -> None:
    messages = await scene.client.queue(scene.queue_id).get_many(max_messages=2)
    scene.handed += [message.body for message in messages]
    await scene.client.release(messages[1:])


async def ask(scene: Scene) -> None:
    await scene.client.get_queues()
    await scene.client.ping()
    await scene.client.queue(scene.queue_id).statistics()
    [_ async for _ in scene.client.read_messages(scene.queue_id)]
    message_id = await scene.client.put_message(scene.queue_id, b"known")
    assert (await scene.client.message_history(message_id)).state is MessageState.READY


async def administer(scene: Scene) -> None:
    await scene.client.create_queue("others")
    await scene.client.queue(scene.queue_id).update(max_messages=1_000)
    assert (await scene.client.queue(scene.queue_id).settings()).max_messages == 1_000
    others = await scene.client.get_queue_by_name("others")
    await scene.client.get_active_queues()
    await scene.client.queue(others.queue_id).purge()
    [_ async for _ in scene.client.queue(others.queue_id).dead_letters()]
    assert await scene.client.queue(others.queue_id).redrive() == 0
    assert await scene.client.queue(others.queue_id).delete_dead_letters() == 0
    await scene.client.delete_queue(others.queue_id)


async def request(scene: Scene) -> None:
    queue_id = scene.service.add_queue("requests")
    scene.respond_soon(queue_id)
    await scene.client.send_request_response_message(queue_id, b"?", receiver_id=999)


async def reply(scene: Scene) -> None:
    own = await scene.client.create_queue("own")
    await scene.client.put_message(own.queue_id, b"?", correlation_id=7)
    message = await scene.client.retrieve_message(own.queue_id)
    assert message is not None
    await scene.client.reply(message, b"!")


SCENARIOS: list[Callable[[Scene], Awaitable[None]]] = [
    put,
    put_several,
    put_many,
    read_one,
    read_several,
    read_what_comes_later,
    read_within_a_limit,
    release,
    ask,
    administer,
    request,
    reply,
]


@pytest.mark.parametrize("auto_confirm", [True, False])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_call_may_be_cancelled_at_any_turn(
    scenario: Callable[[Scene], Any], auto_confirm: bool
) -> None:
    turns, running = 0, True
    while running:
        running = await cancel_after(scenario, auto_confirm, turns)
        turns += 1
        assert turns < 3 * TURNS_MAX
    assert turns > 2


async def cancel_after(scenario: Callable[[Scene], Any], auto_confirm: bool, turns: int) -> bool:
    async with Scene(auto_confirm) as scene:
        running = await run_and_cancel(asyncio.ensure_future(scenario(scene)), turns)
        await check_that_nothing_is_lost(scene, scenario)
    assert not scene.service.deliveries
    assert not scene.service.operations
    return running


async def check_that_nothing_is_lost(scene: Scene, scenario: Callable[[Scene], Any]) -> None:
    client = scene.client
    others = await asyncio.gather(
        client.put_message(scene.queue_id, b"after"), client.get_queue_by_id(scene.queue_id)
    )
    stored = [
        message for message in scene.service.queues[scene.queue_id].messages if message.body == b"after"
    ]
    assert others[0] == stored[0].message_id
    assert others[1].name == "orders"
    left = []
    while messages := await client.queue(scene.queue_id).get_many(max_messages=10, timeout=0):
        left += [message.body for message in messages if not message.redelivered or scenario is not release]
        await client.confirm(messages)
    counts = Counter(scene.handed + left)
    for queue_id, body in scene.service.put_bodies:
        if queue_id == scene.queue_id:
            assert counts.pop(body, 0) == 1, body
    assert not counts


def test_every_method_has_a_scenario() -> None:
    methods = {
        name
        for name, method in vars(AsyncTelestoClient).items()
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method))
    }
    modules = Path(__file__).parent.glob("test_client_cancelling*.py")
    called = "".join(module.read_text() for module in modules)
    assert {name for name in methods if f"client.{name}(" not in called} == set()


async def test_connecting_may_be_cancelled_at_any_turn() -> None:
    turns, running = 0, True
    while running:
        scene = Scene(True)
        running = await run_and_cancel(asyncio.ensure_future(scene.client.connect()), turns)
        if running:
            await scene.client.connect()
        assert await scene.client.put_message(scene.queue_id, b"x") > 0
        assert len(scene.service.clients) == 1
        await scene.client.close()
        turns += 1
    assert turns > 2


async def test_closing_may_be_cancelled_at_any_turn() -> None:
    turns, running = 0, True
    while running:
        scene = Scene(True)
        await scene.client.connect()
        reading = asyncio.ensure_future(scene.client.retrieve_message(scene.queue_id))
        await asyncio.sleep(0)
        running = await run_and_cancel(asyncio.ensure_future(scene.client.close()), turns)
        await scene.client.close()
        await asyncio.wait([reading])
        assert isinstance(reading.exception(), NotConnectedError)
        assert not scene.service.connections
        turns += 1
    assert turns > 2


async def test_deleting_the_client_may_be_cancelled_at_any_turn() -> None:
    turns, running = 0, True
    while running:
        async with Scene(True) as scene:
            running = await run_and_cancel(asyncio.ensure_future(scene.client.delete_client()), turns)
            try:
                await scene.client.get_queues()
            except NotConnectedError:
                assert not scene.service.clients
        turns += 1
    assert turns > 2


async def test_a_call_that_ends_while_it_is_cancelled_loses_nothing() -> None:
    async with Scene(True) as scene:
        reading = asyncio.ensure_future(scene.client.retrieve_message(scene.queue_id))
        queue = scene.service.queues[scene.queue_id]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert queue.taken_total == 1
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()
        message = await scene.client.retrieve_message(scene.queue_id, timeout=0)
        assert message is not None
        assert (message.body, message.redelivered) == (b"1", False)

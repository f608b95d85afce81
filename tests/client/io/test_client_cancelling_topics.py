"""Every call about topics, cancelled at every turn of the event loop: each message comes once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from cancelling import TURNS_MAX, Scene, run_and_cancel
from telesto.client import TopicMessage
from telesto.protocol import packets

OTHER = 999


class TopicScene(Scene):
    """A client that subscribes to a topic with three messages, and what the application was handed."""

    async def __aenter__(self) -> TopicScene:
        await self.client.connect()
        await self.client.topic("news").subscribe()
        for body in (b"1", b"2", b"3"):
            self.publish(body)
        return self

    def publish(self, body: bytes) -> None:
        """Another client puts a message."""
        self.service.topics.put(OTHER, "news", packets.NewTopicMessage(body))
        self._flush()

    def hand(self, *messages: TopicMessage | None) -> None:
        """The application has messages now."""
        self.handed += [message.body for message in messages if message is not None]


async def put(scene: TopicScene) -> None:
    await scene.client.topic("news").put(b"4")


async def put_with_a_sequence(scene: TopicScene) -> None:
    await scene.client.topic("news").put(b"4", sequence=1)
    await scene.client.topic("news").put(b"5", sequence=2)


async def put_several(scene: TopicScene) -> None:
    await scene.client.topic("news").put_many([b"4", b"5"])


async def get(scene: TopicScene) -> None:
    scene.hand(await scene.client.topic("news").get())
    scene.hand(await scene.client.subscribed_topics.get())


async def get_several(scene: TopicScene) -> None:
    scene.hand(*await scene.client.topic("news").get_many(max_messages=2))
    scene.hand(*await scene.client.subscribed_topics.get_many(max_messages=2))


async def get_what_comes_later(scene: TopicScene) -> None:
    scene.hand(*await scene.client.topic("news").get_many(max_messages=3))
    asyncio.get_running_loop().call_soon(scene.publish, b"4")
    scene.hand(await scene.client.topic("news").get())


async def get_at_the_same_time(scene: TopicScene) -> None:
    async def get_one() -> None:
        scene.hand(await scene.client.topic("news").get())

    await asyncio.gather(get_one(), get_one(), get_one())


async def iterate(scene: TopicScene) -> None:
    async for message in scene.client.topic("news").messages():
        scene.hand(message)
        if len(scene.handed) == 3:
            return


async def release(scene: TopicScene) -> None:
    messages = await scene.client.topic("news").get_many(max_messages=3)
    scene.hand(*messages)
    await scene.client.release(messages[1:])


async def come_and_go(scene: TopicScene) -> None:
    await scene.client.topic("prices").subscribe()
    await scene.client.topics()
    await scene.client.subscriptions()
    await scene.client.topic("prices").unsubscribe()
    await scene.client.topic("prices").delete()


SCENARIOS: list[Callable[[TopicScene], Awaitable[None]]] = [
    put,
    put_with_a_sequence,
    put_several,
    get,
    get_several,
    get_what_comes_later,
    get_at_the_same_time,
    iterate,
    release,
    come_and_go,
]


@pytest.mark.parametrize("auto_confirm", [True, False])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_call_may_be_cancelled_at_any_turn(
    scenario: Callable[[TopicScene], Awaitable[None]], auto_confirm: bool
) -> None:
    turns, running = 0, True
    while running:
        async with TopicScene(auto_confirm) as scene:
            running = await run_and_cancel(asyncio.ensure_future(scenario(scene)), turns)
            await check_that_nothing_is_lost(scene, again=scenario is release)
        turns += 1
        assert turns < 3 * TURNS_MAX
    assert turns > 2


async def check_that_nothing_is_lost(scene: TopicScene, *, again: bool) -> None:
    """What was handed and what comes now are all messages of the topic, each once, those that come in order.

    With ``again`` the application gave some back that it had been handed.
    """
    client = scene.client
    after = await client.topic("news").put(b"after")
    topic = scene.service.topics.topic("news")
    stored = [body for _, _, body, _ in topic.messages]
    assert stored[after - 1] == b"after"
    left: list[TopicMessage] = []
    while messages := await client.subscribed_topics.get_many(max_messages=10, timeout=0):
        left += [message for message in messages if message.topic == "news"]
        await client.confirm(messages)
    numbers = [message.number for message in left]
    assert numbers == list(range(numbers[0], len(stored) + 1))
    counts = Counter(scene.handed + [message.body for message in left])
    assert set(counts) == set(stored)
    assert len(set(stored)) == len(stored)
    assert again or max(counts.values()) == 1

"""Two middlewares and many clients at one queue: wake-ups, deletion, purging, the bound, a fenced reader."""

import asyncio
import time
from collections import Counter

import pytest

from telesto.client import AsyncTelestoClient
from telesto.protocol.errors import QueueFullError, QueueNotExistingError, SessionFencedError

from ..checkers.checker import Bounds, check
from ..clients.history import DONE, REFUSED, Began, Ended, Event, PutBegan, PutEnded, ReadEnded, Taken
from ..waiting import until
from .service import PATIENCE_S, Service, read_now

pytestmark = [pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]

#: Nobody looks for messages that no wake-up told of: a wake-up that gets lost leaves a read waiting for ever.
SETTINGS = {"wake_sweep_s": 100_000}


async def read_until(client: AsyncTelestoClient, queue_id: int, last: bytes) -> list[bytes]:
    """Takes one message after the other until the last one comes."""
    taken: list[bytes] = []
    while True:
        message = await client.retrieve_message(queue_id, timeout=PATIENCE_S)
        assert message is not None, f"nothing came after {len(taken)} messages"
        if message.body == last:
            return taken
        taken.append(message.body)


async def test_every_message_wakes_a_reader_wherever_it_was_put(service: Service) -> None:
    writers = [await service.client(f"writer {index}", index) for index in range(2)]
    readers = [await service.client(f"reader {index}", index % 2) for index in range(6)]
    queue_id = (await writers[0].create_queue("woken")).queue_id
    reading = [asyncio.create_task(read_until(reader, queue_id, b"last")) for reader in readers]
    for number in range(200):
        await writers[number % 2].put_message(queue_id, f"{number}".encode())
    for index in range(len(readers)):
        await writers[index % 2].put_message(queue_id, b"last", priority=1)
    taken = [body for bodies in await asyncio.gather(*reading) for body in bodies]
    assert Counter(taken) == Counter(f"{number}".encode() for number in range(200))


async def test_single_messages_find_readers_that_wait_at_both_sites(service: Service) -> None:
    """One message at a time, each taken before the next is put: every wake-up counts."""
    writers = [await service.client(f"single writer {index}", index) for index in range(2)]
    readers = [await service.client(f"single reader {index}", index % 2) for index in range(4)]
    queue_id = (await writers[0].create_queue("single")).queue_id
    reads = {asyncio.create_task(reader.retrieve_message(queue_id)): reader for reader in readers}
    for number in range(60):
        body = f"{number}".encode()
        await writers[number % 2].put_message(queue_id, body)
        done, _ = await asyncio.wait(reads, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert [getattr(read.result(), "body", None) for read in done] == [body]
        for read in done:
            reader = reads.pop(read)
            reads[asyncio.create_task(reader.retrieve_message(queue_id))] = reader
    for read in reads:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)


async def test_a_fenced_reader_passes_its_wake_up_on(service: Service) -> None:
    writer = await service.client("passing writer", 0)
    queue_id = (await writer.create_queue("passed on")).queue_id
    fenced = await service.client("fenced", 0)
    first = asyncio.create_task(fenced.retrieve_message(queue_id))
    await parked(service, 1)
    behind = asyncio.create_task((await service.client("behind", 0)).retrieve_message(queue_id))
    await parked(service, 2)
    await service.client("fenced", 1)
    await writer.put_message(queue_id, b"passed on")
    message = await asyncio.wait_for(behind, PATIENCE_S)
    assert message is not None
    assert message.body == b"passed on"
    with pytest.raises(SessionFencedError):
        await first


async def parked(service: Service, count: int) -> None:
    """Returns when so many reads are parked at the first site."""

    async def are_parked() -> bool:
        return (await service.sites[0].middleware.figures())["waiting_reads"] == count

    await until(are_parked)


async def test_a_queue_is_deleted_under_load(service: Service) -> None:
    owner = await service.client("owner", 0)
    queue_id = (await owner.create_queue("deleted")).queue_id
    clients = [await service.client(f"loader {index}", index % 2) for index in range(8)]
    loads: list[asyncio.Task[int]] = [
        asyncio.create_task(
            put_until_gone(client, queue_id) if index < 4 else read_until_gone(client, queue_id)
        )
        for index, client in enumerate(clients)
    ]
    waiting = asyncio.create_task(read_nothing(await service.client("selective", 1), queue_id, owner))
    await until(lambda: service.messages(queue_id))
    await owner.delete_queue(queue_id)
    outcomes = await asyncio.wait_for(asyncio.gather(*loads), PATIENCE_S)
    await asyncio.wait_for(waiting, PATIENCE_S)
    acknowledged = sum(outcomes[:4])
    assert acknowledged >= sum(outcomes[4:8]) > 0
    await until(lambda: all_gone(service, queue_id))


async def put_until_gone(client: AsyncTelestoClient, queue_id: int) -> int:
    """Puts as fast as it can, eight at a time; returns how many were acknowledged."""
    acknowledged = 0
    while True:
        results = await asyncio.gather(
            *(client.put_message(queue_id, b"load") for _ in range(8)), return_exceptions=True
        )
        acknowledged += sum(isinstance(result, int) for result in results)
        errors = [result for result in results if not isinstance(result, int)]
        assert all(isinstance(error, QueueNotExistingError) for error in errors), errors
        if errors:
            assert isinstance(results[-1], QueueNotExistingError), "the queue came back"
            return acknowledged


async def read_until_gone(client: AsyncTelestoClient, queue_id: int) -> int:
    """Reads as fast as it can; returns how many messages it got."""
    count = 0
    try:
        while True:
            count += len(await client.queue(queue_id).get_many(max_messages=10))
    except QueueNotExistingError:
        return count


async def read_nothing(client: AsyncTelestoClient, queue_id: int, nobody: AsyncTelestoClient) -> None:
    """Waits for a message of somebody who puts none until the queue is gone."""
    with pytest.raises(QueueNotExistingError):
        await client.retrieve_message(queue_id, sender_id=nobody.client_id)


async def all_gone(service: Service, queue_id: int) -> bool:
    return not await service.messages(queue_id)


async def test_a_queue_is_purged_under_load(service: Service) -> None:
    """What was acknowledged is taken, purged or still there, once."""
    clients = [await service.client(f"purge loader {index}", index % 2) for index in range(5)]
    queue_id = (await clients[0].create_queue("purged")).queue_id
    stop = asyncio.Event()
    putting = [asyncio.create_task(put_until(stop, client, queue_id)) for client in clients[:2]]
    reading = [asyncio.create_task(take_until(stop, client, queue_id)) for client in clients[2:4]]
    purged = 0
    for _ in range(20):
        await until(lambda: service.messages(queue_id))
        purged += await clients[4].queue(queue_id).purge()
    stop.set()
    put = sum(await asyncio.gather(*putting))
    taken = [body for bodies in await asyncio.gather(*reading) for body in bodies]
    left = [body for body, _ in await read_now(clients[4], queue_id)]
    assert max(Counter(taken + left).values(), default=1) == 1
    assert put == purged + len(taken) + len(left)
    assert purged
    assert taken


async def put_until(stop: asyncio.Event, client: AsyncTelestoClient, queue_id: int) -> int:
    count = 0
    while not stop.is_set():
        bodies = [f"{client.name} {count + index}".encode() for index in range(8)]
        results = await asyncio.gather(*(client.put_message(queue_id, body) for body in bodies))
        count += len(results)
    return count


async def take_until(stop: asyncio.Event, client: AsyncTelestoClient, queue_id: int) -> list[bytes]:
    taken: list[bytes] = []
    while not stop.is_set():
        messages = await client.queue(queue_id).get_many(max_messages=3, timeout=0.05)
        taken += [message.body for message in messages]
    return taken


BOUND = 20


async def test_a_bounded_queue_under_load_keeps_its_bound_and_the_order_of_refusals(service: Service) -> None:
    writers = [await service.client(f"bounded writer {index}", index % 2) for index in range(4)]
    reader = await service.client("bounded reader", 0)
    watcher = await service.client("bounded watcher", 1)
    queue_id = (await watcher.create_queue("bounded", max_messages=BOUND)).queue_id
    stop = asyncio.Event()
    history: list[Event] = []
    watching = asyncio.create_task(watch_depth(stop, watcher, queue_id))
    reading = asyncio.create_task(take_recorded(stop, reader, queue_id, history))
    await asyncio.gather(*(put_recorded(writer, queue_id, history) for writer in writers))
    stop.set()
    await reading
    depths = await watching
    assert max(depths) <= BOUND
    for client in (*writers, reader):
        history.append(Ended(client.name or "", 1, time.monotonic()))
    verdict = check(history, Bounds(call_s=PATIENCE_S))
    assert verdict.violations == []
    assert verdict.figures["refused"]
    assert verdict.figures["acknowledged"]


async def watch_depth(stop: asyncio.Event, client: AsyncTelestoClient, queue_id: int) -> list[int]:
    depths = []
    while not stop.is_set():
        depths.append((await client.queue(queue_id).statistics()).depth)
    return depths


async def put_recorded(client: AsyncTelestoClient, queue_id: int, history: list[Event]) -> None:
    """Puts many at a time, some with several messages, and writes down what became of each."""
    assert client.name is not None
    assert client.client_id is not None
    history.append(Began(client.name, 1, time.monotonic(), client.client_id))
    for turn in range(15):
        await asyncio.gather(
            *(put_one_recorded(client, queue_id, turn * 100 + index, history) for index in range(12))
        )


async def put_one_recorded(
    client: AsyncTelestoClient, queue_id: int, number: int, history: list[Event]
) -> None:
    name, session = client.name or "", client.session or 0
    key = f"{name} {number}"
    history.append(PutBegan(name, 1, time.monotonic(), number, key, queue_id, 5, 0, session))
    outcome, message_id, error = DONE, 0, ""
    try:
        if number % 5:
            message_id = await client.put_message(queue_id, key.encode())
        else:
            (result,) = await client.queue(queue_id).put_many([key.encode()])
            message_id = result.message_id or 0
            if result.error is not None:
                raise result.error
    except QueueFullError as refusal:
        outcome, error = REFUSED, type(refusal).__name__
    now = time.monotonic()
    history.append(PutEnded(name, 1, now, number, key, queue_id, outcome, message_id, error, session))


async def take_recorded(
    stop: asyncio.Event, client: AsyncTelestoClient, queue_id: int, history: list[Event]
) -> None:
    name = client.name or ""
    history.append(Began(name, 1, time.monotonic(), client.client_id or 0))
    number = 0
    while True:
        done = stop.is_set()
        messages = await client.queue(queue_id).get_many(max_messages=5, timeout=0)
        taken = [
            Taken(each.message_id, each.text, each.priority, each.sender_id, 0, each.redelivered, True)
            for each in messages
        ]
        number += 1
        history.append(ReadEnded(name, 1, time.monotonic(), number, queue_id, taken))
        if done and not messages:
            return

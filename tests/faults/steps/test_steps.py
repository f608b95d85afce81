"""Why exactly once holds: each process paused between any two steps.

What is under way is stopped where a proxy holds its bytes, where a lock that the test holds stops its
transaction, or by SIGSTOP; then the client moves on, then what was stopped goes on.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from telesto.client import AsyncTelestoClient
from telesto.protocol.errors import SessionFencedError

from ..service.cluster import Site
from ..service.processes import Process
from ..waiting import until
from .service import PATIENCE_S, Service, read_now

pytestmark = [pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]


class Scene:
    """A client at the first site, a queue, and an observer at the second site."""

    def __init__(
        self, service: Service, client: AsyncTelestoClient, observer: AsyncTelestoClient, queue_id: int
    ) -> None:
        self.service = service
        self.client = client
        self.observer = observer
        self.queue_id = queue_id
        self.first, self.second = service.sites

    async def holds_exactly(self, *bodies: bytes) -> None:
        """The queue holds these messages, new ones, in this order."""
        assert await read_now(self.observer, self.queue_id) == [(body, False) for body in bodies]

    async def until_all_is_confirmed(self) -> None:
        async def nothing_unconfirmed() -> bool:
            return not await self.service.unconfirmed(self.client, self.observer)

        await until(nothing_unconfirmed)

    async def waiting_messages(self) -> int:
        return await self.service.messages(self.queue_id)

    def put(self, body: bytes) -> asyncio.Task[int]:
        return asyncio.create_task(self.client.put_message(self.queue_id, body))

    async def moved(self, session: int | None) -> None:
        """Returns when the client has taken over elsewhere."""

        async def has_moved() -> bool:
            return self.client.connected and self.client.session != session

        await until(has_moved)


@pytest_asyncio.fixture(loop_scope="module")
async def scene(service: Service, request: pytest.FixtureRequest) -> Scene:
    name = request.node.name
    client = await service.client(f"client of {name}", 0, 1)
    observer = await service.client(f"observer of {name}", 1)
    queue = await observer.create_queue(name)
    scene = Scene(service, client, observer, queue.queue_id)
    await scene.until_all_is_confirmed()  # so that the test holds nothing but what it means
    return scene


async def held(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), PATIENCE_S)


async def until_waiting(scene: Scene, count: int) -> None:
    """Returns when so many messages wait; what is held may be a sign of life instead of an answer."""

    async def so_many() -> bool:
        return await scene.waiting_messages() == count

    await until(so_many)


async def go_on(site: Site, answered: asyncio.Event) -> None:
    """Lets a stopped middleware go on and waits for what it says to the client that has left."""
    site.middleware.signal(signal.SIGCONT)
    await held(answered)


# --- the answer of a put is lost ------------------------------------------------------------------
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "silence"])
async def test_the_answer_of_a_put_is_lost(scene: Scene, cut: bool) -> None:
    front = scene.first.front
    front.hold(front.to_client)
    put = scene.put(b"once")
    await until_waiting(scene, 1)
    await held(front.to_client.held)
    if cut:
        front.cut()
    await put
    await scene.holds_exactly(b"once")


async def test_the_answers_of_many_puts_are_lost_and_their_order_is_kept(scene: Scene) -> None:
    front = scene.first.front
    front.hold(front.to_client)
    bodies = [f"{number}".encode() for number in range(50)]
    puts = [scene.put(body) for body in bodies]
    await held(front.to_client.held)
    front.cut()
    message_ids = await asyncio.gather(*puts)
    assert message_ids == sorted(message_ids)
    await scene.holds_exactly(*bodies)


# --- the middleware is stopped before executing, the client moves on, the middleware wakes --------
async def test_a_middleware_that_was_stopped_before_executing_is_fenced(scene: Scene) -> None:
    session, front = scene.client.session, scene.first.front
    scene.first.middleware.signal(signal.SIGSTOP)
    arrived = asyncio.create_task(front.traffic(front.to_server))
    await asyncio.sleep(0)
    put = scene.put(b"once")
    await asyncio.wait_for(arrived, PATIENCE_S)
    await asyncio.sleep(0)  # the bytes leave; what follows, the end of the connection, does not
    front.hold()
    await put
    assert scene.client.session != session
    await go_on(scene.first, front.to_client.held)
    await scene.holds_exactly(b"once")


async def test_a_batch_that_reaches_the_database_late_is_fenced(scene: Scene) -> None:
    back = scene.first.back
    back.hold(back.to_server)
    put = scene.put(b"once")
    await held(back.to_server.held)
    await put
    assert await scene.waiting_messages() == 1
    late = asyncio.create_task(back.traffic(back.to_client))
    await asyncio.sleep(0)
    back.heal()
    await asyncio.wait_for(late, PATIENCE_S)
    await scene.holds_exactly(b"once")


async def test_a_read_that_reaches_the_database_late_takes_nothing(scene: Scene) -> None:
    back = scene.first.back
    back.hold(back.to_server)
    read = asyncio.create_task(scene.client.retrieve_message(scene.queue_id, timeout=PATIENCE_S))
    await held(back.to_server.held)
    session = scene.client.session
    scene.first.front.cut()
    await scene.moved(session)
    await scene.observer.put_message(scene.queue_id, b"one")
    back.heal()
    await scene.observer.put_message(scene.queue_id, b"two")
    message = await read
    assert message is not None
    assert (message.body, message.redelivered) == (b"one", False)
    await scene.holds_exactly(b"two")


# --- it is stopped in the middle of a transaction -------------------------------------------------
async def stop_in_a_transaction(scene: Scene) -> asyncio.Task[int]:
    """Returns a put whose transaction waits for the queue's lock; its middleware is stopped."""
    put = scene.put(b"once")
    await scene.service.until_blocked()
    scene.first.middleware.signal(signal.SIGSTOP)
    return put


async def test_a_transaction_that_ends_after_the_client_has_left_is_listed(scene: Scene) -> None:
    session = scene.client.session
    async with scene.service.locked("put_lock_key", scene.queue_id):
        put = await stop_in_a_transaction(scene)
        await takeover_waits(scene)
        assert scene.client.session == session
    await put
    scene.first.middleware.signal(signal.SIGCONT)
    await scene.holds_exactly(b"once")


async def takeover_waits(scene: Scene) -> None:
    """Returns when the client has reached the second site and cannot become itself there."""
    front = scene.second.front
    async with asyncio.timeout(PATIENCE_S):
        while scene.client.address != "{}:{}".format(*front.address):
            await front.traffic(front.to_server)
            await asyncio.sleep(0)


async def test_a_transaction_of_a_dead_middleware_is_ended_by_its_peers(scene: Scene) -> None:
    """Its server process waits for a lock with the client's own lock in its hands."""
    async with scene.service.locked("put_lock_key", scene.queue_id):
        put = await stop_in_a_transaction(scene)
        await scene.moved(scene.client.session)
        assert await scene.waiting_messages() == 0
    await put
    scene.first.middleware.signal(signal.SIGCONT)
    await scene.holds_exactly(b"once")


async def test_a_transaction_that_cannot_send_its_answer_is_ended(scene: Scene) -> None:
    """A large message fills the connection of a middleware that does not read."""
    body = bytes(12 << 20)
    await scene.observer.put_message(scene.queue_id, body)
    back = scene.first.back
    back.hold(back.to_client)
    read = asyncio.create_task(scene.client.retrieve_message(scene.queue_id, timeout=PATIENCE_S))
    await held(back.to_client.held)
    scene.first.middleware.signal(signal.SIGSTOP)
    message = await asyncio.wait_for(read, PATIENCE_S)
    assert message is not None
    assert (message.body == body, message.redelivered) == (True, False)
    await scene.holds_exactly()


# --- the client dies after taking a message, before confirming ------------------------------------
def taker_name(scene: Scene) -> str:
    return f"taker of queue {scene.queue_id}"


@pytest_asyncio.fixture(loop_scope="module")
async def taker(scene: Scene, tmp_path: Path) -> AsyncIterator[Process]:
    url = "telesto://{}:{}".format(*scene.first.front.address)
    log = tmp_path / "taker.log"
    process = Process("clients.taker", log, {}, url, taker_name(scene), str(scene.queue_id))
    await process.start()
    assert await process.line() == "connected\n"
    yield process
    await process.kill()
    assert log.read_text() == ""


async def test_a_client_that_dies_with_a_message_gets_it_first(scene: Scene, taker: Process) -> None:
    for body in (b"one", b"two"):
        await scene.observer.put_message(scene.queue_id, body)
    assert await taker.line() == "one\n"
    await taker.kill()
    successor = await scene.service.client(taker_name(scene), 1)
    await scene.observer.put_message(scene.queue_id, b"high", priority=10)
    assert await read_now(successor, scene.queue_id) == [(b"one", True), (b"high", False), (b"two", False)]


async def test_a_client_that_dies_before_it_sees_the_message_gets_it_first(
    scene: Scene, taker: Process
) -> None:
    front = scene.first.front
    front.hold(front.to_client)
    await scene.observer.put_message(scene.queue_id, b"one")
    await until_waiting(scene, 0)
    await held(front.to_client.held)
    await taker.kill()
    front.heal()
    await scene.holds_exactly()
    successor = await scene.service.client(taker_name(scene), 1)
    assert await read_now(successor, scene.queue_id) == [(b"one", True)]


async def test_what_a_dead_client_does_not_ask_for_goes_back(scene: Scene, taker: Process) -> None:
    await scene.observer.put_message(scene.queue_id, b"one")
    assert await taker.line() == "one\n"
    await taker.kill()
    successor = await scene.service.client(taker_name(scene), 1)
    await successor.close()
    assert await read_now(scene.observer, scene.queue_id) == [(b"one", True)]


# --- two connections of one client race -----------------------------------------------------------
async def test_of_two_processes_with_one_name_the_later_wins(scene: Scene) -> None:
    later = await scene.service.client(scene.client.name or "", 1)
    with pytest.raises(SessionFencedError):
        await scene.client.put_message(scene.queue_id, b"earlier")
    await later.put_message(scene.queue_id, b"later")
    await scene.holds_exactly(b"later")


async def test_two_connections_race_again_and_again(scene: Scene) -> None:
    """Both become the client at the same time; one of them is, and only its puts are done."""
    expected = []
    for turn in range(10):
        bodies = [f"{turn} {index}".encode() for index in range(2)]
        rivals = [asyncio.create_task(rival(scene, index, body)) for index, body in enumerate(bodies)]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} <= {int, SessionFencedError}, outcomes
        expected += [body for body, outcome in zip(bodies, outcomes, strict=True) if isinstance(outcome, int)]
        assert len(expected) > turn
    taken = await read_now(scene.observer, scene.queue_id)
    assert sorted(body for body, _ in taken) == sorted(expected)


async def rival(scene: Scene, site: int, body: bytes) -> int:
    """Becomes the rival at a site and puts a message."""
    client = await scene.service.client(f"rival of {scene.queue_id}", site)
    try:
        return await client.put_message(scene.queue_id, body)
    finally:
        await client.close()


async def test_puts_under_way_at_a_takeover_by_another_process_are_done_or_not(scene: Scene) -> None:
    bodies = [f"{number}".encode() for number in range(200)]
    puts = [scene.put(body) for body in bodies]
    await puts[20]
    await scene.service.client(scene.client.name or "", 1)
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    taken = [body for body, _ in await read_now(scene.observer, scene.queue_id)]
    assert taken == bodies[: len(taken)]
    for outcome, body in zip(outcomes, bodies, strict=True):
        assert isinstance(outcome, int | SessionFencedError), outcome
        assert isinstance(outcome, SessionFencedError) or body in taken


async def test_the_earlier_process_does_not_take_the_client_back(scene: Scene) -> None:
    """Its connection is lost, with a put in doubt that the later one has settled."""
    front = scene.first.front
    front.hold(front.to_client)
    put = scene.put(b"once")
    await until_waiting(scene, 1)
    await held(front.to_client.held)
    later = await scene.service.client(scene.client.name or "", 1)
    await later.put_message(scene.queue_id, b"later")
    front.cut()
    with pytest.raises(SessionFencedError, match="may have been done"):
        await put
    await later.put_message(scene.queue_id, b"later still")
    await scene.holds_exactly(b"once", b"later", b"later still")


# --- a refusal arrives late -----------------------------------------------------------------------
async def test_a_put_does_not_overtake_one_that_was_refused_for_now(scene: Scene) -> None:
    """The second put is sent before the client has seen that the first was refused for want of a database."""
    scene.client = await scene.service.client("patient", 0, 1, try_timeout=PATIENCE_S, ping_after=PATIENCE_S)
    front, back = scene.first.front, scene.first.back
    front.hold(front.to_client)
    back.refusing = True
    back.cut()
    first = scene.put(b"first")
    await held(front.to_client.held)
    back.heal()
    await until_it_takes_puts(scene, scene.first)
    arrived = asyncio.create_task(front.traffic(front.to_server))
    await asyncio.sleep(0)
    second = scene.put(b"second")
    await asyncio.wait_for(arrived, PATIENCE_S)
    front.heal()
    await asyncio.gather(first, second)
    await scene.holds_exactly(b"first", b"second")


async def until_it_takes_puts(scene: Scene, site: Site) -> None:
    """Returns when a middleware has its database again, as a client sees that knows no other."""
    url = "telesto://{}:{}".format(*site.middleware.address)
    client = await scene.service.client(f"probe of {scene.queue_id}", url=url, max_addresses=1)
    queue = await client.create_queue(f"probe of {scene.queue_id}")
    await client.put_message(queue.queue_id, b"")


# --- a middleware loses the database, another one has it ------------------------------------------
@pytest_asyncio.fixture(loop_scope="module")
async def isolated(scene: Scene) -> Site:
    scene.first.back.refusing = True
    scene.first.back.cut()
    return scene.first


async def test_a_put_goes_where_the_database_is(scene: Scene, isolated: Site) -> None:
    await scene.put(b"once")
    assert scene.client.address != "{}:{}".format(*isolated.front.address)
    await scene.holds_exactly(b"once")


async def test_a_waiting_read_goes_where_the_database_is(scene: Scene) -> None:
    read = asyncio.create_task(scene.client.retrieve_message(scene.queue_id))
    await until(lambda: one_waits(scene.first))
    scene.first.back.refusing = True
    scene.first.back.cut()
    await scene.observer.put_message(scene.queue_id, b"once")
    message = await asyncio.wait_for(read, PATIENCE_S)
    assert message is not None
    assert (message.body, message.redelivered) == (b"once", False)


async def one_waits(site: Site) -> bool:
    return (await site.middleware.figures())["waiting_reads"] == 1


# --- a confirmation arrives late ------------------------------------------------------------------
async def test_a_late_confirmation_changes_nothing(scene: Scene) -> None:
    """It reaches the database after the client has moved on, confirmed again and taken more."""
    for body in (b"one", b"two"):
        await scene.observer.put_message(scene.queue_id, body)
    message = await scene.client.retrieve_message(scene.queue_id, timeout=0)
    assert message is not None
    back = scene.first.back
    back.hold(back.to_server)  # what is held now or soon: the confirmation, by itself
    await held(back.to_server.held)
    await scene.moved(scene.client.session)
    second = await scene.client.retrieve_message(scene.queue_id, timeout=PATIENCE_S)
    assert second is not None
    assert (message.body, second.body, second.redelivered) == (b"one", b"two", False)
    back.heal()
    await scene.until_all_is_confirmed()
    await scene.holds_exactly()


async def test_a_confirmation_that_was_lost_with_its_connection_is_sent_again(scene: Scene) -> None:
    await scene.observer.put_message(scene.queue_id, b"one")
    front = scene.first.front
    message = await scene.client.retrieve_message(scene.queue_id, timeout=0)
    assert message is not None
    front.hold(front.to_server)
    await held(front.to_server.held)
    front.cut()
    front.heal()
    await scene.until_all_is_confirmed()
    await scene.holds_exactly()

"""A primary and its synchronous standby: each of them gone, hanging or back, between any two steps."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from telesto.client import AsyncTelestoClient, ClientOptions
from telesto.db import schema
from telesto.protocol.errors import ErrorClass, StandbyUnavailableError, TelestoError

from ..run import remove_directory, scratch_directory
from ..service.cluster import Cluster, Site
from ..service.logs import middleware_complaints, warnings_of
from ..service.pair import Pair
from ..service.proxy import Direction
from ..service.standby import Node
from ..waiting import until
from .service import PATIENCE_S, QUICK, read_now

pytestmark = [pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]

#: Looks often, so that a test waits for what happens and not for the next look.
SETTINGS = {
    "heartbeat_interval_s": 0.2,
    "heartbeat_timeout_s": 1.5,
    "database_late_s": 0.2,
    "database_backoff_s": 0.1,
    "standby_wait_s": 0.5,
    "standby_retry_ms": 50,
}
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'telesto put%'
"""
BLOCKED = """
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'telesto put%'
"""
END_WAITING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
ALIVE = "SELECT count(DISTINCT address) FROM telesto.middlewares WHERE heartbeat_at > $1"


class Scene:
    """Two middlewares on a pair of servers, a client that knows both, and a queue of its own."""

    def __init__(self, pair: Pair, cluster: Cluster) -> None:
        self.pair = pair
        self.cluster = cluster
        self.first, self.second = cluster.sites
        self.client: AsyncTelestoClient
        self.queue_id = 0
        self._clients: list[AsyncTelestoClient] = []
        self.bounds: dict[AsyncTelestoClient, ClientOptions] = {}

    async def connect(
        self, name: str, *order: int, url: str | None = None, **options: Any
    ) -> AsyncTelestoClient:
        """Connects a client to the sites in this order."""
        bounds = ClientOptions(**(QUICK | options))
        client = AsyncTelestoClient(url or self.cluster.url(*order), options=bounds, name=name)
        self._clients.append(client)
        self.bounds[client] = bounds
        await client.connect()
        return client

    def put(self, body: bytes, client: AsyncTelestoClient | None = None) -> asyncio.Task[int]:
        return asyncio.create_task((client or self.client).put_message(self.queue_id, body))

    async def stored(self, node: Node, *bodies: bytes) -> int:
        """How many messages of the queue, or of those with these bodies, a server shows."""
        count: int = await node.value(
            "SELECT count(*) FROM telesto.messages WHERE queue_id = $1 AND (body = ANY ($2) OR $2 = '{}')",
            self.queue_id,
            list(bodies),
        )
        return count

    async def until_stored(self, node: Node, count: int = 1) -> None:
        async def there() -> bool:
            return await self.stored(node) == count

        await until(there)

    async def put_held_up(self, body: bytes, way: Direction) -> asyncio.Task[int]:
        """A put that is committed and waits for the standby, since this direction of its connection is held.

        It is under way by then: a middleware that misses the standby already would not begin it.
        """
        holder = await asyncpg.connect(self.pair.primary_url)
        try:
            await holder.execute("BEGIN")
            await holder.execute("SELECT pg_advisory_xact_lock(telesto.put_lock_key($1))", self.queue_id)
            put = self.put(body)
            await until(lambda: self.pair.fetchval(BLOCKED))
            self.pair.follower.upstream.hold(way)
        finally:
            await holder.close()
        await self.until_a_put_waits()
        return put

    async def until_a_put_waits(self) -> None:
        """Returns when a put is committed and waits for the standby."""
        await until(lambda: self.pair.fetchval(WAITING))

    async def holds_exactly(self, *bodies: bytes) -> None:
        """The queue holds these messages, new ones, in this order."""
        reader = await self.connect(f"reader of {self.queue_id}")
        assert await read_now(reader, self.queue_id) == [(body, False) for body in bodies]

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[tuple[Pair, Cluster]]:
    """Gives a pair of servers and two middlewares for the tests of the module."""
    directory = scratch_directory()
    pair = Pair(directory / "data")
    try:
        await pair.start()
        await pair.install()
        async with Cluster(directory, pair.url, 2, SETTINGS, primary=lambda: pair.primary) as cluster:
            yield pair, cluster
    finally:
        await pair.stop()
        remove_directory(directory)


@pytest_asyncio.fixture(loop_scope="module")
async def scene(stage: tuple[Pair, Cluster], request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """Gives a client and a queue; after the test the rows and what the middlewares say are checked."""
    pair, cluster = stage
    scene = Scene(pair, cluster)
    name = request.node.name
    scene.client = await scene.connect(name, 0, 1)
    scene.queue_id = (await scene.client.create_queue(name)).queue_id
    yield scene
    await scene.close()
    if not pair.follower.running:  # the test has failed; the next ones need not
        await pair.follower.start()
    await pair.until_in_step()
    await until_all_serve(scene)
    assert await asyncio.to_thread(schema.check, pair.url) == []
    for site in cluster.sites:
        assert list(middleware_complaints(site.log)) == []


async def until_all_serve(scene: Scene) -> None:
    """Returns when each middleware has given a sign of life from now on."""
    then = await scene.pair.fetchval("SELECT clock_timestamp()")

    async def all_alive() -> bool:
        return await scene.pair.fetchval(ALIVE, then) == len(scene.cluster.sites)

    await until(all_alive)


# --- the primary is gone ----------------------------------------------------------------------
async def test_through_a_whole_cycle_nothing_is_lost(scene: Scene) -> None:
    """Failover, rejoin, and the roles as they were at first; a read waits through all of it."""
    pair, first = scene.pair, scene.pair.primary
    waiter = await scene.connect("waiter", 1, 0)
    last = (await waiter.create_queue("last")).queue_id
    read = asyncio.create_task(waiter.retrieve_message(last))
    bodies = [f"{number}".encode() for number in range(30)]
    for body in bodies[:10]:
        await scene.put(body)
    await pair.leader.kill()
    await pair.promote()
    for body in bodies[10:20]:
        await scene.put(body)
    await pair.rejoin()
    await pair.switch()
    for body in bodies[20:]:
        await scene.put(body)
    assert pair.primary == first
    await scene.client.put_message(last, b"last")
    message = await asyncio.wait_for(read, PATIENCE_S)
    assert message is not None
    assert (message.body, message.redelivered) == (b"last", False)
    await scene.holds_exactly(*bodies)


async def test_a_put_that_the_standby_never_got_is_done_once(scene: Scene) -> None:
    pair = scene.pair
    upstream = pair.follower.upstream
    put = await scene.put_held_up(b"once", upstream.to_client)
    await pair.leader.kill()
    upstream.cut()  # what is held must not arrive later
    upstream.heal()
    await pair.promote()
    await put
    await pair.rejoin()
    await scene.holds_exactly(b"once")


async def test_a_put_that_the_standby_got_and_did_not_confirm_is_done_once(scene: Scene) -> None:
    pair = scene.pair
    upstream = pair.follower.upstream
    put = await scene.put_held_up(b"once", upstream.to_server)
    await scene.until_stored(pair.follower)
    await pair.leader.kill()
    upstream.cut()  # what is held must not arrive later
    upstream.heal()
    await pair.promote()
    await put
    await pair.rejoin()
    await scene.holds_exactly(b"once")


async def test_a_former_primary_that_wakes_up_is_not_used(scene: Scene) -> None:
    pair = scene.pair
    await scene.put(b"before")
    pair.leader.freeze()
    put = scene.put(b"after")
    await pair.promote()
    await put
    former = pair.follower
    former.thaw()
    await scene.put(b"later")
    newcomer = await scene.connect("newcomer", 1)
    await scene.put(b"newcomer", newcomer)
    # It may have had the first put in its hands when it froze; nothing that came after is there.
    assert await scene.stored(former, b"later", b"newcomer") == 0
    await pair.rejoin()
    await scene.holds_exactly(b"before", b"after", b"later", b"newcomer")


# --- the standby is away ----------------------------------------------------------------------
async def test_without_the_standby_nothing_is_begun_and_lists_are_answered(scene: Scene) -> None:
    pair = scene.pair
    hasty = [await scene.connect(f"hasty {number}", 0, 1) for number in range(2)]
    for client in hasty:  # to connect they may need longer
        object.__setattr__(scene.bounds[client], "call_timeout", 3.0)
    lister = await scene.connect("lister", 1, try_timeout=PATIENCE_S)
    shut = gates_shut(scene)
    await pair.follower.kill()
    doubtful = await refusal(scene.put(b"doubtful", hasty[0]))
    assert doubtful.error_class is ErrorClass.IN_DOUBT
    await until(shut)
    refused = await refusal_between_tries(scene, hasty[1])
    assert isinstance(refused.__cause__, StandbyUnavailableError)
    assert "no synchronous standby" in str(refused)
    assert scene.queue_id in [queue.queue_id for queue in await lister.get_queues()]
    await pair.follower.start()
    await scene.put(b"after")
    await scene.holds_exactly(b"doubtful", b"after")


def gates_shut(scene: Scene, *sites: Site) -> Callable[[], Awaitable[bool]]:
    """Tells when each of these middlewares, or of all, has found from now on that no standby confirms."""
    before = {site: standbys_missed(site) for site in sites or scene.cluster.sites}

    async def shut() -> bool:
        return all(standbys_missed(site) > count for site, count in before.items())

    return shut


def standbys_missed(site: Site) -> int:
    return warnings_of(site.log)["standby_unavailable"]


async def refusal(call: asyncio.Task[Any]) -> TelestoError:
    with pytest.raises(TelestoError) as raised:
        await call
    return raised.value


async def refusal_between_tries(scene: Scene, client: AsyncTelestoClient) -> TelestoError:
    """The error of a put whose time ran out while no answer was on its way: nothing was done."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            refused = await refusal(scene.put(b"refused", client))
            if refused.error_class is not ErrorClass.IN_DOUBT:
                assert refused.error_class is ErrorClass.RETRYABLE
                return refused


async def test_a_client_that_may_wait_sees_no_error(scene: Scene) -> None:
    shut = gates_shut(scene)
    await scene.pair.follower.kill()
    puts = [scene.put(f"{number}".encode()) for number in range(5)]
    await until(shut)
    await scene.pair.follower.start()
    await asyncio.gather(*puts)
    await scene.holds_exactly(*(f"{number}".encode() for number in range(5)))


async def test_a_middleware_may_be_told_to_wait_for_the_standby(scene: Scene, tmp_path: Path) -> None:
    settings = {**SETTINGS, "standby_wait_s": 0}
    async with Cluster(tmp_path, scene.pair.url, 1, settings, primary=lambda: scene.pair.primary) as patient:
        client = await scene.connect("patient", url=patient.url(), try_timeout=PATIENCE_S)
        shut = gates_shut(scene)
        await scene.pair.follower.kill()
        put = scene.put(b"once", client)
        await scene.until_a_put_waits()
        await until(shut)  # by the others, who wait no longer
        session = client.session
        await scene.pair.follower.start()
        await put
        assert client.session == session
        (site,) = patient.sites
        assert standbys_missed(site) == 0
        await client.close()
    await scene.holds_exactly(b"once")


@pytest.mark.parametrize("primary_dies", [False, True], ids=["standby returns", "primary dies"])
async def test_a_put_that_waits_when_its_middleware_dies_is_done_once(
    scene: Scene, primary_dies: bool
) -> None:
    """Somebody ends the wait, so that everybody sees the put; the takeover waits for the standby itself."""
    pair = scene.pair
    upstream = pair.follower.upstream
    shut = gates_shut(scene, scene.second)
    put = await scene.put_held_up(b"once", upstream.to_client)
    await scene.first.middleware.kill()
    await pair.leader.execute(END_WAITING)
    await scene.until_stored(pair.leader)
    assert await scene.stored(pair.follower) == 0
    await until(shut)
    assert not put.done()
    if primary_dies:
        await pair.leader.kill()
        upstream.cut()
        upstream.heal()
        await pair.promote()
    upstream.heal()
    await put
    if primary_dies:
        await pair.rejoin()
    assert await scene.first.start_again() == []
    await scene.holds_exactly(b"once")

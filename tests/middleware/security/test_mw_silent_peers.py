"""Peers that connect and do not say who they are keep nobody of another address out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from admin_port import health
from conftest import Connect
from logged_in import add_user, logged_in
from logins import ScramLogin
from telesto.middleware.metrics.http import CONNECTIONS_MAX
from telesto.middleware.security.login import Login
from telesto.middleware.security.users import User, UserRegistry
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import Wire, hello, until

PLACES = 30
FLOOD = "127.0.0.2"
#: What takes longer has waited until a silent connection was closed, which takes 30 s.
SHORT_S = 5.0

pytestmark = pytest.mark.settings(max_connections=PLACES)


Come = Callable[..., Awaitable[Wire]]


@pytest.fixture
async def come(server: MiddlewareServer) -> AsyncIterator[Come]:
    """Gives a function that connects from an address, and says no more than it is given."""
    wires: list[Wire] = []

    async def connect_from(address: str, says: bytes = b"") -> Wire:
        wire = Wire(*await asyncio.open_connection(*server.address, local_addr=(address, 0)))
        wires.append(wire)
        wire.write(says)
        return wire

    yield connect_from
    for wire in wires:
        await wire.close()


@asynccontextmanager
async def flood(come: Come, says: bytes) -> AsyncIterator[None]:
    """Silent connections of one address, more and more of them."""
    for _ in range(5 * PLACES):
        await come(FLOOD, says)

    async def more() -> None:
        while True:
            await come(FLOOD, says)

    task = asyncio.create_task(more())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    "says", [b"", hello().encode(1), hello().encode(1)[:7]], ids=["nothing", "hello", "half"]
)
async def test_others_come_in_and_stay(
    server: MiddlewareServer, connect: Connect, come: Come, says: bytes
) -> None:
    before = await (await connect(server)).register()
    queue_id = await before.create_queue()
    async with flood(come, says):
        async with asyncio.timeout(SHORT_S):
            others = [await (await connect(server)).register() for _ in range(PLACES // 2)]
            for wire in [before, *others]:
                await wire.put_one(queue_id)
        assert len(server.connections) <= PLACES


async def test_users_log_in_and_stay_before_they_have_a_client(
    server: MiddlewareServer, connect: Connect, come: Come, database: psycopg.Connection
) -> None:
    add_user(database, "alice", put=["*"], clients=["*"])
    await until(lambda: server.users.required)
    async with flood(come, hello().encode(1)):
        async with asyncio.timeout(SHORT_S):
            wires = [await logged_in(server, connect, "alice") for _ in range(PLACES // 2)]
        await asyncio.sleep(0.5)
        async with asyncio.timeout(SHORT_S):
            for wire in wires:
                await wire.register()


@pytest.mark.settings(max_connections=1_000, login_workers=2)
async def test_proofs_that_come_at_once_are_checked_a_few_in_a_turn_of_the_event_loop(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_user(database, "alice", clients=["*"])
    await until(lambda: server.users.required)
    logins = [ScramLogin(await connect(server), "alice") for _ in range(50)]
    for login in logins:
        await login.wire.hello()
    challenges = [await login.begin() for login in logins]
    steps: Counter[int] = Counter()
    turn = 0
    step = Login.step

    async def counted(login: Login, mechanism: str, data: bytes) -> tuple[bytes, User | None]:
        steps[turn] += 1
        return await step(login, mechanism, data)

    def tick() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(tick)

    monkeypatch.setattr(Login, "step", counted)
    proofs: list[bytes] = []
    for login, challenge in zip(logins, challenges, strict=True):
        login.scram.set_server_first(challenge.data.decode())
        proofs.append(login.scram.get_client_final().encode())
    loop = asyncio.get_running_loop()
    loop.call_soon(tick)
    answers = [
        login.wire.send(packets.Authenticate("SCRAM-SHA-256", proof))
        for login, proof in zip(logins, proofs, strict=True)
    ]
    done = await asyncio.wait_for(asyncio.gather(*answers), SHORT_S)
    assert all(answer.done for answer in done)
    assert max(steps.values()) <= 2
    assert steps.total() == len(logins)


@pytest.mark.settings(max_connections=1_000)
async def test_many_logins_of_one_address_delay_those_of_no_other(
    server: MiddlewareServer,
    connect: Connect,
    come: Come,
    database: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They begin and never prove anything, which counts as no failure."""
    add_user(database, "alice", put=["*"], clients=["*"])
    await until(lambda: server.users.required)
    find = UserRegistry.find

    async def find_slowly(users: UserRegistry, name: str) -> User | None:
        await asyncio.sleep(0.05)
        return await find(users, name)

    monkeypatch.setattr(UserRegistry, "find", find_slowly)
    begin = packets.Authenticate("SCRAM-SHA-256", b"n,,n=alice,r=rOprNGfwEbeRWgbNEkqO").encode(2)
    for _ in range(500):
        await come(FLOOD, hello().encode(1) + begin)
    async with asyncio.timeout(SHORT_S):
        await (await logged_in(server, connect, "alice")).register()
    assert server.budget.requests > 100


async def test_it_is_the_oldest_of_the_address_that_has_most(come: Come) -> None:
    few = [await come("127.0.0.3") for _ in range(2)]
    many = [await come(FLOOD) for _ in range(PLACES - 2)]
    for _ in range(3):
        refused = await come(FLOOD)
        await refused.closed()  # the others have only just come
        assert refused.unasked.get_nowait().code == ErrorCode.TOO_MANY_CONNECTIONS
    await asyncio.sleep(1.1)
    more = [await come(FLOOD) for _ in range(3)]
    for wire in many[:3]:
        await wire.closed()
        assert wire.unasked.get_nowait().code == ErrorCode.TOO_MANY_CONNECTIONS
    few.append(await come("127.0.0.3"))
    await many[3].closed()
    for wire in [*few, *more, *many[4:]]:
        assert isinstance(await wire.hello(), packets.HelloResponse)
        await wire.close()


async def test_users_that_log_in_and_say_no_more_keep_nobody_out(
    server: MiddlewareServer, connect: Connect, come: Come, database: psycopg.Connection
) -> None:
    """A quota of connections does not count these."""
    for name in ("alice", "mallory"):
        add_user(database, name, put=["*"], clients=["*"])
    await until(lambda: server.users.required)
    first = await logged_in(server, connect, "alice")
    many = [await logged_in(server, connect, "mallory") for _ in range(PLACES - 1)]
    for _ in range(3):
        await (await come(FLOOD)).closed()  # the others have only just come
    await asyncio.sleep(1.1)
    async with asyncio.timeout(SHORT_S):
        others = [await (await logged_in(server, connect, "alice")).register() for _ in range(PLACES // 2)]
    for wire in many[: PLACES // 2]:
        await wire.closed()
        assert wire.unasked.get_nowait().code == ErrorCode.TOO_MANY_CONNECTIONS
    for wire in [first, *others, *many[PLACES // 2 :]]:
        assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


@pytest.mark.settings(admin_port=0, max_connections=PLACES)
async def test_a_middleware_full_of_them_is_ready(
    server: MiddlewareServer, connect: Connect, come: Come
) -> None:
    """They give way, so clients need not use another one."""
    silent = [await come(FLOOD) for _ in range(PLACES)]
    await until(lambda: len(server.connections) == PLACES)
    assert await health(server, "/readyz") == (200, ["ready"])
    for wire in silent:
        await wire.close()
    await until(lambda: len(server.connections) == 0)
    for _ in range(PLACES):
        await (await connect(server)).register()
    status, lines = await health(server, "/readyz")
    assert (status, lines[0]) == (503, f"not ready: used up: connections, {PLACES} of {PLACES}")


@pytest.mark.settings(admin_port=0)
async def test_silent_ones_at_the_admin_port_keep_no_probe_out(server: MiddlewareServer) -> None:
    assert server.admin_address is not None
    silent = [await asyncio.open_connection(*server.admin_address) for _ in range(3 * CONNECTIONS_MAX)]
    for _ in range(3):
        assert (await health(server, "/livez"))[0] == 200
    for reader, _ in silent[: 2 * CONNECTIONS_MAX]:
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), SHORT_S) == b""
    for _, writer in silent:
        writer.close()


async def test_with_all_places_known_one_more_is_refused(
    server: MiddlewareServer, connect: Connect, come: Come
) -> None:
    wires = [await (await connect(server)).register() for _ in range(PLACES)]
    for _ in range(3):
        refused = await come(FLOOD)
        await refused.closed()
        assert refused.unasked.get_nowait().code == ErrorCode.TOO_MANY_CONNECTIONS
    for wire in wires:
        assert isinstance(await wire.ask(packets.Ping()), packets.Pong)

"""Which of several servers is the primary, and who is not any more."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from telesto.middleware.common.database_url import Server
from telesto.middleware.common.failures import UnavailableError, standby_unavailable, unavailable
from telesto.middleware.database.connection import Gate
from telesto.middleware.database.dsn import RejectedConnectionError
from telesto.middleware.database.primary import Epoch, NotPrimaryError, Primary
from telesto.middleware.database.search import Found, Search
from telesto.middleware.database.server_status import ServerStatus
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import PATIENCE_S

ONE, TWO, THREE = (Server(name, 5432) for name in ("one", "two", "three"))

Ask = Callable[[Server], Awaitable[Found]]


def primary(server: Server, history: int = 1, cluster: int = 7) -> Found:
    return Found(server, ServerStatus(False, False, history, cluster))


def asking(**answers: Found | str | None) -> Ask:
    """Servers that are found, say why they are not, or say nothing at all (None)."""

    async def ask(server: Server) -> Found:
        answer = answers[server.host or ""]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, str):
            raise OSError(answer)
        assert answer is not None
        return answer

    return ask


async def search(ask: Ask, *servers: Server) -> Found:
    looking = Search(servers, ask)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await looking.run()
    finally:
        await looking.close()


async def test_the_only_server_that_takes_writes_is_the_primary() -> None:
    ask = asking(one="one takes no writes", two=primary(TWO), three="three: refused")
    assert (await search(ask, ONE, TWO, THREE)).server == TWO


async def test_a_silent_server_does_not_keep_from_the_primary() -> None:
    assert (await search(asking(one=None, two=primary(TWO)), ONE, TWO)).server == TWO


@pytest.mark.parametrize("order", [(ONE, TWO), (TWO, ONE)])
async def test_of_two_primaries_the_one_promoted_later_counts(order: tuple[Server, Server]) -> None:
    ask = asking(one=primary(ONE, history=3), two=primary(TWO, history=4))
    assert (await search(ask, *order)).server == TWO


async def test_servers_of_different_clusters_are_taken_in_the_order_of_the_url() -> None:
    ask = asking(one=primary(ONE, 3, cluster=1), two=primary(TWO, 4, cluster=2))
    assert (await search(ask, ONE, TWO)).server == ONE


async def test_without_a_primary_each_server_says_why() -> None:
    with pytest.raises(OSError, match=r"^no writes; refused$"):
        await search(asking(one="no writes", two="refused"), ONE, TWO)


async def test_while_one_is_silent_the_others_are_asked_again() -> None:
    """One of them may be promoted in the place of the silent one."""
    asked = 0

    async def ask(server: Server) -> Found:
        nonlocal asked
        if server == ONE:
            await asyncio.Event().wait()
        asked += 1
        if asked < 3:
            raise OSError("two takes no writes")
        return primary(TWO, history=2)

    assert await search(ask, ONE, TWO) == primary(TWO, history=2)


def test_a_former_primary_is_not_used_again() -> None:
    epoch = Epoch()
    assert not epoch.note(primary(ONE, history=1).status)
    assert epoch.note(primary(TWO, history=2).status)
    with pytest.raises(NotPrimaryError, match="one:5432 is a former primary"):
        epoch.check(primary(ONE, history=1))
    epoch.check(primary(TWO, history=2))
    epoch.check(primary(ONE, history=3))
    epoch.check(primary(ONE, history=1, cluster=8))


def test_a_standby_is_not_used() -> None:
    with pytest.raises(NotPrimaryError, match="two:5432 takes no writes: it is a standby"):
        Epoch().check(Found(TWO, ServerStatus(True, True, 0, 7)))


def test_the_same_primary_has_not_moved() -> None:
    epoch = Epoch()
    epoch.note(primary(ONE).status)
    assert not epoch.note(primary(ONE).status)


async def test_a_real_server_tells_its_status(database_url: str) -> None:
    looking = Primary(database_url, PATIENCE_S, 5_000, Epoch())
    status = (await looking.look()).status
    assert not status.read_only
    assert status.history == 1
    assert status.cluster > 0
    await looking.close()


@pytest.mark.parametrize(
    ("configured", "used"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
async def test_commits_wait_for_what_the_server_names(database_url: str, configured: str, used: str) -> None:
    url = f"{database_url}?options=-c%20synchronous_commit%3D{configured}"
    connection = await Primary(url, PATIENCE_S, 5_000, Epoch()).connect("telesto test")
    assert await connection.fetchval("SHOW synchronous_commit") == used
    await connection.close()


async def test_a_server_that_takes_no_writes_is_refused(database_url: str) -> None:
    url = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(OSError, match="takes no writes"):
        await Primary(url, PATIENCE_S, 5_000, Epoch()).connect("telesto test")


def test_a_gate_refuses_what_it_is_shut_for() -> None:
    gate = Gate()
    gate.check(writes=True)
    gate.shut_for_writes = standby_unavailable(500)
    gate.check(writes=False)
    with pytest.raises(UnavailableError) as refused:
        gate.check(writes=True)
    failure = refused.value.failure
    assert failure is not None
    assert (failure.code, failure.error_class) == (ErrorCode.STANDBY_UNAVAILABLE, ErrorClass.RETRYABLE)
    gate.shut = unavailable(100)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        gate.check(writes=False)
    gate.open("test")
    gate.check(writes=True)
    assert gate.is_open


async def test_all_servers_that_reject_are_not_waited_for() -> None:
    async def ask(server: Server) -> Found:
        raise RejectedConnectionError(f"{server}: no such user")

    with pytest.raises(RejectedConnectionError, match=r"^one:5432: no such user; two:5432: no such user$"):
        await search(ask, ONE, TWO)

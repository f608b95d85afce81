"""A middleware that stands still: whom it holds up, and how long."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from telesto.client import AsyncTelestoClient
from telesto.middleware.common.settings import ServerSettings

from ..service.cluster import SETTINGS as QUICK_SETTINGS
from ..service.logs import middleware_complaints
from ..waiting import until
from .service import PATIENCE_S, Service, read_now, running

pytestmark = pytest.mark.faults

DEFAULTS = {name: field.default for name, field in ServerSettings.model_fields.items()}
#: Those that decide when what hangs is ended; later than by default, so that a busy machine does not end it
#: while the others are looked at. A call that waits for a lock goes on waiting, so that it is there to hang.
SETTINGS = {name: DEFAULTS[name] for name in QUICK_SETTINGS} | {
    "heartbeat_timeout_s": 20.0,
    "lock_wait_ms": 600_000,
}
#: A busy machine answers late. Its clients must not leave for that before the middleware hangs.
PATIENT = {"try_timeout": 4.0, "keep_alive": 4.0}
#: What the service says a middleware that hangs may hold up its clients.
HELD_UP_S = 10.0

HANGING = """
SELECT pid FROM pg_stat_activity
WHERE application_name LIKE $1 AND wait_event = $2 AND datname = current_database()
"""
THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1::int[])"


def test_what_hangs_is_ended_in_time() -> None:
    """By its peers, at their first sign of life after it was silent too long; sooner if it does not read."""
    by_peers_s = DEFAULTS["heartbeat_timeout_s"] + DEFAULTS["heartbeat_interval_s"]
    by_the_kernel_s = DEFAULTS["database_silent_ms"] / 1000
    assert by_peers_s <= 0.8 * HELD_UP_S
    assert by_the_kernel_s <= by_peers_s


@pytest_asyncio.fixture
async def service(tmp_path: Path, database_url: str) -> AsyncIterator[Service]:
    async with running(tmp_path, database_url, **SETTINGS) as service:
        yield service
    for site in service.sites:
        assert list(middleware_complaints(site.log)) == []


async def test_a_middleware_that_hangs_holds_up_its_own_clients_only(service: Service) -> None:
    """One transaction waits with its client's lock; others have ended before their answers are sent."""
    first = service.sites[0]
    putting, reading, consuming = [
        await service.client(name, 0, 1, **PATIENT) for name in ("putting", "reading", "consuming")
    ]
    other = await service.client("other", 1)
    put_to, read_from, consumed, elsewhere = [
        (await other.create_queue(name)).queue_id for name in ("put to", "read from", "consumed", "elsewhere")
    ]
    body = bytes(12 << 20)
    for queue_id in (read_from, consumed):
        await other.put_message(queue_id, body)
        await other.put_message(queue_id, b"small")
    session = putting.session
    async with service.locked("put_lock_key", put_to):
        put = asyncio.create_task(putting.put_message(put_to, b"once"))
        await until(lambda: hanging(service, "put", "advisory"))
        first.back.to_client.bytes_per_s = 200_000
        read = asyncio.create_task(reading.retrieve_message(read_from, timeout=PATIENCE_S))
        await until(lambda: hanging(service, "take", "ClientWrite"))
        consume = asyncio.create_task(consuming.queue(consumed).consume(credit=1).get())
        await until(lambda: hanging(service, "claim", "ClientWrite"))
        first.middleware.signal(signal.SIGSTOP)
        processes = await hanging(service, "put", "advisory")
        for link in ("take", "claim"):
            processes += await hanging(service, link, "ClientWrite")

        await other.put_message(elsewhere, b"elsewhere")
        assert await read_now(other, elsewhere) == [(b"elsewhere", False)]
        for queue_id in (read_from, consumed):
            assert await read_now(other, queue_id) == [(b"small", False)]
        message = await read
        assert message is not None
        assert (message.body == body, message.redelivered) == (True, False)
        # Nothing of this has waited until what hangs was ended.
        assert await service.database.fetchval(THERE, processes) == 3
        assert putting.session == session

        await until(lambda: has_moved(putting, session))
        assert await service.database.fetchval(THERE, processes[:1]) == 0
    await put
    leased = await asyncio.wait_for(consume, PATIENCE_S)
    assert leased is not None
    assert leased.message.body == body
    assert await read_now(other, put_to) == [(b"once", False)]
    assert await read_now(other, read_from) == []


async def hanging(service: Service, link: str, event: str) -> list[int]:
    """The server processes of that name that wait for that."""
    rows = await service.database.fetch(HANGING, f"telesto {link}%", event)
    return [row["pid"] for row in rows]


async def has_moved(client: AsyncTelestoClient, session: int | None) -> bool:
    return client.connected and client.session != session

"""How long a transaction of a SQL user may hold up those who wait for a queue's lock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from procedure_calls import Calls, Client, until_blocked

LIMIT_MS = 400
#: What waits longer than this was held up without a limit.
PATIENCE = "60s"
READ = "SELECT FROM telesto.read_message_by_priority(%s, %s)"
AGAIN = "SELECT pg_sleep(0.05)"


@pytest.fixture
def application(database_url: str, calls: Calls) -> Iterator[psycopg.Connection]:
    """A connection of an application, which opens a transaction by its first statement."""
    calls.connection.execute("UPDATE telesto.installation SET sql_lock_limit_ms = %s", (LIMIT_MS,))
    calls.connection.execute(f"SET lock_timeout = '{PATIENCE}'".encode())
    connection = psycopg.connect(database_url)
    yield connection
    connection.close()


def _idle(_application: psycopg.Connection, _again: str, _arguments: tuple[int, ...]) -> None:
    """It does nothing more."""


def _busy(application: psycopg.Connection, again: str, arguments: tuple[int, ...]) -> None:
    """It executes one short statement after the other."""
    while True:
        application.execute(again.encode(), arguments)


def _asleep(application: psycopg.Connection, _again: str, _arguments: tuple[int, ...]) -> None:
    """It executes a long one."""
    application.execute("SELECT pg_sleep(600)")


@pytest.mark.parametrize("rest", [_idle, _busy, _asleep])
@pytest.mark.parametrize(
    ("holding", "again"),
    [
        ("SELECT FROM telesto.read_message_by_priority(%s, %s)", AGAIN),
        ("SELECT FROM telesto.read_message_by_priority(%s, %s)", READ),  # which does not buy more time
        ("SELECT FROM telesto.read_message_by_timestamp(%s, %s)", AGAIN),
        ("SELECT FROM telesto.read_response_message(%s, %s, 1)", AGAIN),
        ("SELECT telesto.delete_queue(%s + %s - %s)", AGAIN),
    ],
)
def test_an_open_transaction_holds_readers_up_for_a_limited_time(
    calls: Calls,
    client: Client,
    queue: int,
    application: psycopg.Connection,
    holding: str,
    again: str,
    rest: Callable[[psycopg.Connection, str, tuple[int, ...]], None],
) -> None:
    if rest is not _idle and application.info.server_version < 170000:
        pytest.skip("transaction_timeout is of PostgreSQL 17")
    calls.put_bodies(client, queue, b"x")
    arguments = (client.client_id, queue, client.client_id)[: holding.count("%s")]
    application.execute(holding.encode(), arguments)

    def go_on() -> None:
        with suppress(psycopg.Error):
            rest(application, again, arguments if "%s" in again else ())

    thread = threading.Thread(target=go_on)
    thread.start()
    # It comes although the application never ends its transaction, and what was done there is undone.
    assert calls.take_one(client, queue).bodies == [b"x"]
    thread.join()
    with pytest.raises(psycopg.Error):
        application.execute("SELECT 1")
    assert application.closed


def test_without_a_limit_it_waits(
    calls: Calls, client: Client, queue: int, application: psycopg.Connection, open_calls: Callable[[], Calls]
) -> None:
    calls.connection.execute("UPDATE telesto.installation SET sql_lock_limit_ms = 0")
    calls.put_bodies(client, queue, b"x")
    application.execute(READ, (client.client_id, queue))
    taken: list[list[bytes]] = []
    thread = threading.Thread(target=lambda: taken.append(calls.take_one(client, queue).bodies))
    thread.start()
    until_blocked(open_calls(), calls)
    assert application.execute(
        "SELECT current_setting('idle_in_transaction_session_timeout')"
    ).fetchone() != (f"{LIMIT_MS}ms",)
    application.rollback()
    thread.join()
    assert taken == [[b"x"]]


@pytest.mark.parametrize(
    ("own", "after"), [("100ms", "100ms"), ("0", f"{LIMIT_MS}ms"), ("1h", f"{LIMIT_MS}ms")]
)
def test_a_shorter_limit_of_the_session_stays(
    client: Client, queue: int, application: psycopg.Connection, own: str, after: str
) -> None:
    application.execute(f"SET idle_in_transaction_session_timeout = '{own}'".encode())
    application.commit()
    application.execute(READ, (client.client_id, queue))
    shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
    assert application.execute(shown).fetchone() == (after,)
    application.commit()
    assert application.execute(shown).fetchone() == (own,)

"""What is for anyone and what is for the reader alone form one order, also while puts run."""

import threading
from collections.abc import Callable

import psycopg
import pytest

MESSAGES = 2_000
TAKE = (
    "SELECT message_id FROM telesto.take_batch(ARRAY[%s::bigint], ARRAY[1::bigint], ARRAY[0::bigint],"
    " ARRAY[%s::bigint], ARRAY[1], ARRAY[100000], '{}', '{}', '{}')"
)
TAKE_SELECTED = (
    "SELECT message_id FROM telesto.take_selected_batch(ARRAY[%s::bigint], ARRAY[1::bigint],"
    " ARRAY[0::bigint], ARRAY[%s::bigint], ARRAY[1], ARRAY[100000], '{}', '{}', '{}',"
    " ARRAY[0::bigint], ARRAY[2::smallint], ARRAY[NULL::bigint])"
)
PUT = (
    "SELECT telesto.put_batch(ARRAY[%(sender)s::bigint], ARRAY[1::bigint], ARRAY[0::bigint],"
    " ARRAY[49::smallint], array_fill(1, ARRAY[%(n)s]), array_fill(%(queue)s::bigint, ARRAY[%(n)s]),"
    " %(receivers)s::bigint[], array_fill(5::smallint, ARRAY[%(n)s]), array_fill(NULL::bigint, ARRAY[%(n)s]),"
    " array_fill('x'::bytea, ARRAY[%(n)s]), '{}', '{}', '{}')"
)


def _register(connection: psycopg.Connection, name: str) -> int:
    row = connection.execute(
        "SELECT client_id FROM telesto.register_client(%s, 1::smallint, %s)", (name, name.encode())
    ).fetchone()
    assert row is not None
    return int(row[0])


def _put(connection: psycopg.Connection, sender: int, queue: int, receivers: list[int]) -> None:
    values = {"sender": sender, "queue": queue, "receivers": receivers, "n": len(receivers)}
    connection.execute(PUT, values)


def _while_running(work: Callable[[], None]) -> Callable[[], None]:
    """Repeats the work in a thread; returns what stops it and waits for its end."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(0.001):
            work()

    thread = threading.Thread(target=run)
    thread.start()

    def stop() -> None:
        stopped.set()
        thread.join()

    return stop


@pytest.mark.parametrize("take", [TAKE, TAKE_SELECTED], ids=["by priority", "by time"])
def test_own_messages_do_not_overtake_older_ones(database_url: str, take: str) -> None:
    with (
        psycopg.connect(database_url, autocommit=True) as reading,
        psycopg.connect(database_url, autocommit=True) as putting,
    ):
        sender, reader, other = (_register(reading, name) for name in ("sender", "reader", "other"))
        row = reading.execute(
            "SELECT queue_id FROM telesto.create_queue_numbered(%s, 1, 0, '{}', '{}', 'queue', NULL)",
            (sender,),
        ).fetchone()
        assert row is not None
        queue = int(row[0])
        # Something waits for somebody else, so that the reader's own messages are looked for.
        _put(reading, sender, queue, [other])
        stop = _while_running(lambda: _put(putting, sender, queue, [0, reader]))
        try:
            taken: list[int] = []
            while len(taken) < MESSAGES:
                taken += [int(row[0]) for row in reading.execute(take, (reader, queue))]
        finally:
            stop()
    assert taken == sorted(taken)

"""What is kept for a middleware about leases that ran out goes with it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import Open
from consumer_calls import Consuming
from procedure_calls import Calls, until_blocked

LOST = "SELECT * FROM telesto.lost_leases"


@pytest.fixture
def dying(calls: Calls) -> Consuming:
    """A middleware with a consumer whose lease has run out."""
    dying = Consuming(calls)
    client = calls.register()
    queue = calls.create_queue(client)
    calls.put_bodies(client, queue, b"x")
    dying.claim(dying.join(client, queue))
    dying.age(40)
    return dying


@pytest.fixture
def survivor(calls: Calls) -> Consuming:
    return Consuming(calls, "127.0.0.1:7002")


def test_nothing_is_kept_for_a_middleware_that_is_gone(
    calls: Calls, dying: Consuming, survivor: Consuming
) -> None:
    calls.value("unregister_middleware", dying.middleware)
    survivor.sweep()
    assert calls.query(LOST) == []


def test_nothing_is_kept_for_a_middleware_that_goes_at_the_same_time(
    calls: Calls, dying: Consuming, survivor: Consuming, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    other = open_calls()
    with calls.connection.transaction():
        survivor.sweep()
        assert len(calls.query(LOST)) == 1
        going = pool.submit(other.value, "unregister_middleware", dying.middleware)
        until_blocked(open_calls(), other)
    going.result()
    assert calls.query(LOST) == []


def test_a_middleware_that_is_going_is_waited_for(
    calls: Calls, dying: Consuming, survivor: Consuming, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    other = open_calls()
    with other.connection.transaction():
        other.value("unregister_middleware", dying.middleware)
        sweeping = pool.submit(survivor.sweep)
        until_blocked(other, calls)
    assert sweeping.result()["done"] == 2  # the lease, then the consumer
    assert calls.query(LOST) == []

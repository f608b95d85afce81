"""An answer that moves a client's state comes from a transaction that wrote.

Only such a commit waits for a synchronous standby, and only then is all that it saw safe there: what another
transaction has left may not have reached the standby yet, if its wait was cancelled or the server crashed.
"""

from collections.abc import Callable

import pytest

from procedure_calls import (
    CLIENT_NOT_EXISTING,
    QUEUE_NOT_EXISTING,
    SESSION_FENCED,
    Calls,
    Client,
    Element,
    Put,
    Read,
)
from topic_calls import NOT_SUBSCRIBED, SEQUENCE_GAP, Get, Publish, TopicCalls

Call = Callable[[Calls, Client, int], None]
TopicCall = Callable[[TopicCalls, Client, int], None]


def confirm_again(calls: Calls, client: Client, _queue: int) -> None:
    assert calls.confirm(client, (client.session, 1, 0))["unknown"] == 1


def confirm_a_message_again(calls: Calls, client: Client, _queue: int) -> None:
    assert calls.confirm(client, (client.session, 2, 99))["unknown"] == 1


def put_with_a_confirmation_again(calls: Calls, client: Client, queue: int) -> None:
    """A put that is refused and unrecorded, so that nothing but the confirmation could write."""
    confirmed = [(client.client_id, client.session, 1)]
    (answer,) = calls.put([Put(client, [Element(queue + 1)], number=0)], confirmed)
    assert answer.errors != [None]


def read_nothing_with_a_confirmation_again(calls: Calls, client: Client, queue: int) -> None:
    confirmed = [(client.client_id, client.session, 1)]
    assert calls.take([Read(client, queue)], confirmed)[0].ids == []


def select_nothing_with_a_confirmation_again(calls: Calls, client: Client, queue: int) -> None:
    confirmed = [(client.client_id, client.session, 1)]
    assert calls.select([Read(client, queue, sender=7)], confirmed)[0].ids == []


def give_back_again(calls: Calls, client: Client, _queue: int) -> None:
    row = calls.release(client, (client.session, 1, 0))
    assert (row["error"], row["queue_ids"]) == (None, None)


def put_a_key_again_unrecorded(calls: Calls, client: Client, queue: int) -> None:
    (answer,) = calls.put([Put(client, [Element(queue, key="key")], number=0)])
    assert answer.errors == [None]
    assert answer.message_ids[0] < 0


def identify_a_client_that_is_gone(calls: Calls, client: Client, _queue: int) -> None:
    assert calls.row("identify_client", client.client_id + 1, "")["error"] == CLIENT_NOT_EXISTING


def identify_a_name_that_is_gone(calls: Calls, _client: Client, _queue: int) -> None:
    assert calls.row("identify_client", 0, "nobody")["error"] == CLIENT_NOT_EXISTING


def resume_after_another_process(calls: Calls, client: Client, _queue: int) -> None:
    row = calls.row("identify_client", client.client_id, "", b"another", True)
    assert row["error"] == SESSION_FENCED


def list_operations(calls: Calls, client: Client, _queue: int) -> None:
    assert len(calls.rows("list_unconfirmed_operations", client.client_id, client.session, 0, 0, 10)) == 0


def list_hand_overs(calls: Calls, client: Client, _queue: int) -> None:
    arguments = (client.client_id, client.session, 0, 0, 0, 10, 1 << 20)
    assert len(calls.rows("list_unconfirmed_hand_overs", *arguments)) == 0


def delete_a_queue_that_is_gone_unrecorded(calls: Calls, client: Client, queue: int) -> None:
    assert calls.numbered("delete_queue", client, queue + 1, number=0)["error"] == QUEUE_NOT_EXISTING


def tell_a_position_again(calls: TopicCalls, client: Client, subscription: int) -> None:
    (got,) = calls.fetch([Get(client, -1, [(subscription, 2, 0)], max_messages=0)])
    assert (got.error, got.messages) == (None, [])


def get_nothing_telling_a_position_again(calls: TopicCalls, client: Client, subscription: int) -> None:
    assert calls.get(client, subscription, (subscription, 2, 2)).empty_topics


def get_a_message_again(calls: TopicCalls, client: Client, _subscription: int) -> None:
    assert calls.get(client, "unread").numbers == [1]


def put_a_sequence_again_unrecorded(calls: TopicCalls, client: Client, _subscription: int) -> None:
    (answer,) = calls.publish([Publish(client, "topic", [(b"body", 1)], number=0)])
    assert answer.duplicates == [True]


def put_behind_a_gap_unrecorded(calls: TopicCalls, client: Client, _subscription: int) -> None:
    (answer,) = calls.publish([Publish(client, "topic", [(b"body", 4)], number=0)])
    assert answer.errors == [SEQUENCE_GAP]


def unsubscribe_again_unrecorded(calls: TopicCalls, client: Client, _subscription: int) -> None:
    assert calls.numbered("unsubscribe", client, "nothing", number=0)["error"] == NOT_SUBSCRIBED


@pytest.mark.parametrize(
    "call",
    [
        confirm_again,
        confirm_a_message_again,
        put_with_a_confirmation_again,
        read_nothing_with_a_confirmation_again,
        select_nothing_with_a_confirmation_again,
        give_back_again,
        put_a_key_again_unrecorded,
        identify_a_client_that_is_gone,
        identify_a_name_that_is_gone,
        resume_after_another_process,
        list_operations,
        list_hand_overs,
        delete_a_queue_that_is_gone_unrecorded,
    ],
)
def test_an_answer_that_moves_a_client_comes_from_a_transaction_that_wrote(
    calls: Calls, client: Client, call: Call
) -> None:
    queue = calls.create_queue(client, dedup_window_ms=60_000)
    calls.put([Put(client, [Element(queue, key="key")], number=0)])
    calls.take([Read(client, queue, number=0)])
    assert not wrote(calls, lambda: calls.scalar("SELECT 1"))
    assert wrote(calls, lambda: call(calls, client, queue))


@pytest.mark.parametrize(
    "call",
    [
        tell_a_position_again,
        get_nothing_telling_a_position_again,
        get_a_message_again,
        put_a_sequence_again_unrecorded,
        put_behind_a_gap_unrecorded,
        unsubscribe_again_unrecorded,
    ],
)
def test_so_do_answers_about_topics(topic_calls: TopicCalls, call: TopicCall) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "topic")
    topic_calls.subscribe(client, "unread")
    topic_calls.put_to(client, "unread", b"body")
    topic_calls.publish([Publish(client, "topic", [(b"one", 1), (b"two", 2)])])
    topic_calls.get(client, subscription, (subscription, 2, 0))
    assert wrote(topic_calls, lambda: call(topic_calls, client, subscription))


def wrote(calls: Calls, act: Callable[[], object]) -> bool:
    """Acts in a transaction; tells whether its commit will wait for a synchronous standby."""
    with calls.connection.transaction():
        before = calls.scalar("SELECT pg_current_wal_insert_lsn()")
        act()
        has_id = calls.scalar("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        logged = calls.scalar("SELECT pg_current_wal_insert_lsn() > %s::pg_lsn", before)
    return bool(has_id and logged)

"""What calls say of a queue, a topic or a client that does not exist."""

from collections.abc import Callable
from typing import Any

import pytest

from telesto.client import InvalidParameterError, QueueFullError, QueueNotExistingError, ReadMode
from telesto.client.calls.queue_calls import CreateQueueCall, UpdateQueueCall
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import ElementResult

Connect = Callable[..., Any]


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """What is said comes from the service."""
    return real_service_url


def first_of_many(client: Any) -> Any:
    (result,) = client.queue(999).put_many([b"x"])
    raise result.error


def one_of_several(client: Any) -> Any:
    queue = client.create_queue("there")
    there, missing = client.put_messages([queue.queue_id, 999], b"x")
    assert there.error is None
    raise missing.error


def join(client: Any) -> None:
    with client.queue(999).consume():
        pass


CALLS: dict[str, Callable[[Any], Any]] = {
    "put_message": lambda client: client.put_message(999, b"x"),
    "put_messages": lambda client: client.put_messages([999], b"x"),
    "one of put_messages": one_of_several,
    "put_many": first_of_many,
    "request": lambda client: client.send_request_response_message(999, b"x", timeout=60),
    "retrieve_message": lambda client: client.retrieve_message(999, timeout=0),
    "retrieve_message, waiting": lambda client: client.retrieve_message(999, timeout=60),
    "retrieve_message by time": lambda client: client.retrieve_message(999, mode=ReadMode.TIME, timeout=60),
    "retrieve_messages": lambda client: client.queue(999).get_many(max_messages=5, timeout=0),
    "consume": join,
    "run_consumer": lambda client: client.queue(999).run_consumer(print),
    "serve_requests": lambda client: client.queue(999).serve_requests(print),
    "update_queue": lambda client: client.queue(999).update(max_attempts=3),
    "queue_settings": lambda client: client.queue(999).settings(),
    "delete_queue": lambda client: client.delete_queue(999),
    "get_queue_by_id": lambda client: client.get_queue_by_id(999),
    "purge_queue": lambda client: client.queue(999).purge(),
    "queue_statistics": lambda client: client.queue(999).statistics(),
    "read_messages": lambda client: list(client.read_messages(999)),
    "dead_letters": lambda client: list(client.queue(999).dead_letters()),
    "delete_dead_letters": lambda client: client.queue(999).delete_dead_letters(),
    "redrive": lambda client: client.queue(999).redrive(),
    "create_queue": lambda client: client.create_queue("new", dead_letter_queue=999),
    "update_queue to a missing one": lambda client: client.queue(
        client.create_queue("there").queue_id
    ).update(dead_letter_queue=999),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_queue_that_is_missing_is_named(client: Any, call: str) -> None:
    with pytest.raises(QueueNotExistingError) as caught:
        CALLS[call](client)
    assert caught.value.details == "there is no queue 999"


@pytest.mark.parametrize(
    "call", [lambda client: client.get_queue_by_name("no"), lambda client: client.queue("no").put(b"x")]
)
def test_of_a_name_that_is_missing_it_says_what_makes_it(client: Any, call: Any) -> None:
    with pytest.raises(QueueNotExistingError, match="there is no queue 'no'; declare_queue makes it"):
        call(client)


@pytest.mark.parametrize(
    "call",
    [CreateQueueCall("new", {"dead_letter_queue": 999}), UpdateQueueCall(1, {"dead_letter_queue": 999})],
)
def test_a_takeover_tells_which_queue_was_missing(call: Any) -> None:
    with pytest.raises(QueueNotExistingError, match="there is no queue 999"):
        call.recorded([ElementResult(999, ErrorCode.QUEUE_NOT_EXISTING)])


def test_a_takeover_tells_of_the_requests_own_queue_without_naming_it() -> None:
    with pytest.raises(QueueNotExistingError, match="there is no queue 7"):
        UpdateQueueCall(7, {"max_attempts": 3}).recorded([ElementResult(0, ErrorCode.QUEUE_NOT_EXISTING)])


def test_dead_letters_that_would_come_back_are_told_apart(client: Any) -> None:
    first = client.create_queue("first")
    second = client.create_queue("second", dead_letter_queue=first.queue_id)
    with pytest.raises(InvalidParameterError) as caught:
        client.queue(first.queue_id).update(dead_letter_queue=second.queue_id)
    assert caught.value.details == (
        f"queue {first.queue_id} was not changed: "
        f"its dead letters would come back from queue {second.queue_id}"
    )


def test_a_full_queue_is_named(client: Any) -> None:
    queue = client.create_queue("small", max_messages=1)
    client.put_message(queue.queue_id, b"x")
    with pytest.raises(QueueFullError, match=f"queue {queue.queue_id} holds as many messages as it may"):
        client.put_message(queue.queue_id, b"x")


def test_dead_letters_outlive_their_queue(client: Any) -> None:
    queue = client.create_queue("gone", max_attempts=1, backoff=0)
    client.queue(queue.queue_id).put_many([b"0", b"1"])
    with client.queue(queue.queue_id).consume() as consumer:
        for _ in range(2):
            leased = consumer.get(60)
            leased.nack()
    client.delete_queue(queue.queue_id)
    letters = list(client.queue(queue.queue_id).dead_letters())
    assert [letter.message.body for letter in letters] == [b"0", b"1"]
    assert client.queue(queue.queue_id).delete_dead_letters([letters[0].message.message_id]) == 1
    assert client.queue(queue.queue_id).delete_dead_letters([letters[0].message.message_id]) == 0
    assert client.queue(queue.queue_id).delete_dead_letters() == 1
    for call in (
        lambda: list(client.queue(queue.queue_id).dead_letters()),
        lambda: client.queue(queue.queue_id).delete_dead_letters(),
    ):
        with pytest.raises(QueueNotExistingError, match=f"there is no queue {queue.queue_id}"):
            call()

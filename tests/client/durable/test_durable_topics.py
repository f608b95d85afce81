"""Topics with a state: what the application came back from does not come again, whoever forgets it."""

from typing import Any

import pytest

from fake_service import FakeService
from harness import Clock
from telesto.client.calls.queue_calls import DONE
from telesto.client.calls.readers import Reader
from telesto.client.calls.topic_calls import GetCall, PutOneToTopicCall, SubscribeCall, UnsubscribeCall
from telesto.client.errors import StateWriteError
from telesto.client.io.shared import told_one_by_one
from telesto.client.models import TopicMessage
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from test_durable_session import Client


@pytest.fixture
def service() -> FakeService:
    return FakeService(Clock())


@pytest.fixture
def client(service: FakeService) -> Client:
    client = Client(service, ClientOptions(fetch_ahead=10))
    client.wire.run(SubscribeCall("t", None, None, False))
    for body in (b"1", b"2", b"3"):
        client.wire.run(PutOneToTopicCall("t", body, None))
    client.wire.advance(1)
    return client


def get(client: Client, topic: str | None = "t", **attributes: Any) -> list[bytes]:
    return [message.body for message in take(client, topic, **attributes)]


def take(
    client: Client, topic: str | None = "t", reader: object = None, **attributes: Any
) -> list[TopicMessage]:
    call = GetCall(topic, 0, **attributes)
    if reader is not None:
        call.reader = Reader(reader, lambda: False)
    messages: list[TopicMessage] = client.wire.run(call)
    return messages


def position(service: FakeService) -> int:
    [subscription] = service.topics.subscriptions.values()
    return subscription.position


def test_a_message_in_hand_comes_again(client: Client) -> None:
    assert get(client) == [b"1"]
    client.restart()
    assert get(client) == [b"1"]


def test_what_the_application_came_back_from_does_not(client: Client, service: FakeService) -> None:
    assert [get(client, ahead=10), get(client, ahead=10)] == [[b"1"], [b"2"]]
    assert position(service) == 0, "the service has been told nothing"
    client.restart()
    assert get(client) == [b"2"]
    assert position(service) == 1


def test_it_is_durable_before_the_next_message_is_returned(client: Client) -> None:
    get(client, ahead=10)
    client.wire.writes_wait = True
    call = client.wire.start(GetCall("t", 0, ahead=10))
    client.wire.settle()
    assert call.phase != DONE
    client.wire.write()
    assert [message.body for message in client.wire.finish(call)] == [b"2"]


def test_the_service_knows_it_when_the_state_is_lost(client: Client, service: FakeService) -> None:
    for _ in range(3):
        get(client)
    assert position(service) == 2
    client.crash()
    client.state.stored.positions.clear()
    client.begin()
    assert get(client) == [b"3"]


def test_a_position_is_kept_until_the_service_knows_it(client: Client, service: FakeService) -> None:
    get(client)
    client.wire.session.confirm_topics(take(client))
    client.wire.session.confirm([])
    client.wire.write()
    client.crash()
    assert [entry.number for entry in client.state.stored.positions.values()] == [2]
    client.begin()
    client.wire.advance(1)
    assert position(service) == 2
    assert not client.state.stored.positions


def test_confirming_is_durable_when_its_call_is_over(client: Client, service: FakeService) -> None:
    client.wire.session.confirm_topics(take(client, ahead=10))
    call = client.wire.session.confirm([])
    client.wire.write()
    client.wire.finish(call)
    client.restart()
    assert get(client) == [b"2"]


def test_what_another_reader_holds_is_not_passed_over(client: Client) -> None:
    assert [get(client, reader=reader, ahead=10) for reader in ("a", "b", "b")] == [[b"1"], [b"2"], [b"3"]]
    client.restart()
    assert get(client) == [b"1"]


def test_closing_means_that_all_is_processed(client: Client, service: FakeService) -> None:
    get(client)
    client.wire.session.begin_close()
    client.wire.settle()
    client.wire.session.end_close()
    assert position(service) == 1


def test_closing_after_a_failure_means_nothing(client: Client, service: FakeService) -> None:
    get(client)
    client.wire.session.begin_close(failed=True)
    client.wire.settle()
    client.wire.session.end_close()
    client.wire.write()
    client.begin()
    assert get(client) == [b"1"]


def test_a_message_whose_position_cannot_be_written_is_not_returned(client: Client) -> None:
    get(client, ahead=10)
    client.state.broken = True
    with pytest.raises(StateWriteError):
        get(client, ahead=10)
    client.state.broken = False
    assert get(client, ahead=10) == [b"2"]


def test_a_subscription_that_ended_leaves_nothing(client: Client) -> None:
    get(client)
    client.wire.run(UnsubscribeCall("t"))
    client.wire.run(SubscribeCall("t", None, None, False))
    client.wire.run(PutOneToTopicCall("t", b"4", None))
    client.restart()
    assert get(client) == [b"4"]
    client.wire.advance(1)
    assert [entry.number for entry in client.state.stored.positions.values()] == []


def test_a_put_that_was_under_way_is_put_once(client: Client, service: FakeService) -> None:
    client.send_only(PutOneToTopicCall("t", b"done", None))
    client.restart()
    client.wire.start(PutOneToTopicCall("t", b"not done", None))
    client.wire.collect()
    client.restart()
    client.wire.advance(1)
    assert [body for _, _, body, _ in service.topics.topics["t"].messages][3:] == [b"done", b"not done"]
    [first, second] = list(told_one_by_one(client.wire.session))
    assert [first.message.body, first.topic, first.message_id] == [b"done", "t", 4]
    assert [second.message.body, second.topic, second.message_id] == [b"not done", "t", 5]
    assert not [packet for packet in service.received if isinstance(packet, packets.GetFromTopics)]

"""Bodies that are bytes, texts and values, through both clients."""

import json
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telesto.client import Body, InvalidParameterError, NewMessage
from telesto.client.arguments import new_message

Connect = Callable[..., Any]

TEXT, JSON = "text/plain; charset=utf-8", "application/json"
#: A body, and how it is stored.
BODIES: list[tuple[Body, bytes, str | None]] = [
    (b"\x00\xff", b"\x00\xff", None),
    (bytearray(b"ab"), b"ab", None),
    (memoryview(b"ab"), b"ab", None),
    (b"", b"", None),
    ("", b"", TEXT),
    ("zwölf", "zwölf".encode(), TEXT),
    ({"order": 7, "name": "zwölf"}, '{"order":7,"name":"zwölf"}'.encode(), JSON),
    ([1, None, True, {"a": []}], b'[1,null,true,{"a":[]}]', JSON),
    ({}, b"{}", JSON),
    (7, b"7", JSON),
    (-0.5, b"-0.5", JSON),
    (False, b"false", JSON),
]


@pytest.fixture
def queue(client: Any) -> Any:
    return client.create_queue("orders")


def test_a_body_is_stored_as_what_it_is_and_says_so(client: Any, queue: Any) -> None:
    for body, _, _ in BODIES:
        queue.put(body)
        client.put_message(queue, body)
        client.put_messages([queue], body)
    queue.put_many([body for body, _, _ in BODIES])
    queue.put_many([NewMessage(body) for body, _, _ in BODIES])
    expected = [each for each in BODIES for _ in range(3)] + BODIES * 2
    for body, stored, content_type in expected:
        message = queue.get(timeout=0)
        assert (message.body, message.content_type) == (stored, content_type)
        assert message.headers == ({} if content_type is None else {"content-type": content_type})
        if content_type == TEXT:
            assert message.text == body
        elif content_type == JSON:
            assert message.json() == body


@pytest.mark.parametrize("name", ["content-type", "Content-Type"])
def test_the_callers_content_type_counts(client: Any, queue: Any, name: str) -> None:
    queue.put({"a": 1}, headers={name: "application/vnd.shop+json", "tenant": "north"})
    message = queue.get(timeout=0)
    assert message.headers == {name: "application/vnd.shop+json", "tenant": "north"}
    assert message.content_type == "application/vnd.shop+json"


def test_other_headers_stay(client: Any, queue: Any) -> None:
    queue.put("x", headers={"tenant": "north"})
    assert queue.get(timeout=0).headers == {"tenant": "north", "content-type": TEXT}


def test_requests_and_responses_are_values(client: Any, connected: Connect, queue: Any) -> None:
    client.put_message(queue, {"sum": [1, 2]}, correlation_id=7)
    request = queue.get(timeout=0)
    assert request.json() == {"sum": [1, 2]}
    client.reply(request, 3)
    (response,) = queue.browse()
    assert (response.json(), response.content_type) == (3, JSON)


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (None, TypeError, "body must be bytes, or a str, dict, list or number.*, not NoneType"),
        ((1, 2), TypeError, "not tuple"),
        ({1, 2}, TypeError, "not set"),
        ({"at": object()}, TypeError, "cannot be put as JSON: Object of type object"),
        ({(1, 2): 3}, TypeError, "cannot be put as JSON: keys must be str"),
        ([b"x"], TypeError, "cannot be put as JSON: Object of type bytes"),
        (math.nan, InvalidParameterError, "cannot be put as JSON"),
        ({"a": math.inf}, InvalidParameterError, "cannot be put as JSON"),
        ("a\ud800", InvalidParameterError, "has a character that UTF-8 does not have: '.ud800'"),
        (["\udc80"], InvalidParameterError, "has a character that UTF-8 does not have"),
    ],
)
def test_what_cannot_be_put_is_said(
    client: Any, queue: Any, body: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        queue.put(body)
    for message in (body, NewMessage(body)):
        with pytest.raises(error, match=words):
            queue.put_many([message])
    assert list(queue.browse()) == []


def test_what_contains_itself_or_is_too_deep_cannot_be_put() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for body in (circle, deep):
        with pytest.raises((InvalidParameterError, TypeError), match="cannot be put as JSON"):
            new_message(body, 5, None, None)


@pytest.mark.parametrize("messages", [{"order": 7}, "text", b"bytes", 7])
def test_one_body_is_no_list_of_messages(client: Any, queue: Any, messages: Any) -> None:
    with pytest.raises(TypeError, match="messages must be a list of messages"):
        queue.put_many(messages)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"x" * 1_000])
def test_a_body_that_is_no_json_is_said(client: Any, queue: Any, body: bytes) -> None:
    message_id = queue.put(body)
    with pytest.raises(ValueError, match=f"the body of message {message_id} is no JSON: ") as caught:
        queue.get(timeout=0).json()
    assert len(str(caught.value)) < 500


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.one_of(st.lists(VALUES, max_size=3), st.dictionaries(st.text(), VALUES, max_size=3)))
def test_every_value_comes_back(value: Any) -> None:
    message = new_message(value, 5, None, None)
    assert json.loads(message.body) == value


class TestServing:
    @pytest.fixture
    def service_url(self, real_service_url: str) -> str:
        return real_service_url

    def test_a_handler_returns_values(self, client: Any, connected: Connect, queue: Any) -> None:
        server = connected("server")
        answers: list[Any] = [{"total": 7}, "text", b"bytes", 0, [], False]
        given = iter(answers)
        serving = threading.Thread(
            target=lambda: server.queue("orders").serve_requests(lambda request: next(given))
        )
        serving.start()
        for answer in answers:
            response = client.queue("orders").request({"question": 1}, timeout=60)
            if isinstance(answer, str):
                assert (response.text, response.content_type) == (answer, TEXT)
            elif isinstance(answer, bytes):
                assert (response.body, response.content_type) == (answer, None)
            else:
                assert (response.json(), response.content_type) == (answer, JSON)
        server.close()
        serving.join()

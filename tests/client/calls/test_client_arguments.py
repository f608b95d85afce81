"""Every argument of every method is checked before anything is sent, in both clients, whatever it is.

The clients are not connected and have no loop: a call whose arguments were let through would say so.
"""

import dataclasses
import inspect
import math
import tomllib
from collections.abc import AsyncIterator, Awaitable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import telesto.client
from telesto.client import (
    AsyncQueue,
    AsyncTelestoClient,
    AsyncTopic,
    ClientMode,
    ClientOptions,
    HistoryMode,
    InvalidParameterError,
    Message,
    NewMessage,
    NewTopicMessage,
    Queue,
    QueueSettings,
    ReadMode,
    TelestoClient,
    Topic,
    TopicMessage,
)
from telesto.client.io.shared import put_batches, reply_call, topic_batches
from telesto.protocol.names import INVISIBLE

URL = "telesto://127.0.0.1:1"
REFUSED = (TypeError, ValueError, InvalidParameterError)
ID_MAX = 2**63 - 1
HOUR_MS = 3_600_000


class Number(IntEnum):
    """A number that is one in Python's eyes."""

    SEVEN = 7


MESSAGE = Message(1, 1, 1, None, 1, 5, 0, 1, False, b"")
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.builds(object),
    st.just(MESSAGE),
    st.just(NewMessage),
    st.just(10**400),
    st.just(-(10**400)),
)


def not_a(*types: type, none: bool = False) -> st.SearchStrategy[Any]:
    """Values of other types; None is one of them unless it has a meaning."""

    def fits(value: Any) -> bool:
        if value is None:
            return not none
        return type(value) is bool or not isinstance(value, types)

    return ANYTHING.filter(lambda value: fits(value) and (type(value) is not bool or bool not in types))


def whole(least: int, most: int, none: bool = False) -> st.SearchStrategy[Any]:
    """What is no number from least to most."""
    outside = st.one_of(
        st.integers(max_value=least - 1),
        st.integers(min_value=most + 1),
        st.just(10**400),
        st.just(-(10**400)),
    )
    return st.one_of(outside, not_a(int, none=none))


def seconds(positive: bool, most: float = math.inf) -> st.SearchStrategy[Any]:
    """What is no duration."""
    bad = [math.nan, -1, -0.001, -math.inf, -(10**400)]
    bad += [0, 0.0] if positive else []
    bad += [math.inf, 1e300, 10**400] if most < math.inf else []
    return st.one_of(st.sampled_from(bad), not_a(int, float, none=True))


invisible = st.sampled_from([chr(code) for pair in INVISIBLE for code in pair])
control = st.sampled_from(["\0", "\n", "\x7f", "\x9f", "\ud800", "\udcff", "\udfff"])


def words(longest: int, bad: st.SearchStrategy[str], none: bool = False) -> st.SearchStrategy[Any]:
    """What is no name or key."""
    return st.one_of(
        st.sampled_from(["", "x" * (longest + 1), "\U0001f600" * (longest + 1)]),
        st.tuples(st.text("ab", max_size=9), bad, st.text("ab", max_size=9)).map("".join),
        not_a(str, none=none),
    )


ID = (Number.SEVEN, whole(1, ID_MAX))
OPTIONAL_ID = (1, whole(1, ID_MAX, none=True))
FLAG = (True, not_a(bool))
NO_QUEUE = st.one_of(
    whole(1, ID_MAX, none=True).filter(lambda value: not isinstance(value, str)), st.sampled_from(["", "a\0"])
)
QUEUE = (Number.SEVEN, st.one_of(NO_QUEUE, st.none()))
CALLABLE = (print, not_a(type))
CONSUMER_COUNT = (5, whole(1, 2**32 - 1))
#: By the name of the parameter: a value that is allowed, and those that are not.
PARAMETERS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "queue": QUEUE,
    "queue_id": ID,
    "message_id": ID,
    "client_id": OPTIONAL_ID,
    "receiver_id": OPTIONAL_ID,
    "sender_id": OPTIONAL_ID,
    "after_message_id": (0, whole(0, ID_MAX)),
    "queues": (
        [1, 2],
        st.one_of(
            st.sampled_from([[], [1, 1], [0], [True], [2**63], [""], [None], "12", b"", 5, None]),
        ),
    ),
    "message_ids": ([1], st.sampled_from([[], [0], [True], [2**63], ["1"], [None], "12", 5, b""])),
    "name": ("a name", words(255, invisible, none=True)),
    "topic": ("a topic", words(1024, invisible, none=True)),
    "like": ("a*", st.one_of(not_a(str, none=True), st.sampled_from(["x" * 1_025, "a\0b", "\ud800"]))),
    "limit": (5, whole(1, 2**32 - 1, none=True)),
    "dedup_key": ("a\u202ekey", words(255, control, none=True)),
    "partition_key": ("a key", words(255, control, none=True)),
    "body": (
        {"order": 7},
        st.one_of(
            not_a(bytes, str, dict, list, int, float, bool),
            st.sampled_from(
                ["\ud800", {"a": "\udfff"}, math.nan, [math.inf], 10**5000, {"a": object()}, [b""]]
            ),
        ),
    ),
    "headers": (
        {"tenant": "north"},
        st.one_of(
            not_a(dict, none=True),
            st.sampled_from([{1: "x"}, {"n": b"x"}, {"n": None}, {"": "x"}, {"n": "a\0b"}, {"n\n": "x"}]),
            st.sampled_from([{"n": "\ud800"}, {"\ud800": "v"}, {"n" * 129: "x"}, {"n": "é" * 513}]),
            st.just({f"n{number}": "" for number in range(65)}),
            st.just({f"n{number}": "v" * 1024 for number in range(8)}),
        ),
    ),
    "priority": (5, whole(1, 10)),
    "correlation_id": (-ID_MAX - 1, whole(-ID_MAX - 1, ID_MAX, none=True)),
    "sequence": (1, whole(1, ID_MAX, none=True)),
    "delay": (0, seconds(False, 1e9)),
    "at": (datetime.now(UTC), st.one_of(not_a(datetime, none=True), st.datetimes())),
    "expires": (0.5, seconds(False, 1e9)),
    "max_age": (0.5, seconds(True, 1e9)),
    "max_behind": (1, whole(1, 2**32 - 1, none=True)),
    "drop": (False, not_a(bool)),
    "settings": (QueueSettings(), not_a(QueueSettings, none=True)),
    "update": (False, not_a(bool)),
    "timeout": (math.inf, seconds(False)),
    "mode": (None, not_a(ReadMode, ClientMode, none=True)),
    "existing": (
        "use",
        st.one_of(st.text().filter(lambda text: text not in ("use", "error")), not_a(str, none=True)),
    ),
    "max_messages": (5, whole(1, 2**32 - 1)),
    "max_bytes": (5, whole(1, 2**32 - 1, none=True)),
    "credit": CONSUMER_COUNT,
    "credit_bytes": (0, whole(0, 2**32 - 1)),
    "concurrency": CONSUMER_COUNT,
    "keep_alive": FLAG,
    "ack_in_database": FLAG,
    "handler": CALLABLE,
    "on_error": CALLABLE,
    "request": (MESSAGE, not_a(Message)),
    "drain": (math.inf, seconds(False)),
    "stop_signals": ([], st.sampled_from([5, None, ["x"], [None], [0], [-1], [10**400], [9], [True]])),
}


def setting_kind(setting: dict[str, Any]) -> tuple[Any, st.SearchStrategy[Any]]:
    """What the specification lets a setting of a queue be, and what not."""
    if setting["type"] == "bool":
        return FLAG
    if setting.get("unit") == "ms":
        least, most = setting["least"] / 1000, setting["most"] / 1000
        bad = [math.nan, -1, least - 0.001, most + 0.001, math.inf, 1e300, 10**400, 0.0004]
        return most, st.one_of(st.sampled_from(bad), not_a(int, float, none="without" in setting))
    if setting.get("unit") == "queue":
        return Number.SEVEN, NO_QUEUE
    if setting["type"] == "HistoryMode":
        return HistoryMode.FULL, not_a(HistoryMode)
    return setting["least"], whole(setting["least"], setting.get("most", ID_MAX), none="without" in setting)


SPECIFICATION = Path(__file__).parents[3] / "protocol" / "spec" / "telesto.toml"
SETTINGS = {
    setting["name"].removesuffix("_ms"): setting_kind(setting)
    for struct in tomllib.loads(SPECIFICATION.read_text(encoding="utf-8"))["struct"]
    if struct["name"] == "QueueSettings"
    for setting in struct["tagged"]
}
#: Lists that an application may make without an end are checked one by one.
MESSAGES = st.sampled_from(
    ["text", [None], [MESSAGE.body, math.nan], [object()], 5, None, b"bytes", {"order": 7}, [MESSAGE]]
)
LISTS = {
    "Queue.put_many": (
        [b"", NewMessage(b"")],
        st.one_of(
            MESSAGES,
            st.sampled_from([[NewTopicMessage(b"")], [b"good", NewMessage(b"", priority=11)]]),
            st.sampled_from([[NewMessage(b"", dedup_key="\ud800")], [NewMessage(None)]]),  # type: ignore[arg-type]
        ),
    ),
    "Topic.put_many": (
        [b"", NewTopicMessage(b"")],
        st.one_of(MESSAGES, st.sampled_from([[NewMessage(b"")], [b"good", NewTopicMessage(b"", 0)]])),
    ),
    "confirm": ([MESSAGE], st.sampled_from([[1], [None], [b""], "text", 5, MESSAGE, [NewMessage(b"")]])),
    "release": ([MESSAGE], st.sampled_from([[1], [None], [b""], "text", 5, MESSAGE, [NewMessage(b"")]])),
}
#: Parameters that only the shape of the method tells.
WITHOUT_ARGUMENTS = {
    "delete_client", "get_active_queues", "get_queues", "ping", "recovered_puts",
    "middlewares", "subscriptions", "topics",
}  # fmt: skip
OWNERS: dict[str, Any] = {"": TelestoClient, "Queue.": Queue, "Topic.": Topic}


def cases() -> list[tuple[str, str]]:
    found = []
    for prefix, owner in OWNERS.items():
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_") and name not in WITHOUT_ARGUMENTS:
                for parameter in list(inspect.signature(method).parameters)[1:]:
                    parameters = SETTINGS if parameter == "changes" else [parameter]
                    found += [(prefix + name, each) for each in parameters]
    return found


def signature_of(method: str) -> inspect.Signature:
    prefix, dot, name = method.rpartition(".")
    return inspect.signature(getattr(OWNERS[prefix + dot], name))


def method_of(client: Any, method: str) -> Any:
    """A method of a client, or of its queue 7 or a topic of it."""
    prefix, _, name = method.rpartition(".")
    owners = {"": client, "Queue": client.queue(7), "Topic": client.topic("a topic")}
    return getattr(owners[prefix], name)


def takes_setting(method: str, parameter: str) -> bool:
    """Tells whether a parameter is one of the settings that are given by their names."""
    return method in ("create_queue", "declare_queue", "Queue.update") and parameter in SETTINGS


def kind_of(method: str, parameter: str) -> tuple[Any, st.SearchStrategy[Any]]:
    """A value that is allowed and those that are not. A new parameter needs an entry here."""
    if parameter == "messages":
        return LISTS[method]
    if takes_setting(method, parameter):
        return SETTINGS[parameter]
    return PARAMETERS["topic" if (method, parameter) == ("topic", "name") else parameter]


def hostile_values(method: str, parameter: str) -> st.SearchStrategy[Any]:
    hostile = kind_of(method, parameter)[1]
    if takes_setting(method, parameter):
        return hostile
    known = signature_of(method).parameters[parameter]
    if known.default is inspect.Parameter.empty and parameter in ("name", "topic", "message_ids"):
        hostile = st.one_of(hostile, st.none())
    if known.default is None:
        hostile = hostile.filter(lambda value: value is not None)
    return hostile


def arguments(method: str, parameter: str, value: Any) -> dict[str, Any]:
    """All that the method needs, with one value that is given."""
    signature = signature_of(method)
    needed = [
        name
        for name, known in signature.parameters.items()
        if known.default is inspect.Parameter.empty and known.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    given_values = {name: kind_of(method, name)[0] for name in needed if name != "self"}
    if method == "Queue.update":
        given_values["max_attempts"] = 5
    return given_values | {parameter: value}


def first_step(result: Any) -> None:
    """Begins what a method has returned: an iterator, a coroutine."""
    if isinstance(result, AsyncIterator):
        result = result.__anext__()
    if isinstance(result, Awaitable):
        step = result.__await__()
        try:
            next(step)
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
    elif isinstance(result, Iterator):
        next(result)


@pytest.fixture(scope="module", params=[TelestoClient, AsyncTelestoClient])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param(URL)
    yield made
    if isinstance(made, TelestoClient):
        made.close()


@pytest.mark.parametrize(("method", "parameter"), cases())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_a_bad_argument_is_refused_at_once(
    client: Any, method: str, parameter: str, data: st.DataObject
) -> None:
    value = data.draw(hostile_values(method, parameter))
    with pytest.raises(REFUSED):
        first_step(method_of(client, method)(**arguments(method, parameter, value)))


def test_both_clients_have_the_same_parameters() -> None:
    twins = {"": AsyncTelestoClient, "Queue": AsyncQueue, "Topic": AsyncTopic}
    for method, parameter in cases():
        prefix, _, name = method.rpartition(".")
        known = "changes" if takes_setting(method, parameter) else parameter
        assert known in inspect.signature(getattr(twins[prefix], name)).parameters


@pytest.mark.parametrize("parameter", ["queue", "dedup_key", "correlation_id", "delay", "timeout"])
def test_what_is_allowed_is_let_through(parameter: str) -> None:
    from telesto.client import NotConnectedError

    value = PARAMETERS[parameter][0]
    method = "retrieve_message" if parameter == "timeout" else "put_message"
    options = ClientOptions(connect_tries=1)
    with TelestoClient(URL, options=options) as client, pytest.raises(NotConnectedError):
        getattr(client, method)(**arguments(method, parameter, value))


@pytest.mark.parametrize("kind", [TelestoClient, AsyncTelestoClient])
@pytest.mark.parametrize("parameter", ["name", "client_id", "mode", "existing"])
@settings(max_examples=25, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_a_client_that_cannot_be_is_refused_at_once(kind: Any, parameter: str, data: st.DataObject) -> None:
    value = data.draw(PARAMETERS[parameter][1].filter(lambda value: value is not None))
    with pytest.raises(REFUSED):
        kind(URL, **{parameter: value})


@pytest.mark.parametrize(
    ("given_values", "said"),
    [
        ({"name": "worker-\udcff"}, r"as U\+DCFF: 'worker-\\udcff'"),
        ({"name": "{hostname}-1"}, r"'{hostname}'; the placeholders are {host}, {pid} and {random}"),
        ({"name": "a" * 250 + "{random}"}, "name must have 1 to 255 characters, not 258"),
        ({"name": "a", "client_id": 7}, "a name or a client_id, not both"),
    ],
)
def test_what_is_wrong_with_a_client_is_said(given_values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said):
        TelestoClient(URL, **given_values)


# ---------------------------------------------------------------------------------- texts
@pytest.mark.parametrize(
    ("method", "given_values", "said"),
    [
        (
            "put_message",
            {"delay": math.inf},
            "delay must be above 0 and at most 315,360,000 seconds, not inf",
        ),
        ("put_message", {"expires": math.nan}, "expires must be above 0 and at most"),
        (
            "put_message",
            {"correlation_id": 2**63},
            "correlation_id must be -9223372036854775808 to 9223372036854775807",
        ),
        (
            "create_queue",
            {"name": "a\u202eb"},
            r"name must have no invisible characters, as U\+202E: 'a\\u202eb'",
        ),
        ("put_message", {"priority": 10**400}, "priority must be 1 to 10, not a number of 1329 bits"),
        ("create_queue", {"lease": 0.0001}, r"lease must be 0\.1 to 86,400 seconds, .* not 0\.0001"),
        ("Queue.update", {"backoff": 0.0004}, "backoff must be 0 to 86,400 seconds, in milliseconds at the"),
        ("declare_queue", {"expires": 4e8}, r"expires must be 0\.001 to 315,360,000 seconds, .* not 4e\+08"),
    ],
)
def test_a_refusal_says_what_is_wrong(method: str, given_values: dict[str, Any], said: str) -> None:
    ((parameter, value),) = given_values.items()
    with TelestoClient(URL) as client, pytest.raises(InvalidParameterError, match=said):
        method_of(client, method)(**arguments(method, parameter, value))


@pytest.mark.parametrize(
    ("method", "given_values", "said"),
    [
        ("create_queue", {"settings": 10}, "settings must be QueueSettings, not int; .*max_messages=1000"),
        ("create_queue", {"lease_ms": 10}, r"has no setting 'lease_ms'; did you mean lease \(in seconds\)"),
        ("Queue.update", {"max_message": 10}, "has no setting 'max_message'; did you mean max_messages?"),
        (
            "declare_queue",
            {"colour": "red"},
            "has no setting 'colour'; there are max_messages, dedup",
        ),
        ("declare_queue", {"lease": None}, "lease must be seconds or a timedelta, not NoneType"),
        (
            "put_message",
            {"queue": 1.5},
            "queue must be a queue, its name or its id, not float",
        ),
        ("put_messages", {"queues": [None]}, "queues must be a queue, its name or its id, not NoneType"),
        ("put_messages", {"queues": "orders"}, "queues must be a list of queues, not str"),
        ("put_messages", {"queues": 7}, "queues must be a list of queues, not int"),
        ("Queue.put_many", {"messages": b"abc"}, r"such as \[b'one', b'two'\], not bytes"),
        ("Queue.put_many", {"messages": "abc"}, "messages must be a list of messages.*not str"),
        ("Queue.put_many", {"messages": NewMessage(b"abc")}, "must be a list of messages.*not NewMessage"),
        ("Topic.put_many", {"messages": b"abc"}, "messages must be a list of messages.*not bytes"),
        ("Queue.redrive", {"message_ids": 7}, "message_ids must be a list of ids, not int"),
        ("Queue.run_consumer", {"stop_signals": 15}, r"signals, such as \(signal.SIGTERM,\), not 15"),
    ],
)
def test_a_refusal_of_a_wrong_type_says_what_is_meant(
    client: Any, method: str, given_values: dict[str, Any], said: str
) -> None:
    ((parameter, value),) = given_values.items()
    with pytest.raises(TypeError, match=said):
        first_step(method_of(client, method)(**arguments(method, parameter, value)))


# ---------------------------------------------------------------------------------- beside the methods
def test_lengths_of_time_are_seconds_and_moments_are_datetimes() -> None:
    public = [getattr(telesto.client, name) for name in telesto.client.__all__]
    models = [kind for kind in public if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    assert {Message, TopicMessage, NewMessage, QueueSettings, ClientOptions} <= set(models)
    names = {f"{kind.__name__}.{name}" for kind in models for name in dir(kind) if not name.startswith("_")}
    assert [name for name in sorted(names) if name.endswith(("_us", "_ms"))] == []
    assert MESSAGE.time_of_arrival == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", [TelestoClient, AsyncTelestoClient])
@pytest.mark.parametrize(
    "given_values",
    [
        {"url": 5},
        {"url": b"telesto://h"},
        {"state_dir": 5},
        {"state_dir": ""},
        {"state_dir": "a\0b"},
        {"state_dir": b"bytes"},
        {"delivery": "twice"},
        {"delivery": []},
        {"options": {}},
    ],
)
def test_what_a_client_is_made_of_is_checked(kind: Any, given_values: dict[str, Any]) -> None:
    with pytest.raises(REFUSED):
        kind(**({"url": URL} | given_values))


@pytest.mark.parametrize("field", ClientOptions.__dataclass_fields__)
@pytest.mark.parametrize("value", [None, "1", b"1", 0, -1, math.nan, 1j, [], True])
def test_bad_options_are_refused(field: str, value: Any) -> None:
    of_bool = ClientOptions.__dataclass_fields__[field].type == "bool"
    if (of_bool and value is True) or (field, value) == ("connect_tries", None):
        return
    with pytest.raises(REFUSED):
        ClientOptions(**{field: value})


def test_a_list_is_checked_as_a_whole_and_what_may_have_no_end_one_by_one() -> None:
    options = ClientOptions(put_batch_messages=1)
    bad: list[Any] = [b"good", b"good", None]
    for batches in (
        lambda given: put_batches(1, given, options, "orders"),
        lambda given: topic_batches("t", given, options),
    ):
        with pytest.raises(TypeError):
            batches(bad)
        one_by_one = iter(batches(iter(bad)))
        next(one_by_one)
        with pytest.raises(TypeError):
            next(one_by_one)


def test_a_response_needs_a_request() -> None:
    topic_message = TopicMessage("t", 1, 1, 0, b"")
    for request in (topic_message, None, 5):
        with pytest.raises(TypeError):
            reply_call(request, b"")  # type: ignore[arg-type]

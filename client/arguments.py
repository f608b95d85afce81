"""Checks of arguments that need no server; each raises TypeError or InvalidParameterError."""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import logging
import math
import signal
import sys
import threading
import time
import typing
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from telesto.client.models import CONTENT_TYPE, Body, Duration, NewMessage, QueueHandle, content_type_of
from telesto.protocol import packets
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.headers import headers_problem
from telesto.protocol.names import (
    NAME_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
    control_character,
    invisible_character,
)
from telesto.protocol.queue_settings import QUEUE_SETTINGS

WAIT_FOREVER_MS = 0xFFFFFFFF
_WAIT_MS_MAX = WAIT_FOREVER_MS - 1
_ID_MAX = 2**63 - 1
#: The longest time that a message may be delayed or wait, in seconds.
LIFE_MAX = 10 * 365 * 24 * 3600
_LIFE_MAX_MS = LIFE_MAX * 1_000
_U32_MAX = 2**32 - 1
#: The longest reason for which the service lets a message be rejected, in characters.
_REASON_MAX = 1_000
_SETTINGS = {setting.client_name: setting for setting in QUEUE_SETTINGS.values()}
_UNHANDLED_SIGNALS = [getattr(signal, name, None) for name in ("SIGKILL", "SIGSTOP")]

#: The longest filter of a list, in characters.
LIKE_CHARACTERS_MAX = 1_024


def _shown(number: object) -> str:
    """A number for a message: Python refuses to write one of thousands of digits."""
    text = f"{number:.6g}" if isinstance(number, float) else ""
    if isinstance(number, int):
        text = str(int(number)) if abs(number) < 10**40 else f"a number of {number.bit_length()} bits"
    return text or str(number)


def encoded_body(body: object) -> tuple[bytes, str | None]:
    """Returns the body as bytes, and its content type unless it is bytes."""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), None
    if not isinstance(body, (str, dict, list, int, float)):
        raise TypeError(
            f"body must be bytes, or a str, dict, list or number, which are put as text and JSON, "
            f"not {type(body).__name__}"
        )
    try:
        if isinstance(body, str):
            return body.encode(), "text/plain; charset=utf-8"
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode(), "application/json"
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise InvalidParameterError(
            f"body has a character that UTF-8 does not have: {character!a}"
        ) from error
    except (TypeError, RecursionError) as error:
        raise TypeError(f"body cannot be put as JSON: {error}") from error
    except ValueError as error:
        raise InvalidParameterError(f"body cannot be put as JSON: {error}") from error


def check_id(name: str, value: object) -> int:
    """Returns the id of a queue, client or message."""
    if type(value) is int and 0 < value <= _ID_MAX:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        attribute = name.removesuffix("s")
        hint = f"; pass its {attribute}" if hasattr(value, attribute) else ""
        raise TypeError(f"{name} must be an int, not {type(value).__name__}{hint}")
    if not 0 < value <= _ID_MAX:
        raise InvalidParameterError(f"{name} must be an id above 0, not {_shown(value)}")
    return int(value)


def check_queue(name: str, value: object) -> int:
    """Returns the id of a queue that may be given by other means as well."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a queue, its name or its id, not {type(value).__name__}")
    return check_id(name, value)


def check_queues(queues: object) -> list[Any]:
    """Returns the queues of one put: at least one."""
    if isinstance(queues, (int, str)) or not isinstance(queues, Iterable):
        raise TypeError(f"queues must be a list of queues, not {type(queues).__name__}")
    given = list(queues)
    if not given:
        raise InvalidParameterError("queues must name at least one queue")
    return given


def check_each_once(queue_ids: list[int]) -> list[int]:
    """Returns the ids of the queues of one put, each of which takes the message once."""
    if len(set(queue_ids)) != len(queue_ids):
        raise InvalidParameterError(f"queues must name each queue once, not these ids: {queue_ids}")
    return queue_ids


def check_optional_id(name: str, value: object) -> int:
    """Returns the id, 0 (the wire's word for anyone) for None."""
    return 0 if value is None else check_id(name, value)


def check_name(name: str, value: object) -> str:
    """Returns the name of a queue or client."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not 1 <= len(value) <= NAME_CHARACTERS_MAX:
        raise InvalidParameterError(
            f"{name} must have 1 to {NAME_CHARACTERS_MAX} characters, not {len(value)}: {value[:40]!a}"
        )
    if found := invisible_character(value):
        raise InvalidParameterError(f"{name} must have no invisible characters, as {found}: {value!a}")
    return value


def check_key(name: str, value: object) -> str:
    """Returns a key of a message."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if not 1 <= len(value) <= NAME_CHARACTERS_MAX:
        raise InvalidParameterError(
            f"{name} must have 1 to {NAME_CHARACTERS_MAX} characters, not {len(value)}: {value[:40]!a}"
        )
    if found := control_character(value):
        raise InvalidParameterError(f"{name} must have no control characters, as {found}: {value!a}")
    return value


def time_left(until: float) -> float | None:
    """Returns how long it is until a time of the monotonic clock, in seconds; None for ever."""
    return None if until == math.inf else max(0.0, until - time.monotonic())


def check_topic(topic: object) -> str:
    """Returns the name of a topic."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {type(topic).__name__}")
    if not 1 <= len(topic) <= TOPIC_CHARACTERS_MAX:
        raise InvalidParameterError(
            f"topic must have 1 to {TOPIC_CHARACTERS_MAX} characters, not {len(topic)}: {topic[:40]!a}"
        )
    if found := invisible_character(topic):
        raise InvalidParameterError(f"topic must have no invisible characters, as {found}: {topic[:40]!a}")
    return topic


def in_seconds(duration: object) -> Any:
    """Returns a timedelta in seconds, and anything else as it is."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def check_duration_ms(name: str, duration: object, most: int = _ID_MAX // 1000) -> int:
    """Returns a duration above 0 as the wire has it: milliseconds, rounded up."""
    seconds = in_seconds(duration)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(seconds).__name__}")
    if not 0 < seconds <= most:
        raise InvalidParameterError(
            f"{name} must be above 0 and at most {most:,} seconds, not {_shown(seconds)}"
        )
    return math.ceil(seconds * 1000)


def check_drop(drop: object, *limits: object) -> bool:
    """Returns whether a subscription is dropped beyond its limit, which it must have for that."""
    if check_flag("drop", drop) and all(limit is None for limit in limits):
        raise InvalidParameterError("drop needs a limit: give max_behind or max_age")
    return bool(drop)


def check_count(name: str, value: object, least: int = 1, most: int = _U32_MAX) -> int:
    """Returns a number of something."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidParameterError(f"{name} must be {least} to {most}, not {_shown(value)}")
    return value


def check_reason(reason: object) -> str:
    """Returns the reason for which a message failed or is rejected as it is sent: cut, and never empty."""
    if not isinstance(reason, str):
        raise TypeError(f"reason must be a str, not {type(reason).__name__}")
    shown = reason.encode(errors="replace").decode().replace("\0", "\\0") or "no reason"
    return shown if len(shown) <= _REASON_MAX else shown[: _REASON_MAX - 1] + "…"


def reason_of(error: BaseException) -> str:
    """Returns the reason of a message whose handler raised."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it is the application's
        text = "its text cannot be shown"
    return check_reason(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def check_limit(limit: object) -> int:
    """Returns how many a list may have; a number beyond any without a limit."""
    return sys.maxsize if limit is None else check_count("limit", limit)


def check_flag(name: str, value: object) -> bool:
    """Returns a setting that is on or off."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {type(value).__name__}")
    return value


def check_time_ms(name: str, duration: object) -> int:
    """Returns a duration of 0 to ten years as the wire has it."""
    seconds = in_seconds(duration)
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds == 0:
        return 0
    return check_duration_ms(name, seconds, _LIFE_MAX_MS // 1000)


def check_callable(name: str, value: object) -> None:
    """Checks a function of the application."""
    if not callable(value):
        raise TypeError(f"{name} must be callable, not {type(value).__name__}")


def check_plain(name: str, value: object) -> None:
    """Checks a function of the application that is called and not awaited: one that only returns what would
    have to be run still has done nothing."""
    check_callable(name, value)
    if deferred := _deferred(value):
        raise InvalidParameterError(
            f"{name} must be a plain function, not {deferred}, which does nothing when it is called"
            + ("; AsyncTelestoClient awaits a handler" if name == "handler" else "")
        )


def check_like(like: object) -> str | None:
    """Checks the filter of a list. Raises TypeError, InvalidParameterError."""
    if like is None:
        return None
    if not isinstance(like, str):
        raise TypeError(f"like must be a str, not {type(like).__name__}")
    try:
        like.encode()
    except UnicodeEncodeError as error:
        raise InvalidParameterError(f"like is not Unicode text: {error.reason}") from error
    if len(like) > LIKE_CHARACTERS_MAX or "\0" in like:
        raise InvalidParameterError(
            f"like must have at most {LIKE_CHARACTERS_MAX} characters, none of them NUL"
        )
    return like


def check_awaited(name: str, value: object) -> None:
    """Checks a function of the application whose result is awaited.

    A plain function may return something to await. It is refused when it says by its annotation that it does
    not, and a warning is logged when it says nothing.
    """
    check_callable(name, value)
    deferred = _deferred(value)
    if deferred == _ASYNC_GENERATOR:
        raise InvalidParameterError(f"{name} must be an async function that does not yield")
    if deferred == "an async one":
        return
    function = _without_partial(value)
    returned = _returned(function)
    if deferred or (isinstance(returned, type) and issubclass(returned, _NEVER_AWAITED)):
        raise InvalidParameterError(
            f"{name} must be an async function, not {deferred or 'a plain one'}; "
            "have it await asyncio.to_thread(...) for what is plain, or use TelestoClient"
        )
    if returned is None and inspect.isroutine(function) and function.__name__ != "<lambda>":
        logging.getLogger("telesto.client").warning(
            "%s %s is a plain function: it must return something to await, or nothing is handled",
            name,
            function.__qualname__,
        )


def check_has_run(name: str, result: object) -> None:
    """Checks what a function returned that is called and not awaited, however it is wrapped."""
    if is_to_be_run(result):
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidParameterError(
            f"{name} must do its work when it is called, but it returned a {type(result).__name__}, "
            "which would have to be run still: is it an async function, or does it yield?"
        )


def is_to_be_run(result: object) -> bool:
    """Tells whether a result only stands for work that is to be done."""
    return inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)


_ASYNC_GENERATOR = "an async function that yields"
#: Of these types nothing can be awaited.
_NEVER_AWAITED = (type(None), str, bytes, bytearray, int, float, list, tuple, dict, set)


def _deferred(function: Any) -> str:
    """Says what a function is that does nothing when it is called; nothing for any other."""
    function = _without_partial(function)
    for called in (function, type(function).__call__):
        if inspect.iscoroutinefunction(called):
            return "an async one"
        if inspect.isasyncgenfunction(called):
            return _ASYNC_GENERATOR
        if inspect.isgeneratorfunction(called):
            return "one that yields"
    return ""


def _without_partial(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _returned(function: Any) -> Any:
    """Returns the type that a function says it returns, without its parameters; None when it says nothing.

    Any for a decorated one: the annotation may be that of the function inside.
    """
    if hasattr(function, "__wrapped__"):
        return Any
    called = function if inspect.isroutine(function) else type(function).__call__
    try:
        said = typing.get_type_hints(called).get("return")
    except Exception:  # noqa: BLE001 - such as a name that only type checkers know
        return Any
    return typing.get_origin(said) or said


def check_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Returns settings of a queue, given by their names, as the client has them."""
    return {name: _check_setting(name, value) for name, value in given.items()}


def _check_setting(name: str, value: object) -> Any:
    setting = _SETTINGS.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, _SETTINGS, n=1)
        unit = " (in seconds)" if near and _SETTINGS[near[0]].unit == "ms" else ""
        hint = f"did you mean {near[0]}{unit}?" if near else f"there are {', '.join(_SETTINGS)}"
        raise TypeError(f"a queue has no setting {name!r}; {hint}")
    if value is None and setting.without:
        return None
    if setting.unit == "queue":
        if isinstance(value, QueueHandle):
            return value.name or value.queue_id
        return check_name(name, value) if isinstance(value, str) else check_queue(name, value)
    if setting.unit == "ms":
        return _check_seconds(name, value, setting.least, setting.most)
    if setting.type is bool:
        return check_flag(name, value)
    if setting.type is int:
        return check_count(name, value, setting.least, setting.most)
    if not isinstance(value, setting.type):
        enum: Any = setting.type
        names = ", ".join(f"{enum.__name__}.{member}" for member in enum.__members__)
        raise TypeError(f"{name} must be one of {names}, not {value!r:.60}")
    return value


def _check_seconds(name: str, duration: object, least_ms: int, most_ms: int) -> float:
    """Returns a duration in seconds, rounded to milliseconds."""
    seconds = in_seconds(duration)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(seconds).__name__}")
    if 0 < seconds < 0.001 or not least_ms / 1000 <= seconds <= most_ms / 1000:
        least, most = (f"{bound / 1000:,.3f}".rstrip("0").rstrip(".") for bound in (least_ms, most_ms))
        rule = f"{least} to {most} seconds, in milliseconds at the finest"
        raise InvalidParameterError(f"{name} must be {rule}, not {_shown(seconds)}")
    return round(seconds * 1000) / 1000


def wire_settings(settings: Mapping[str, Any], without: int | None) -> packets.QueueSettings:
    """Returns checked settings as the wire has them, ``without`` for those that a queue is to be without."""
    sent = {}
    for name, value in settings.items():
        setting = _SETTINGS[name]
        if value is None:
            value = without
        elif setting.unit == "ms":
            value = round(value * 1000)
        sent[setting.name] = value
    return packets.QueueSettings(**sent)


def check_timeout(timeout: object, name: str = "timeout") -> float:
    """Returns how long a read, or the argument of this name, waits in seconds, infinity for None."""
    if timeout is None:
        return math.inf
    timeout = in_seconds(timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"{name} must be seconds, a timedelta or None, not {type(timeout).__name__}")
    if not timeout >= 0:
        raise InvalidParameterError(f"{name} must be 0 or more seconds, not {_shown(timeout)}")
    try:
        return float(timeout)
    except OverflowError:
        return math.inf


def check_signals(name: str, numbers: Iterable[int]) -> list[signal.Signals]:
    """Returns signals that a handler can be set for, from this thread."""
    if isinstance(numbers, int) or not isinstance(numbers, Iterable):
        raise TypeError(f"{name} must be a list of signals, such as (signal.SIGTERM,), not {numbers!r:.40}")
    found = []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name} must be signals, not {type(number).__name__}")
        if number not in signal.valid_signals() or number in _UNHANDLED_SIGNALS:
            raise InvalidParameterError(f"{name} must be signals that can be handled, not {_shown(number)}")
        found.append(signal.Signals(number))
    if found and threading.current_thread() is not threading.main_thread():
        raise InvalidParameterError(
            f"{name} can be given in the main thread only, which alone hears of signals; elsewhere, have a "
            "handler of the main thread call the client's close()"
        )
    return found


def check_correlation_id(correlation_id: object) -> int:
    """Returns what connects a request and its response."""
    return check_count("correlation_id", correlation_id, -_ID_MAX - 1, _ID_MAX)


def check_after_id(name: str, value: object) -> int:
    """Returns the id behind which a list begins, 0 for its first row."""
    return check_count(name, value, least=0, most=_ID_MAX)


def wait_ms(seconds: float) -> int:
    """Returns a time to wait as the wire has it: milliseconds, rounded up, at most some 49 days."""
    if seconds == math.inf:
        return WAIT_FOREVER_MS
    return min(max(0, math.ceil(seconds * 1000)), _WAIT_MS_MAX)


def new_message(
    body: object,
    priority: int,
    receiver_id: int | None,
    correlation_id: int | None,
    dedup_key: str | None = None,
    delay: Duration | None = None,
    expires: Duration | None = None,
    partition_key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> packets.NewMessage:
    """Makes the message to put, after checking its parts."""
    content_type = None
    if type(body) is not bytes:
        body, content_type = encoded_body(body)
    if type(priority) is not int or not 1 <= priority <= 10:
        check_count("priority", priority, most=10)
    if receiver_id is not None:
        check_id("receiver_id", receiver_id)
    if correlation_id is not None:
        check_correlation_id(correlation_id)
    message = packets.NewMessage(priority, receiver_id or 0, body, correlation_id)
    # Most messages have none of these, and an argument that is None costs as much as another one.
    if dedup_key is not None:
        message.dedup_key = check_key("dedup_key", dedup_key)
    if partition_key is not None:
        message.partition_key = check_key("partition_key", partition_key)
        if receiver_id is not None:
            raise InvalidParameterError("a message has a receiver_id or a partition_key, not both")
    if delay is not None:
        message.delay_ms = check_time_ms("delay", delay)
    if expires is not None:
        message.expires_ms = check_time_ms("expires", expires)
    if headers is not None or content_type is not None:
        message.headers = check_headers(headers, content_type)
    return message


def check_headers(headers: object, content_type: str | None = None) -> list[packets.Header] | None:
    """Returns headers as the wire has them, None for none; with the content type unless they tell one."""
    if headers is None:
        headers = {}
    if not isinstance(headers, Mapping):
        raise TypeError(
            f"headers must be a dict of texts, such as {{'tenant': 'north'}}, not {type(headers).__name__}"
        )
    for part in (*headers.keys(), *headers.values()):
        if not isinstance(part, str):
            raise TypeError(f"headers must be texts, not {type(part).__name__}: {part!r:.40}")
    checked = [packets.Header(name, value) for name, value in headers.items()]
    if content_type is not None and content_type_of(headers) is None:
        checked.append(packets.Header(CONTENT_TYPE, content_type))
    try:
        problem = headers_problem(checked)
    except UnicodeEncodeError as error:
        problem = f"{error.object[error.start]!a} is no character of a text"
    if problem:
        raise InvalidParameterError(f"headers: {problem}")
    return checked or None


def check_several(name: str, values: object) -> None:
    """Checks what should hold several messages: one body can be iterated over, too."""
    if isinstance(values, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name} must be a list of messages, such as [b'one', b'two'], not {type(values).__name__}"
        )


def delay_until(at: object, delay: object = None) -> timedelta | None:
    """Returns how long it is until a moment, by this machine's clock; None for one that is over.

    Raises TypeError for what is no datetime, InvalidParameterError for one without a time zone or beside a
    delay.
    """
    if not isinstance(at, datetime):
        raise TypeError(f"at must be a datetime, not {type(at).__name__}")
    if at.tzinfo is None:
        raise InvalidParameterError(f"at must have a time zone, such as datetime.now(UTC) has, not {at}")
    if delay is not None:
        raise InvalidParameterError("a message has a delay or an at, not both")
    left = at - datetime.now(UTC)
    return left if left > timedelta(0) else None


def queued_message(queue_id: int, message: NewMessage | Body) -> packets.QueuedMessage:
    """Makes a message and its queue for a request of several."""
    if isinstance(message, NewMessage):
        wire = new_message(
            message.body,
            message.priority,
            message.receiver_id,
            message.correlation_id,
            message.dedup_key,
            message.delay if message.at is None else delay_until(message.at, message.delay),
            message.expires,
            message.partition_key,
            message.headers,
        )
    else:
        wire = new_message(message, 5, None, None)
    return packets.QueuedMessage(queue_id, wire)


def new_topic_message(
    body: object, sequence: int | None, headers: Mapping[str, str] | None
) -> packets.NewTopicMessage:
    """Makes the message to put to a topic, after checking its parts."""
    if sequence is not None:
        check_count("sequence", sequence, most=_ID_MAX)
    content, content_type = encoded_body(body)
    return packets.NewTopicMessage(content, sequence=sequence, headers=check_headers(headers, content_type))


def check_letter_ids(message_ids: Collection[int] | None) -> list[int]:
    """Returns which dead letters are meant, nothing (the wire's word for all) for None."""
    if message_ids is None:
        return []
    if isinstance(message_ids, (int, str)) or not isinstance(message_ids, Iterable):
        raise TypeError(f"message_ids must be a list of ids, not {type(message_ids).__name__}")
    checked = [check_id("message_ids", message_id) for message_id in message_ids]
    if not checked:
        raise InvalidParameterError("message_ids must name at least one message; None stands for all")
    return checked

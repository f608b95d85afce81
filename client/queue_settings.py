# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""The settings of a queue as the client has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TypedDict, Unpack

from telesto.client import arguments
from telesto.client.models import Duration, QueueHandle
from telesto.protocol.enums import HistoryMode


class QueueSettingChanges(TypedDict, total=False):
    """Settings of a queue that are given by their names. QueueSettings explains each."""

    max_messages: int | None
    dedup_window: Duration
    lease: Duration
    max_attempts: int
    backoff: Duration
    backoff_max: Duration
    expires: Duration | None
    bury_expired: bool
    dead_letter_queue: QueueHandle | str | int | None
    late_after: Duration | None
    late_limit: int
    late_window: Duration
    fail_limit: int
    history: HistoryMode
    history_days: int


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False)
class QueueSettings:
    """The settings of a queue as one value; what is not given is as usual.

    A duration is given in seconds or as a timedelta. It is kept in seconds, rounded to milliseconds. A dead
    letter queue that is given as a handle is kept by its name.

    Attributes:
        max_messages: a put that would exceed this number of messages is refused with QueueFullError. It
            may be set below what the queue holds: then puts are refused until there is space. 1 or more; by
            default None: no limit.
        dedup_window: how long a dedup_key stands for the message that was put first under it. Seconds, 1
            to 604,800; by default 300.
        lease: how long a consumer may take for a message before that goes to another one. Seconds, 0.1 to
            86,400; by default 30.
        max_attempts: a message whose attempts by consumers failed so often goes to the dead letters. 1 to
            1,000,000; by default 5.
        backoff: how long a message waits after its first failed attempt; twice as long after each further
            one. It is shortened at random by up to a half. Seconds, 0 to 86,400; by default 1.
        backoff_max: the longest wait after a failed attempt. Seconds, 0 to 86,400; by default 60.
        expires: how long a message may wait before it expires; what has expired is never handed over. A
            change holds for what is put from then on. Seconds, 0.001 to 315,360,000; by default None: never.
        bury_expired: what has expired goes to the dead letters; otherwise it is removed. By default
            False.
        dead_letter_queue: the queue to which dead letters go on, as messages. What does not fit there, or
            whose dead letter queue is gone, stays too. One that does not exist is refused with
            QueueNotExistingError, whose related_id names it. Queues that would send dead letters round in a
            ring are refused. A change holds for what is dead already, too. A queue, its name or its id; by
            default None: dead letters stay in their queue.
        late_after: an answer of a consumer is late when it takes longer than this. It is counted from
            when the message was pushed or touched, or from the consumer's answer before, whatever was last. A
            change holds for consumers that join from then on. Seconds, 0.001 to 86,400; by default None: a
            third of lease.
        late_limit: a consumer with this many late answers within late_window is slow, and its partitions
            go to others for that long; 0: never. A change holds for consumers that join from then on. 0 to
            1,000; by default 3.
        late_window: the window of late_limit, and for how long others have the partitions of a slow
            consumer. A change holds for consumers that join from then on. Seconds, 0.1 to 86,400; by default
            60.
        fail_limit: a consumer that fails so often in a row, by leases that run out or by different
            messages that it gives back as failed, is ended with ConsumerInactiveError; 0: never. A change
            holds for consumers that join from then on. 0 to 1,000; by default 0.
        history: what is kept of messages once they are over. A change holds for what is put from then on.
            By default METADATA.
        history_days: for how many days that is kept. A change holds for what is put from then on. Days, 1
            to 366; by default 7.
    """

    max_messages: int | None = None
    dedup_window: float = 300.0
    lease: float = 30.0
    max_attempts: int = 5
    backoff: float = 1.0
    backoff_max: float = 60.0
    expires: float | None = None
    bury_expired: bool = False
    dead_letter_queue: str | int | None = None
    late_after: float | None = None
    late_limit: int = 3
    late_window: float = 60.0
    fail_limit: int = 0
    history: HistoryMode = HistoryMode.METADATA
    history_days: int = 7

    def __init__(self, **settings: Unpack[QueueSettingChanges]) -> None:
        """Takes settings by their names.

        Raises TypeError and InvalidParameterError, which name the setting and what it may be.
        """
        given = arguments.check_settings(settings)
        for field in fields(self):
            object.__setattr__(self, field.name, given.get(field.name, field.default))

    def __repr__(self) -> str:
        values = ((field, getattr(self, field.name)) for field in fields(self))
        shown = (f"{field.name}={_shown(value)}" for field, value in values if value != field.default)
        return f"QueueSettings({', '.join(shown)})"


def _shown(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, IntEnum) else repr(value)


def given_settings(settings: QueueSettings | None, changes: Mapping[str, object]) -> dict[str, Any]:
    """Returns the settings that a value and changes to it give; without a value only the changes.

    Raises TypeError and InvalidParameterError, which name the setting and what it may be.
    """
    if settings is not None and not isinstance(settings, QueueSettings):
        raise TypeError(
            f"settings must be QueueSettings, not {type(settings).__name__}; "
            "single ones are given by their names, such as max_messages=1000"
        )
    given = (
        {} if settings is None else {field.name: getattr(settings, field.name) for field in fields(settings)}
    )
    return given | arguments.check_settings(changes)


def differences(there: QueueSettings, wanted: Mapping[str, Any]) -> str:
    """Says which settings of a queue are not as wanted."""
    return ", ".join(
        f"{name}={_shown(getattr(there, name))}, not {_shown(value)}" for name, value in wanted.items()
    )

# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""The settings of a queue as the client shows them."""

from __future__ import annotations

from dataclasses import dataclass

from telesto.protocol.enums import HistoryMode


@dataclass(slots=True)
class QueueSettings:
    """The settings of a queue that are in effect.

    Attributes:
        max_messages: a put that would exceed this number of messages is refused with QueueFullError. It
            may be set below what the queue holds: then puts are refused until there is space. None: no limit.
        dedup_window_ms: how long a dedup_key stands for the message that was put first under it.
        lease_ms: how long a consumer may take for a message before that goes to another one.
        max_attempts: a message whose attempts by consumers failed so often goes to the dead letters.
        backoff_ms: how long a message waits after its first failed attempt; twice as long after each
            further one. It is shortened at random by up to a half.
        backoff_max_ms: the longest wait after a failed attempt.
        expires_ms: how long a message may wait before it expires; what has expired is never handed over.
            A change holds for what is put from then on. None: never.
        bury_expired: what has expired goes to the dead letters; otherwise it is removed.
        dead_letter_queue: the queue to which dead letters go on, as messages. What does not fit there, or
            whose dead letter queue is gone, stays too. One that does not exist is refused with
            QueueNotExistingError, whose related_id names it. Queues that would send dead letters round in a
            ring are refused. A change holds for what is dead already, too. None: dead letters stay in their
            queue.
        late_after_ms: an answer of a consumer is late when it takes longer than this. It is counted from
            when the message was pushed or touched, or from the consumer's answer before, whatever was last. A
            change holds for consumers that join from then on. None: a third of lease_ms.
        late_limit: a consumer with this many late answers within late_window_ms is slow, and its
            partitions go to others for that long; 0: never. A change holds for consumers that join from then
            on.
        late_window_ms: the window of late_limit, and for how long others have the partitions of a slow
            consumer. A change holds for consumers that join from then on.
        fail_limit: a consumer that fails so often in a row, by leases that run out or by different
            messages that it gives back as failed, is ended with ConsumerInactiveError; 0: never. A change
            holds for consumers that join from then on.
        history: what is kept of messages once they are over. A change holds for what is put from then on.
        history_days: for how many days that is kept. A change holds for what is put from then on.
    """

    max_messages: int | None
    dedup_window_ms: int
    lease_ms: int
    max_attempts: int
    backoff_ms: int
    backoff_max_ms: int
    expires_ms: int | None
    bury_expired: bool
    dead_letter_queue: int | None
    late_after_ms: int | None
    late_limit: int
    late_window_ms: int
    fail_limit: int
    history: HistoryMode
    history_days: int

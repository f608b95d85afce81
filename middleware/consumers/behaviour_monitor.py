"""Detects which consumers of this middleware are slow, fail everything or are inactive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.failures import failure_of
from telesto.middleware.common.logs import logger
from telesto.middleware.consumers.consumer import Consumer, LeaseKey
from telesto.middleware.consumers.consumer_changes import ConsumerChanges
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.requests import Pipeline
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Ack, LeaseRef, Nack, Touch

_log = logger("consumers")


class BehaviourMonitor:
    """Gets every answer of the consumers of this middleware, and the messages that they have lost.

    An answer counts when it arrives, so that a slow database does not make a consumer slow.

    A consumer that fails everything would use up the attempts of all messages. So it gets nothing for a while
    after each failure, for longer each time, and then one message, until it succeeds.
    """

    def __init__(
        self,
        consumers: ConsumerRegistry,
        changes: ConsumerChanges,
        counters: Counters,
        deadlines: Deadlines,
        clock: Callable[[], float],
    ) -> None:
        self._consumers = consumers
        self._changes = changes
        self._counters = counters
        self._deadlines = deadlines
        self._clock = clock

    def heard(self, pipeline: Pipeline, packet: Ack | Nack | Touch) -> None:
        """A client answers messages, or touches them."""
        now = self._clock()
        for consumer, keys in self._by_consumer(packet.leases):
            if consumer.pipeline is not pipeline:
                continue
            if isinstance(packet, Touch):
                consumer.touched_at = now
                continue
            since = [held for held in map(consumer.since, keys) if held is not None]
            if since:
                self._answered(consumer, since, now)
            if since and isinstance(packet, Ack):
                self._succeeded(consumer)

    def touched(self, kept: Iterable[LeaseRef], gone: Iterable[LeaseRef]) -> None:
        """Leases were extended. Others are gone: the application has acknowledged them in the database.

        This is how a client learns of such messages. If their leases ran out instead, and this middleware
        knows it, that was counted already.
        """
        for consumer, keys in self._by_consumer(kept):
            consumer.touched(keys)
        for consumer, keys in self._by_consumer(gone):
            since = [held for held in map(consumer.since, keys) if held is not None]
            if since:
                self._answered(consumer, since, consumer.touched_at)
                self._succeeded(consumer)

    def failed(self, refs: Iterable[LeaseRef]) -> None:
        """Consumers have given these messages back as failed."""
        for consumer, keys in self._by_consumer(refs):
            if any(consumer.behaviour.gave_back(key.message_id) for key in keys):
                self._found_inactive(consumer)
            else:
                self._failed(consumer)

    def ran_out(self, refs: list[LeaseRef]) -> None:
        """These leases ran out, or leases before them in their partitions."""
        now = self._clock()
        inactive: list[Consumer] = []
        failed: list[Consumer] = []
        for consumer, keys in self._by_consumer(refs):
            since = [
                held for key in keys if consumer.has_begun(key) and (held := consumer.since(key)) is not None
            ]
            if since:
                (inactive if consumer.behaviour.ran_out(max(since), now) else failed).append(consumer)
        self._consumers.lost(refs)
        for consumer in failed:
            self._failed(consumer)
        for consumer in inactive:
            self._found_inactive(consumer)

    def _by_consumer(self, refs: Iterable[LeaseRef]) -> list[tuple[Consumer, list[LeaseKey]]]:
        found: dict[int, list[LeaseKey]] = {}
        for ref in refs:
            found.setdefault(ref.consumer_id, []).append(LeaseKey(ref.lease_id, ref.message_id))
        consumers = ((self._consumers.get(consumer_id), keys) for consumer_id, keys in found.items())
        return [(consumer, keys) for consumer, keys in consumers if consumer is not None]

    def _answered(self, consumer: Consumer, since: list[float], now: float) -> None:
        if consumer.behaviour.late(since, now):
            self._counters.late_answers_total += 1
            if consumer.behaviour.too_often_late(now):
                self._found_slow(consumer)

    def _succeeded(self, consumer: Consumer) -> None:
        consumer.behaviour.succeeded()
        if consumer.failing:
            consumer.recover()
            _log.info("consumer_recovered", **_named(consumer))
            self._consumers.may_receive_again(consumer)

    def _failed(self, consumer: Consumer) -> None:
        """The consumer pauses if it fails everything."""
        rest_s = consumer.behaviour.rest_s
        if not rest_s or consumer.ended:
            return
        if not consumer.failing:
            self._counters.failing_consumers_total += 1
            _log.warning("consumer_failing", failures=consumer.behaviour.failures, **_named(consumer))
            self._move_partitions(consumer)
        consumer.rest()
        waits = consumer.rests_until > 0
        consumer.rests_until = self._clock() + rest_s
        if not waits:
            self._wake_later(consumer, rest_s)

    def _wake_later(self, consumer: Consumer, rest_s: float) -> None:
        self._deadlines.add(self._deadlines.now + rest_s, partial(self._rested, consumer))

    def _rested(self, consumer: Consumer) -> None:
        left_s = consumer.rests_until - self._clock()
        if not consumer.failing or consumer.ended:
            consumer.rests_until = 0.0
        elif left_s > 0:  # it has failed once more meanwhile
            self._wake_later(consumer, left_s)
        else:
            consumer.rests_until = 0.0
            consumer.try_one()
            self._consumers.may_receive_again(consumer)

    def _found_slow(self, consumer: Consumer) -> None:
        self._counters.slow_consumers_total += 1
        _log.warning("consumer_slow", **_named(consumer))
        self._move_partitions(consumer)

    def _move_partitions(self, consumer: Consumer) -> None:
        """Gives its partitions to others, if there are any. It gets nothing until the database knows."""
        consumer.suspended = True
        self._changes.add(consumer, slow=True)

    def _found_inactive(self, consumer: Consumer) -> None:
        self._counters.inactive_consumers_total += 1
        failures = consumer.behaviour.failures
        _log.warning("consumer_inactive", failures=failures, **_named(consumer))
        details = f"it failed {failures} times in a row; it gets messages again when it joins again"
        # Messages that it has and that did not fail count no attempt.
        self._consumers.end(consumer, failure_of(ErrorCode.CONSUMER_INACTIVE, details), counted=False)


def _named(consumer: Consumer) -> dict[str, int]:
    return {
        "consumer_id": consumer.consumer_id,
        "queue_id": consumer.queue_id,
        "client_id": consumer.client.client_id,
    }

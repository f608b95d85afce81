"""The procedures of consumers as a middleware calls them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from procedure_calls import Calls, Client, Element, Put

CONSUMER_NOT_EXISTING = 50
LEASE_LOST = 27
UNLIMITED = 1 << 40
FIRST_MIDDLEWARE = "127.0.0.1:7001"


@dataclass(frozen=True)
class Consumer:
    """A consumer and what its middleware knows about it."""

    consumer_id: int
    queue: int
    client: Client
    epoch: int = 0


@dataclass(frozen=True)
class Lease:
    """A message that a consumer was given."""

    consumer: Consumer
    lease_id: int
    message: dict[str, Any]

    @property
    def message_id(self) -> int:
        return int(self.message["message_id"])

    @property
    def body(self) -> bytes:
        return bytes(self.message["body"])

    @property
    def ref(self) -> tuple[int, int, int]:
        return self.consumer.consumer_id, self.lease_id, self.message_id


@dataclass(frozen=True)
class Claimed:
    """What a claim gave: leases and, by consumer, errors."""

    leases: list[Lease]
    errors: dict[int, int]
    more: bool = False

    @property
    def bodies(self) -> list[bytes]:
        return [lease.body for lease in self.leases]

    def of(self, consumer: Consumer) -> list[Lease]:
        return [lease for lease in self.leases if lease.consumer is consumer]


class Consuming:
    """Consumers by one middleware over one connection."""

    def __init__(self, calls: Calls, address: str = FIRST_MIDDLEWARE) -> None:
        self.calls = calls
        self.middleware = calls.value("register_middleware", address, "1.0")

    def join(self, client: Client, queue: int, paused: bool = False) -> Consumer:
        row = self.calls.row("join_queue", client.client_id, client.session, self.middleware, queue, paused)
        assert row["error"] is None, row
        return Consumer(row["consumer_id"], queue, client)

    def leave(self, *consumers: Consumer, counted: bool = False, begun: Iterable[Lease] = ()) -> None:
        self.calls.row(
            "leave_queues",
            [consumer.queue for consumer in consumers],
            [consumer.consumer_id for consumer in consumers],
            [counted] * len(consumers),
            [lease.message_id for lease in begun],
        )

    def change(self, *consumers: Consumer, slow: bool = False, paused: bool = False) -> list[bool]:
        """Note that consumers have become slow, or are paused or not; return whose partitions move."""
        row = self.calls.row(
            "change_consumers",
            [consumer.queue for consumer in consumers],
            [consumer.consumer_id for consumer in consumers],
            [slow] * len(consumers),
            [paused] * len(consumers),
        )
        assert row["woken_ids"] == sorted({consumer.queue for consumer in consumers})
        return list(row["moving"])

    def claim(
        self,
        *consumers: Consumer,
        count: int = 1,
        slots: Sequence[int] | None = None,
        max_bytes: int = UNLIMITED,
        largest: int = UNLIMITED,
        idle: bool = False,
        answer_bytes: int = UNLIMITED,
        waits: bool = True,
    ) -> Claimed:
        """Claim up to ``count`` messages for each consumer, in turn."""
        if slots is None:
            slots = list(range(1, len(consumers) + 1)) * count
        rows = self.calls.rows(
            "claim_batch",
            [consumer.queue for consumer in consumers],
            [consumer.consumer_id for consumer in consumers],
            [consumer.client.client_id for consumer in consumers],
            [consumer.client.session for consumer in consumers],
            [consumer.epoch for consumer in consumers],
            [max_bytes] * len(consumers),
            [largest] * len(consumers),
            [idle] * len(consumers),
            list(slots),
            answer_bytes,
            waits,
        )
        return _claimed(consumers, rows)

    def recover(self, consumers: Sequence[Consumer], epoch: int, seen: int = 0) -> Claimed:
        rows = self.calls.rows(
            "recover_leases",
            [consumer.queue for consumer in consumers],
            [consumer.consumer_id for consumer in consumers],
            [epoch] * len(consumers),
            [seen] * len(consumers),
        )
        return _claimed(consumers, rows)

    def ack(self, client: Client, *leases: Lease, number: int | None = None) -> list[int | None]:
        number = client.next_number() if number is None else number
        errors = self.calls.value(
            "ack_batch",
            [client.client_id],
            [client.session],
            [number],
            [1] * len(leases),
            *_columns(leases),
            [],
            [],
            [],
        )
        return list(errors or [None] * len(leases))

    def nack(
        self,
        client: Client,
        *leases: Lease,
        failed: bool = True,
        delay_ms: int | None = 0,
        begun: Iterable[Lease] | None = None,
        reason: str | None = None,
        rejected: bool = False,
    ) -> list[int | None]:
        """Give messages back; unless it is said which were begun, all of them were."""
        begun_ids = [lease.message_id for lease in (leases if begun is None else begun)]
        row = self.calls.numbered(
            "nack", client, *_columns(leases), failed, delay_ms, begun_ids, reason, rejected
        )
        assert row["error"] is None, row
        return list(row["errors"])

    def keep(self, *leases: Lease, begun_ms: int | None = None) -> list[int | None]:
        """Have leases hold on: of messages that wait, or that were begun so long ago."""
        return list(self.calls.value("keep_leases", *_columns(leases), [begun_ms] * len(leases)))

    def return_waiting(self, *leases: Lease) -> dict[str, Any]:
        """Give back what nobody has begun."""
        return self.calls.row("return_waiting", *_columns(leases))

    def touch(self, client: Client, *leases: Lease) -> list[int | None]:
        row = self.calls.row("touch_leases", client.client_id, client.session, *_columns(leases))
        assert row["error"] is None, row
        return list(row["errors"])

    def sweep(self, job: str = "leases", max_rows: int = 1_000) -> dict[str, Any]:
        return self.calls.row("sweep", self.middleware, job, max_rows)

    def age(self, seconds: float) -> None:
        """Let so much time go by for all leases."""
        self.calls.connection.execute(
            "UPDATE telesto.leases SET deadline = deadline - make_interval(secs => %s)", (seconds,)
        )

    def lost(self) -> list[tuple[int, int, int]]:
        rows = self.calls.rows("take_lost_leases", self.middleware, 1_000)
        return [(row["consumer_id"], row["lease_id"], row["message_id"]) for row in rows]


def _columns(leases: Sequence[Lease]) -> tuple[list[int], list[int], list[int]]:
    refs = [lease.ref for lease in leases]
    return [ref[0] for ref in refs], [ref[1] for ref in refs], [ref[2] for ref in refs]


def _claimed(consumers: Sequence[Consumer], rows: list[dict[str, Any]]) -> Claimed:
    leases = [
        Lease(consumers[row["request"] - 1], row["lease_id"], row) for row in rows if row["kind"] == "message"
    ]
    errors = {
        consumers[row["request"] - 1].consumer_id: row["error"] for row in rows if row["kind"] == "refused"
    }
    more = any(row["kind"] in ("more", "reached", "ready") for row in rows)
    return Claimed(leases, errors, more)


def put_in_partitions(calls: Calls, client: Client, queue: int, *names: str, **options: Any) -> None:
    """Put messages whose partition is the first letter of the body."""
    elements = [Element(queue, name.encode(), partition=name[0], **options) for name in names]
    (answer,) = calls.put([Put(client, elements)])
    assert answer.errors == [None] * len(names)


def names_of(leases: Sequence[Lease]) -> list[str]:
    """What the bodies say."""
    return [lease.body.decode() for lease in leases]

# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""The settings of a queue: what the client, the middleware and the command line know of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telesto.protocol.enums import HistoryMode


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """A setting of a queue.

    Attributes:
        name: that of the tagged field and the column.
        client_name: that in the client and on the command line, where durations are seconds.
        type: int, bool, or an enum, which the column holds by its members' names in small letters.
        least, most: the range of a number.
        unit: "ms", "days", "queue" for the id of one; "" for a count and what is no number.
        default: what a queue has unless it is given; None when it is without it.
        without: what holds for a queue that is without it, in the client's words; "" for a setting that every
            queue has. On the wire 0 takes it away.
        off: what the option is called that turns a flag off.
        help: what it does, for the command line.
    """

    name: str
    client_name: str
    type: type[int]
    least: int
    most: int
    unit: str
    default: int | None
    without: str
    off: str
    help: str


_SETTINGS = (
    QueueSetting(
        name="max_messages",
        client_name="max_messages",
        type=int,
        least=1,
        most=9_223_372_036_854_775_807,
        unit="",
        default=None,
        without="no limit",
        off="",
        help="Refuse messages when the queue holds this many.",
    ),
    QueueSetting(
        name="dedup_window_ms",
        client_name="dedup_window",
        type=int,
        least=1_000,
        most=604_800_000,
        unit="ms",
        default=300_000,
        without="",
        off="",
        help="How long the queue remembers a dedup key.",
    ),
    QueueSetting(
        name="lease_ms",
        client_name="lease",
        type=int,
        least=100,
        most=86_400_000,
        unit="ms",
        default=30_000,
        without="",
        off="",
        help="How long a consumer may work on a message.",
    ),
    QueueSetting(
        name="max_attempts",
        client_name="max_attempts",
        type=int,
        least=1,
        most=1_000_000,
        unit="",
        default=5,
        without="",
        off="",
        help="A message that has failed this often becomes a dead letter.",
    ),
    QueueSetting(
        name="backoff_ms",
        client_name="backoff",
        type=int,
        least=0,
        most=86_400_000,
        unit="ms",
        default=1_000,
        without="",
        off="",
        help="How long a message waits after its first failed attempt; each further failure doubles that.",
    ),
    QueueSetting(
        name="backoff_max_ms",
        client_name="backoff_max",
        type=int,
        least=0,
        most=86_400_000,
        unit="ms",
        default=60_000,
        without="",
        off="",
        help="The longest wait after a failed attempt.",
    ),
    QueueSetting(
        name="expires_ms",
        client_name="expires",
        type=int,
        least=1,
        most=315_360_000_000,
        unit="ms",
        default=None,
        without="never",
        off="",
        help="A message that is put from now on expires after this time.",
    ),
    QueueSetting(
        name="bury_expired",
        client_name="bury_expired",
        type=bool,
        least=0,
        most=1,
        unit="",
        default=False,
        without="",
        off="drop_expired",
        help="Whether expired messages become dead letters.",
    ),
    QueueSetting(
        name="dead_letter_queue",
        client_name="dead_letter_queue",
        type=int,
        least=1,
        most=9_223_372_036_854_775_807,
        unit="queue",
        default=None,
        without="dead letters stay in their queue",
        off="",
        help="The queue that receives the dead letters; see telesto dead.",
    ),
    QueueSetting(
        name="late_after_ms",
        client_name="late_after",
        type=int,
        least=1,
        most=86_400_000,
        unit="ms",
        default=None,
        without="a third of lease",
        off="",
        help="A consumer's answer is late after this time.",
    ),
    QueueSetting(
        name="late_limit",
        client_name="late_limit",
        type=int,
        least=0,
        most=1_000,
        unit="",
        default=3,
        without="",
        off="",
        help="A consumer loses its partitions after this many late answers within the window; 0: never.",
    ),
    QueueSetting(
        name="late_window_ms",
        client_name="late_window",
        type=int,
        least=100,
        most=86_400_000,
        unit="ms",
        default=60_000,
        without="",
        off="",
        help="The window in which late answers count, and how long other consumers then keep the partitions.",
    ),
    QueueSetting(
        name="fail_limit",
        client_name="fail_limit",
        type=int,
        least=0,
        most=1_000,
        unit="",
        default=0,
        without="",
        off="",
        help="A consumer has to join again after this many failures in a row; 0: never.",
    ),
    QueueSetting(
        name="history",
        client_name="history",
        type=HistoryMode,
        least=0,
        most=1,
        unit="",
        default=HistoryMode.METADATA,
        without="",
        off="",
        help="What the queue keeps of finished messages: nothing, all but the bodies, or all.",
    ),
    QueueSetting(
        name="history_days",
        client_name="history_days",
        type=int,
        least=1,
        most=366,
        unit="days",
        default=7,
        without="",
        off="",
        help="For how many days it keeps that.",
    ),
)

#: The settings by their names.
QUEUE_SETTINGS: Mapping[str, QueueSetting] = {setting.name: setting for setting in _SETTINGS}

"""Says what the service has done to partitions that it must not.

A partition is what one client puts into one queue under one key. Its order is that of the ids, which rise
in the order of the puts. At any time it has a lease or none. What is leased of it is leased to one consumer
under that lease, in order, and nothing is passed over: whatever comes before is done or leased with it. A
lease goes on over many claims. It ends with the first message that comes back (given back, late, or lost
with its consumer), which takes those after it along; the next lease is given when nothing of the last one
is left, and has a higher number.

A consumer that is late does not know it, so applications may work on one message at the same time; which of
them has it is decided by whose answer is taken. What is held against the service is, by word of the
violation:

- shared: two processes had messages of one lease;
- two owners: an answer under a lease was taken although it was called after an application had seen a
  message under a later one;
- skipped: a message that was seen under a later lease, so was not done before, while one after it was
  leased. It must have been leased with that one. If nobody saw it there, it was lost on its way, with its
  connection or its process, and is marked redelivered later. Without the mark it was passed over. So it
  was, mark or not, when the application that got the one after it takes messages in order, for it would
  have seen this one first;
- reordered, overlap: a process that takes one message after the other, or has handlers work on one of each
  partition at a time, got those of one lease in another order, or one before it had answered the last one,
  or went back to an older lease.

What is in doubt is held against nobody: an acknowledgement that nobody knows of may have been taken at any
time before the next lease. A message without a key is a partition by itself, in which only the second can
go wrong.
"""

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from .consumer_ledger import ConsumerLedger, Lease


class Partition(NamedTuple):
    """What one client puts into one queue under one key."""

    queue_id: int
    sender_id: int
    key: str


def partition_faults(ledger: ConsumerLedger) -> Iterator[str]:
    """All that must not happen to partitions, nor to messages without one."""
    for message_id, leases in ledger.leases.items():
        if not any(lease.leased.partition for lease in leases.values()):
            yield from two_owners(f"message {message_id}", list(leases.values()))
    for partition, of_partition in partitions_of(ledger).items():
        name = f"{partition.key} of {partition.sender_id} in {partition.queue_id}"
        yield from shared_leases(name, of_partition)
        yield from two_owners(name, of_partition)
        yield from skipped(name, ledger, of_partition)
        yield from disordered_takes(name, ledger, of_partition)


def partitions_of(ledger: ConsumerLedger) -> dict[Partition, list[Lease]]:
    """All leases by partition, in the order in which applications got them."""
    partitions: dict[Partition, list[Lease]] = defaultdict(list)
    for lease in sorted(ledger.all_leases(), key=lambda lease: lease.take.at):
        leased = lease.leased
        if leased.partition:
            partitions[Partition(leased.queue_id, leased.sender_id, leased.partition)].append(lease)
    return partitions


def shared_leases(name: str, leases: list[Lease]) -> Iterator[str]:
    """Leases that two processes had."""
    owners: dict[int, set[str]] = defaultdict(set)
    for lease in leases:
        owners[lease.leased.lease_id].add(_who(lease))
    for lease_id, processes in owners.items():
        if len(processes) > 1:
            yield f"shared: {name} went to {sorted(processes)} under lease {lease_id}"


def two_owners(name: str, leases: list[Lease]) -> Iterator[str]:
    """Answers that were taken under a lease when a later one had begun."""
    next_at = math.inf
    seen_at = math.inf
    following = 0
    for lease in sorted(leases, key=lambda lease: lease.leased.lease_id, reverse=True):
        lease_id = lease.leased.lease_id
        if lease_id != following:
            next_at = min(next_at, seen_at)
            following, seen_at = lease_id, math.inf
        seen_at = min(seen_at, lease.take.at)
        if lease.held_at > next_at:
            answer = f"message {lease.leased.message_id} was answered under {lease_id} by {_who(lease)}"
            yield f"two owners: {name}: {answer} after a later lease had begun"


def skipped(name: str, ledger: ConsumerLedger, leases: list[Lease]) -> Iterator[str]:
    """Messages that were passed over: one after it was leased, and it was neither done nor leased with it."""
    under: dict[int, dict[int, Lease]] = defaultdict(dict)
    by_message: dict[int, list[Lease]] = defaultdict(list)
    for lease in leases:
        under[lease.leased.lease_id][lease.leased.message_id] = lease
        by_message[lease.leased.message_id].append(lease)
    ends: dict[int, list[int]] = defaultdict(list)
    for message_id, of_message in by_message.items():
        ends[max(lease.leased.lease_id for lease in of_message)].append(message_id)
    not_done: list[int] = []  # while the leases are gone through backwards: what was seen under a later one
    for lease_id in sorted(under, reverse=True):
        last = under[lease_id][max(under[lease_id])]
        in_order = ledger.process(last.take).ordered
        for message_id in not_done[: bisect_left(not_done, last.leased.message_id)]:
            if message_id not in under[lease_id]:
                yield from _passed_over(name, by_message[message_id], last, in_order)
        for message_id in ends[lease_id]:
            insort(not_done, message_id)


def _passed_over(name: str, leases: list[Lease], last: Lease, in_order: bool) -> Iterator[str]:
    lease_id, message_id = last.leased.lease_id, last.leased.message_id
    later = min(
        (lease for lease in leases if lease.leased.lease_id > lease_id),
        key=lambda lease: lease.leased.lease_id,
    )
    if in_order or not later.leased.redelivered:
        skipped_one = f"message {later.leased.message_id}, under {later.leased.lease_id} later,"
        yield f"skipped: {name}: {skipped_one} by {message_id} under {lease_id} to {_who(last)}"


def disordered_takes(name: str, ledger: ConsumerLedger, leases: list[Lease]) -> Iterator[str]:
    """Messages that a process got in another order, or before it was done with the one before."""
    by_process: dict[str, list[Lease]] = defaultdict(list)
    for lease in leases:
        if ledger.process(lease.take).ordered:
            by_process[_who(lease)].append(lease)
    for process, in_turn in by_process.items():
        for before, lease in pairwise(in_turn):
            ids = f"{before.leased.message_id} and {lease.leased.message_id}"
            same = before.leased.lease_id == lease.leased.lease_id
            if same and before.leased.message_id > lease.leased.message_id:
                yield f"reordered: {name}: {process} got {ids} under {lease.leased.lease_id}"
            if before.leased.lease_id > lease.leased.lease_id:
                yield f"reordered: {name}: {process} got {ids}, the second under an older lease"
            if before.answered_at > lease.take.at:
                yield f"overlap: {name}: {process} got {ids} at a time"


def _who(lease: Lease) -> str:
    return f"{lease.take.client}.{lease.take.run}"

"""Who takes part in a run: the clients of a workload, their roles, queues and partners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telesto.benchmarks.harness.settings import MIX_STEP, RunSettings
from telesto.benchmarks.workloads.plan import ACTIVE_ROLES, Role, Seat

PEERS_MAX = 1_000
"""To so many others a client sends at most: with more, the plans of many clients would be huge."""


@dataclass(frozen=True, slots=True)
class Place:
    """A client's part before there are any ids.

    Attributes:
        group: whose queue it uses; clients of a group meet each other.
        partner: the place of the client to whom it sends; None for anyone.
        sends_to: it sends to any client of its group with this role, by chance.
    """

    role: Role
    group: str
    partner: int | None = None
    sends_to: Role | None = None


def places(settings: RunSettings) -> list[Place]:
    """Return the part of each client; their number is that of the settings, less one that has no partner.

    Those of subscriptions whose clients are away come besides.
    """
    clients, workload = settings.clients, settings.workload
    open_loop = settings.loop == "open"
    if workload == "one-way":
        return _one_way(clients, open_loop)
    if workload == "pairs":
        return _pairs(clients, 0)
    if workload == "pool":
        return _pool(clients)
    if workload == "mix":
        return _mix(clients, open_loop)
    return [Place(role, workload) for role in _simple_roles(settings)]


def _simple_roles(settings: RunSettings) -> list[Role]:
    """Return the roles of a workload whose clients need not know each other."""
    clients = settings.clients
    if settings.workload == "fan-out":
        away: list[Role] = ["away"] * settings.away
        return _split("subscriber", settings.subscribers, "publisher", clients) + away
    if settings.workload == "consume":
        return _split("consumer", settings.consumers, "putter", clients)
    one_role: Mapping[str, Role] = {
        "put": "putter",
        "put-read": "put-reader",
        "read": "reader",
        "drain": "reader",
        "idle": "idle",
    }
    return [one_role[settings.workload]] * clients


def _split(first: Role, count: int, other: Role, clients: int) -> list[Role]:
    """Return so many of one role, spread among the others, so that every process has some of each."""
    return [
        first if (index + 1) * count // clients > index * count // clients else other
        for index in range(clients)
    ]


def _one_way(clients: int, open_loop: bool) -> list[Place]:
    """Each client sends to another one by chance; in an open loop half of them send and half receive."""
    if not open_loop:
        return [Place("one-way", "one-way", sends_to="one-way") for _ in range(clients)]
    roles = _split("receiver", clients // 2, "sender", clients)
    return [Place(role, "one-way", sends_to="receiver" if role == "sender" else None) for role in roles]


def _pairs(clients: int, first: int) -> list[Place]:
    """Return askers, each followed by the client that answers it; `first` is the place of the first one."""
    found = []
    for index in range(clients // 2):
        found.append(Place("asker", "pairs", partner=first + 2 * index + 1))
        found.append(Place("answerer", "pairs"))
    return found


def _pool(clients: int) -> list[Place]:
    """Return two pools of equal size that share a queue."""
    return [Place("answerer" if index % 2 else "asker", "pool") for index in range(clients - clients % 2)]


def _mix(clients: int, open_loop: bool) -> list[Place]:
    """Return five ninths one-way clients, two ninths in pairs, two ninths in the two pools."""
    ninths = 2 * clients // MIX_STEP
    paired = ninths - ninths % 2
    found = _one_way(clients - 2 * paired, open_loop)
    return found + _pairs(paired, len(found)) + _pool(paired)


def groups_of(chosen: Sequence[Place]) -> list[str]:
    """Return the groups that need queues, in a fixed order."""
    return sorted({place.group for place in chosen})


def seat(
    chosen: Sequence[Place],
    names: Sequence[str],
    client_ids: Sequence[int],
    queues: Mapping[str, Sequence[int | str]],
) -> list[Seat]:
    """Give places names and ids. Clients of a group use its queues in turn, partners the same one."""
    seats = []
    met: dict[tuple[str, Role, int | str], list[int]] = {}
    used = _queues_of(chosen, queues)
    for index, place in enumerate(chosen):
        met.setdefault((place.group, place.role, used[index]), []).append(client_ids[index])
    for index, place in enumerate(chosen):
        peers: Sequence[int] = ()
        if place.partner is not None:
            peers = [client_ids[place.partner]]
        elif place.sends_to is not None:
            peers = _others(met.get((place.group, place.sends_to, used[index]), []), client_ids[index])
        seats.append(Seat(index, names[index], place.role, used[index], tuple(peers)))
    return seats


def _queues_of(chosen: Sequence[Place], queues: Mapping[str, Sequence[int | str]]) -> list[int | str]:
    """Return the queue of each client; where clients need each other, two neighbours share one."""
    counts: dict[str, int] = {}
    roles: dict[str, set[Role]] = {}
    for place in chosen:
        roles.setdefault(place.group, set()).add(place.role)
    used = []
    for place in chosen:
        number = counts.get(place.group, 0)
        counts[place.group] = number + 1
        of_group = queues[place.group]
        together = 2 if place.sends_to is not None or len(roles[place.group]) > 1 else 1
        used.append(of_group[number // together % len(of_group)])
    return used


def _others(client_ids: Sequence[int], own: int) -> list[int]:
    """Return to whom a client may send: to all but itself, or those next to it where there are very many."""
    others = [client_id for client_id in client_ids if client_id != own]
    if len(others) <= PEERS_MAX:
        return others
    start = own % len(others)
    return (others[start:] + others[:start])[:PEERS_MAX]


def share_out(seats: Sequence[Seat], processes: int) -> list[list[Seat]]:
    """Spread the clients that are there over processes, each with some of every role."""
    there = [each for each in seats if each.role != "away"]
    # Where there are several roles, neighbours stay together, so that no process is without those who send.
    together = 2 if len({each.role for each in there}) > 1 else 1
    shares: list[list[Seat]] = [[] for _ in range(min(processes, -(-len(there) // together)))]
    for each in there:
        shares[each.number // together % len(shares)].append(each)
    return shares


def sending(seats: Sequence[Seat]) -> int:
    """Count those that send by themselves."""
    return sum(each.role in ACTIVE_ROLES for each in seats)

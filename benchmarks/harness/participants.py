"""Who takes part in a run: the clients of a workload, their roles, queues and partners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telesto.benchmarks.harness.settings import MIX_STEP, RunSettings
from telesto.benchmarks.load.plan import ACTIVE_ROLES, Participant, Role

PEERS_MAX = 1_000
"""To so many others a client sends at most: with more, the plans of many clients would be huge."""


@dataclass(frozen=True, slots=True)
class Part:
    """A client's part in the workload, before there are any ids.

    Attributes:
        group: whose queue it uses; clients of a group meet each other.
        partner: the number of the client to whom it sends; None for anyone.
        sends_to: it sends to any client of its group with this role, by chance.
    """

    role: Role
    group: str
    partner: int | None = None
    sends_to: Role | None = None


def parts_of(settings: RunSettings) -> list[Part]:
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
    return [Part(role, workload) for role in _simple_roles(settings)]


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


def _one_way(clients: int, open_loop: bool) -> list[Part]:
    """Each client sends to another one by chance; in an open loop half of them send and half receive."""
    if not open_loop:
        return [Part("one-way", "one-way", sends_to="one-way") for _ in range(clients)]
    roles = _split("receiver", clients // 2, "sender", clients)
    return [Part(role, "one-way", sends_to="receiver" if role == "sender" else None) for role in roles]


def _pairs(clients: int, first: int) -> list[Part]:
    """Return requesters, each before the client that answers it; `first` is the first one's number."""
    found = []
    for index in range(clients // 2):
        found.append(Part("requester", "pairs", partner=first + 2 * index + 1))
        found.append(Part("responder", "pairs"))
    return found


def _pool(clients: int) -> list[Part]:
    """Return two pools of equal size that share a queue."""
    return [Part("responder" if index % 2 else "requester", "pool") for index in range(clients - clients % 2)]


def _mix(clients: int, open_loop: bool) -> list[Part]:
    """Return five ninths one-way clients, two ninths in pairs, two ninths in the two pools."""
    ninths = 2 * clients // MIX_STEP
    paired = ninths - ninths % 2
    found = _one_way(clients - 2 * paired, open_loop)
    return found + _pairs(paired, len(found)) + _pool(paired)


def groups_of(chosen: Sequence[Part]) -> list[str]:
    """Return the groups that need queues, in a fixed order."""
    return sorted({part.group for part in chosen})


def assign(
    chosen: Sequence[Part],
    names: Sequence[str],
    client_ids: Sequence[int],
    queues: Mapping[str, Sequence[int | str]],
) -> list[Participant]:
    """Give parts names and ids. Clients are spread over the queues of their group; partners use the same."""
    participants = []
    met: dict[tuple[str, Role, int | str], list[int]] = {}
    used = _queues_of(chosen, queues)
    for index, part in enumerate(chosen):
        met.setdefault((part.group, part.role, used[index]), []).append(client_ids[index])
    for index, part in enumerate(chosen):
        peers: Sequence[int] = ()
        if part.partner is not None:
            peers = [client_ids[part.partner]]
        elif part.sends_to is not None:
            peers = _others(met.get((part.group, part.sends_to, used[index]), []), client_ids[index])
        participants.append(Participant(index, names[index], part.role, used[index], tuple(peers)))
    return participants


def _queues_of(chosen: Sequence[Part], queues: Mapping[str, Sequence[int | str]]) -> list[int | str]:
    """Return the queue of each client; where clients need each other, two neighbours share one."""
    counts: dict[str, int] = {}
    roles: dict[str, set[Role]] = {}
    for part in chosen:
        roles.setdefault(part.group, set()).add(part.role)
    used = []
    for part in chosen:
        number = counts.get(part.group, 0)
        counts[part.group] = number + 1
        of_group = queues[part.group]
        together = 2 if part.sends_to is not None or len(roles[part.group]) > 1 else 1
        used.append(of_group[number // together % len(of_group)])
    return used


def _others(client_ids: Sequence[int], own: int) -> list[int]:
    """Return to whom a client may send: to all but itself, or those next to it where there are very many."""
    others = [client_id for client_id in client_ids if client_id != own]
    if len(others) <= PEERS_MAX:
        return others
    start = own % len(others)
    return (others[start:] + others[:start])[:PEERS_MAX]


def share_out(participants: Sequence[Participant], processes: int) -> list[list[Participant]]:
    """Spread the clients that are there over processes, each with some of every role."""
    there = [each for each in participants if each.role != "away"]
    # Where there are several roles, neighbours stay together, so that no process is without those who send.
    together = 2 if len({each.role for each in there}) > 1 else 1
    shares: list[list[Participant]] = [[] for _ in range(min(processes, -(-len(there) // together)))]
    for each in there:
        shares[each.number // together % len(shares)].append(each)
    return shares


def sending(participants: Sequence[Participant]) -> int:
    """Count those that send by themselves."""
    return sum(each.role in ACTIVE_ROLES for each in participants)

"""Whether a user may do what a request asks for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from telesto.db import calls
from telesto.middleware.common.failures import Failure, failure_of, no_queue
from telesto.middleware.security.needed_rights import NEEDED, Need, Scope, What
from telesto.middleware.security.users import Read, Right, User
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import PutMessage, PutMessages

#: How many names of queues are kept. Beyond that all are forgotten.
_NAMES_MAX = 100_000
#: In the id of a queue that a put's user may not see. No queue has such an id.
HIDDEN = 1 << 62

_DOING = {
    Right.CONFIGURE: "create, change or delete",
    Right.PUT: "put into",
    Right.GET: "read from",
    Right.ADMIN: "administer",
    Right.GET | Right.ADMIN: "read from or administer",
    Right.SEE: "see",
}
#: The options of `telesto user allow` that give a right.
_OPTIONS = {
    Right.CONFIGURE: ("--configure",),
    Right.PUT: ("--put",),
    Right.GET: ("--get",),
    Right.ADMIN: ("--admin",),
    Right.GET | Right.ADMIN: ("--get", "--admin"),
    Right.SEE: ("--get", "--put", "--configure", "--admin"),
    Right.CLIENTS: ("--clients",),
}

#: Of requests with one need that a user's decisions tell about: the rights, and all that the field has.
_DECIDED = {
    method_id: (needs[0].rights, needs[0].named)
    for method_id, needs in NEEDED.items()
    if not isinstance(needs, Scope)
    and len(needs) == 1
    and needs[0].what in (What.QUEUE, What.NAME, What.TOPIC)
}


class Asking(Protocol):
    """A connection that a request comes from."""

    @property
    def client_id(self) -> int:
        """Its client."""

    #: The topics of its subscriptions by their ids; None if they are not known.
    subscribed: dict[int, str] | None


class RightsCheck:
    """Says which requests a user may not make.

    Queues are named by ids, and rights are about names: it keeps the names, which never change, and each user
    keeps what was decided of ids and names. A queue that a user may not even see is as one that does not
    exist. Of names given as such the answer depends on the patterns alone, so it tells nothing either.
    """

    def __init__(self, names: dict[int, str]) -> None:
        """``names`` are the names of queues by their ids, as far as they are known."""
        self._names = names

    def allows(self, user: User, packet: Any) -> bool:
        """Tells whether a request is known to be allowed. If not, `refusal` decides after `look_up`."""
        decided = _DECIDED.get(packet.METHOD_ID)
        if decided is None:
            needs = NEEDED[packet.METHOD_ID]
            return isinstance(needs, Scope) and (needs is not Scope.MONITOR or user.monitor)
        rights, named = decided
        decisions = user.decisions
        for key in named(packet):  # noqa: SIM110 - `all` with a generator takes longer
            if not decisions.get(key, 0) & rights:
                return False
        return True

    async def look_up(self, asked: Iterable[tuple[Asking, Any]], read: Read) -> dict[int, str]:
        """Reads what requests need and is not known. Returns the names of their queues, of those that exist.

        Raises what ``read`` raises.

        Args:
            asked: connections and packets, which `allows` does not know to be allowed.
            read: calls a procedure.
        """
        names: dict[int, str] = {}
        queue_ids: set[int] = set()
        connections: dict[int, Asking] = {}
        for connection, packet in asked:
            needs = NEEDED[packet.METHOD_ID]
            if isinstance(needs, Scope):
                continue
            for need in needs:
                if need.what is What.QUEUE:
                    for queue_id in need.named(packet):
                        name = self._names.get(queue_id)
                        if name is None:
                            queue_ids.add(queue_id)
                        else:
                            names[queue_id] = name
                elif need.what is What.SUBSCRIPTION and not packet.topic:
                    known = connection.subscribed
                    if known is None or (packet.subscription_id and packet.subscription_id not in known):
                        connections[connection.client_id] = connection
        if queue_ids:
            for row in await read(*calls.get_queue_names(queue_ids=list(queue_ids))):
                if len(self._names) >= _NAMES_MAX:
                    self._names.clear()
                self._names[row["queue_id"]] = names[row["queue_id"]] = row["name"]
        if connections:
            topics: dict[int, dict[int, str]] = {client_id: {} for client_id in connections}
            for row in await read(*calls.get_subscribed_topics(client_ids=list(connections))):
                topics[row["client_id"]][row["subscription_id"]] = row["topic"]
            for client_id, connection in connections.items():
                connection.subscribed = topics[client_id]
        return names

    def refusal(
        self,
        user: User,
        packet: Any,
        subscribed: Mapping[int, str] | None,
        names: Mapping[int, str] | None = None,
    ) -> Failure | None:
        """Returns why a user may not make a request; None if it may.

        Args:
            user: the user, who is no administrator.
            packet: the request.
            subscribed: the topics of the client's subscriptions by their ids, if they are known.
            names: what `look_up` has found; None for the names that are known.
        """
        names = self._names if names is None else names
        needs = NEEDED[packet.METHOD_ID]
        if isinstance(needs, Scope):
            if needs is Scope.MONITOR and not user.monitor:
                return _denied(
                    user, "is no monitor", f"telesto user allow {shlex.quote(user.name)} --monitor"
                )
            return None
        for need in needs:
            for key in need.named(packet):
                failure = self._judge(user, need, key, packet, subscribed or {}, names)
                if failure is not None:
                    return failure
        return None

    def why_not_read(self, user: User, queue_id: int) -> Failure | None:
        """Returns why a consumer of a user must end, after its rights have changed; None if it may go on.

        If the name of its queue has been forgotten, it may join again.
        """
        name = self._names.get(queue_id)
        if name is None:
            return failure_of(ErrorCode.CONSUMER_NOT_EXISTING, "the user's rights have changed; join again")
        if user.decide(queue_id, name) & Right.GET:
            return None
        why, allow = f"has no right to read from queue {name!r} any more", _allow(user, Right.GET, name)
        return _denied(user, why, allow, queue_id)

    def _judge(
        self,
        user: User,
        need: Need,
        key: Any,
        packet: Any,
        subscribed: Mapping[int, str],
        names: Mapping[int, str],
    ) -> Failure | None:
        wanted = Right(need.rights)
        if need.what is What.QUEUE:
            name = names.get(key)
            granted = 0 if name is None else user.decide(key, name)
            if name is None or not granted & Right.SEE:
                if isinstance(packet, (PutMessage, PutMessages)):
                    _hide(packet, key)
                    return None
                return failure_of(ErrorCode.QUEUE_NOT_EXISTING, no_queue(key), key)
            if not granted & need.rights:
                why = f"has no right to {_DOING[wanted]} queue {name!r}"
                return _denied(user, why, _allow(user, wanted, name), key)
        elif need.what is What.CLIENT:
            if not user.may_be_client(key, temporary=bool(packet.temporary)):
                return _denied(user, f"may have no client named {key!r}", _allow(user, Right.CLIENTS, key))
        elif need.what is What.SUBSCRIPTION:
            if packet.topic:
                return None
            topics = [subscribed[key]] if key in subscribed else [] if key else subscribed.values()
            for topic in topics:
                if not self._granted(user, topic) & need.rights:
                    allow = _allow(user, Right.GET, topic)
                    return _denied(user, f"has no right to read from topic {topic!r}", allow)
        elif key and not self._granted(user, key) & need.rights:
            noun = "topic" if need.what is What.TOPIC else "queue"
            why = f"has no right to {_DOING[wanted]} {noun} {key!r}"
            return _denied(user, why, _allow(user, wanted, key))
        return None

    def _granted(self, user: User, name: str) -> int:
        granted = user.decisions.get(name)
        return user.decide(name, name) if granted is None else granted


def _hide(packet: PutMessage | PutMessages, queue_id: int) -> None:
    """Replaces a queue that the user may not see by one that there never is: the others take their messages.

    Also where there is no such queue: one may be made before the put is executed.
    """
    hidden = queue_id | HIDDEN
    if isinstance(packet, PutMessage):
        packet.queue_ids = [hidden if key == queue_id else key for key in packet.queue_ids]
    else:
        for element in packet.messages:
            if element.queue_id == queue_id:
                element.queue_id = hidden


def _allow(user: User, wanted: Right, name: str) -> str:
    """Returns the command that gives the user what it wants of one name."""
    first, *others = _OPTIONS[wanted]
    pattern = re.sub(r"([*?\\])", r"\\\1", name)
    command = f"telesto user allow {shlex.quote(user.name)} {first} {shlex.quote(pattern)}"
    return f"{command} (or {', '.join(others)})" if others else command


def _denied(user: User, why: str, allow: str, related_id: int | None = None) -> Failure:
    details = f"user {user.name!r} {why}; to allow it: {allow}"
    return failure_of(ErrorCode.PERMISSION_DENIED, details, related_id)

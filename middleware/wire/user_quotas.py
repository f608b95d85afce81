"""Limits how much the connections of one user may use here, where the user has quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.failures import FailedError, failure_of
from telesto.middleware.scheduling.requests import UNIDENTIFIED, Kind, Pipeline
from telesto.middleware.security.users import User
from telesto.protocol.errors import ErrorCode, OverloadedError, QuotaExceededError, TelestoError
from telesto.protocol.packets import IdentifyClient, PutMessage, RegisterClient

if TYPE_CHECKING:
    from telesto.middleware.wire.connection import Connections

#: Connections are counted again after this time, in seconds; what begins in between is added.
_PERIOD_S = 0.05
#: From this part of a quota on it is told that little is left.
NEARLY = 0.8
#: How long a quota counts as nearly used up, in seconds.
_NEAR_S = 60.0
_NEAR_MAX = 10_000
_PUTS = (Kind.PUT, Kind.PUBLISH)
_READS = (Kind.TAKE, Kind.TAKE_SELECTED, Kind.FETCH)


class _Use:
    """What a user uses: what was counted, and the messages that it may put at once."""

    def __init__(self) -> None:
        self.counted_at = float("-inf")
        #: By the id of its pipeline, which this does not keep alive.
        self.connected: set[int] = set()
        self.joining = self.waiting = 0
        self.tokens = float("inf")
        self.filled_at = 0.0


class QuotasOfUsers:
    """Refuses what would exceed a quota of the user of a connection, with OVERLOADED.

    Only the refusal of a put names the time to wait: nobody knows when a connection, a consumer or a read of
    the user ends, so the client tries such a request a few times only.

    The quotas hold for each middleware by itself. A user may put as many messages at once as it may put in a
    second. One request with more is taken whole, and what follows waits the longer.
    """

    def __init__(self, clock: Callable[[], float], connections: Connections, events: EventLog) -> None:
        """``clock`` is the loop's."""
        self._clock = clock
        self._connections = connections
        self._events = events
        self._uses: WeakKeyDictionary[User, _Use] = WeakKeyDictionary()
        self._near: dict[tuple[int, str], float] = {}
        self._measured: set[tuple[int, str]] = set()

    def refusal(self, pipeline: Pipeline, user: User, kind: Kind, packet: Any) -> TelestoError | None:
        """Returns why a request must wait; None if it may be executed, which is counted then.

        Args:
            pipeline: the connection.
            user: its user, who has quotas.
            kind: the request's kind.
            packet: the request.
        """
        quotas = user.quotas
        if kind in _PUTS:
            if user.without_space is not None:
                quota, used = user.without_space
                noun, option = quota.replace("_", " "), quota.replace("_", "-")
                return QuotaExceededError(
                    f"user {user.name!r} has {used} {noun} and may have no more than "
                    f"{getattr(quotas, quota)} (quota {option})"
                )
            if quotas.puts_per_s is None:
                return None
            count = len(packet.queue_ids) if type(packet) is PutMessage else len(packet.messages)
            return self._put(user, quotas.puts_per_s, count)
        if kind in _READS:
            if quotas.waiting_reads is None or not getattr(packet, "wait_ms", 0):
                return None
            use = self._counted(user)
            refusal = self._judge(user, "waiting_reads", use.waiting + 1, quotas.waiting_reads)
            use.waiting += refusal is None
            return refusal
        if (
            quotas.connections is not None
            and pipeline.client is UNIDENTIFIED
            and isinstance(packet, (RegisterClient, IdentifyClient))
        ):
            use = self._counted(user)
            if id(pipeline) in use.connected:  # RegisterClient, and then IdentifyClient
                return None
            refusal = self._judge(user, "connections", len(use.connected) + 1, quotas.connections)
            if refusal is None:
                use.connected.add(id(pipeline))
            return refusal
        return None

    @contextmanager
    def joining(self, user: User | None) -> Iterator[None]:
        """Counts a consumer while it joins. Raises FailedError when the user has as many as it may."""
        limit = None if user is None else user.quotas.consumers
        if user is None or limit is None:
            yield
            return
        use = self._use(user)
        joined = sum(
            len(connection.pipeline.consumers)
            for connection in self._connections.snapshot()
            if connection.pipeline.user is user
        )
        refusal = self._judge(user, "consumers", joined + use.joining + 1, limit)
        if refusal is not None:
            raise FailedError(failure_of(ErrorCode.OVERLOADED, refusal.details))
        use.joining += 1
        try:
            yield
        finally:
            use.joining -= 1

    def near(self) -> int:
        """Returns how many quotas of users are nearly used up, or have been in the last minute."""
        since = self._clock() - _NEAR_S
        for which, at in list(self._near.items()):
            if at <= since:
                del self._near[which]
                self._ease(*which)
        return len(self._near) + len(self._measured)

    def measured(self, near: Iterable[tuple[int, str, str, int, int]]) -> None:
        """Takes all quotas that hold for all middlewares and are nearly used up; of others nothing is left.

        Args:
            near: the user, its name, the quota, how much is used, and how much may be.
        """
        before, self._measured = self._measured, set()
        for user_id, name, quota, used, limit in near:
            self._measured.add((user_id, quota))
            if (user_id, quota) not in before:
                self._log(user_id, name, quota, used, limit)
        for which in before - self._measured:
            self._ease(*which)
        self.near()

    def _ease(self, user_id: int, quota: str) -> None:
        self._events.warning("user_quota_has_space_again", (user_id, quota), user_id=user_id, quota=quota)

    def _put(self, user: User, per_s: int, count: int) -> OverloadedError | None:
        use = self._use(user)
        now = self._clock()
        use.tokens = min(per_s, use.tokens + per_s * (now - use.filled_at))
        use.filled_at = now
        needed = min(count, per_s)
        if not per_s or use.tokens < needed:
            self._tell(user, "puts_per_s", per_s, per_s)
            details = f"user {user.name!r} may put {per_s} messages in a second (quota puts-per-second)"
            if not per_s:
                return OverloadedError(details)
            return OverloadedError(details, retry_after=max(0.001, (needed - use.tokens) / per_s))
        use.tokens -= count
        if use.tokens <= (1 - NEARLY) * per_s:
            self._tell(user, "puts_per_s", per_s - use.tokens, per_s)
        return None

    def _judge(self, user: User, quota: str, wanted: int, limit: int) -> OverloadedError | None:
        if wanted >= NEARLY * limit:
            self._tell(user, quota, min(wanted, limit), limit)
        if wanted <= limit:
            return None
        noun, option = quota.replace("_", " "), quota.replace("_", "-")
        return OverloadedError(
            f"user {user.name!r} has {wanted - 1} {noun} here and may have no more than {limit} "
            f"(quota {option})"
        )

    def _log(self, user_id: int, name: str, quota: str, used: float, limit: int) -> None:
        self._events.warning(
            "user_quota_nearly_used_up",
            (user_id, quota),
            user=name,
            quota=quota,
            used=round(used),
            limit=limit,
        )

    def _tell(self, user: User, quota: str, used: float, limit: int) -> None:
        self._log(user.user_id, user.name, quota, used, limit)
        if len(self._near) < _NEAR_MAX:
            self._near[user.user_id, quota] = self._clock()

    def _use(self, user: User) -> _Use:
        use = self._uses.get(user)
        if use is None:
            use = self._uses[user] = _Use()
        return use

    def _counted(self, user: User) -> _Use:
        use, now = self._use(user), self._clock()
        if now - use.counted_at >= _PERIOD_S:
            use.counted_at = now
            pipelines = [
                connection.pipeline
                for connection in self._connections.snapshot()
                if connection.pipeline.user is user
            ]
            use.connected = {id(each) for each in pipelines if each.client is not UNIDENTIFIED}
            use.waiting = sum(len(pipeline.waiting) for pipeline in pipelines)
        return use

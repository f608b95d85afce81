"""Counts whether a consumer answers late and whether it fails."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple


class BehaviourLimits(NamedTuple):
    """The limits of a queue for its consumers.

    Attributes:
        late_after_s: an answer that takes longer is late, in seconds.
        late_limit: with this many late answers within the window a consumer is slow; 0 for never.
        late_window_s: the window, in seconds.
        fail_limit: after this many failures in a row a consumer is inactive; 0 for never.
    """

    late_after_s: float
    late_limit: int
    late_window_s: float
    fail_limit: int


#: A consumer with this many failures in a row counts as failing everything.
_FAILS_ALL = 5
#: It then pauses after each failure, twice as long each time up to a limit, in seconds.
_REST_S = 0.1
_REST_MAX_S = 5.0

#: No limits.
NO_LIMITS = BehaviourLimits(math.inf, 0, 0.0, 0)


class Behaviour:
    """Counts a consumer's late answers and its failures.

    All times are those of one monotonic clock, in seconds.
    """

    __slots__ = ("_answered_at", "_failed_at", "_failed_message", "_late", "_limits", "failures")

    def __init__(self, limits: BehaviourLimits) -> None:
        self._limits = limits
        self._answered_at = -math.inf
        self._late: deque[float] = deque()
        self._failed_at = -math.inf
        self._failed_message = 0
        self.failures = 0

    def late(self, since: list[float], now: float) -> bool:
        """Records one answer for messages received at the times ``since``. Returns whether it was late.

        The service does not know when it began a message. It could begin when it had the message and had
        answered the one before, so a message is not late because it waited behind others at the consumer.
        """
        begun_at = max(self._answered_at, min(since))
        self._answered_at = now
        return now - begun_at > self._limits.late_after_s

    def too_often_late(self, now: float) -> bool:
        """Records a late answer. Returns whether it makes the consumer slow."""
        limits = self._limits
        if not limits.late_limit:
            return False
        self._late.append(now)
        while self._late[0] <= now - limits.late_window_s:
            self._late.popleft()
        if len(self._late) < limits.late_limit:
            return False
        self._late.clear()
        return True

    def succeeded(self) -> None:
        """A message was acknowledged, which resets the failures."""
        self.failures = 0
        self._failed_message = 0

    def gave_back(self, message_id: int) -> bool:
        """It gave a message back as failed. Returns whether it is inactive now.

        A message that fails repeatedly counts once: the cause is probably the message.
        """
        if message_id == self._failed_message:
            return False
        self._failed_message = message_id
        return self._failed()

    def ran_out(self, since: float, now: float) -> bool:
        """The lease of a message that it has had since then ran out. Returns whether it is inactive now.

        Messages that it had when another lease ran out fail for the same reason, so they do not count.
        """
        if since <= self._failed_at:
            return False
        self._failed_at = now
        return self._failed()

    @property
    def rest_s(self) -> float:
        """How long it gets nothing after this failure, in seconds; 0 unless it fails everything."""
        if self.failures < _FAILS_ALL:
            return 0.0
        return min(_REST_MAX_S, _REST_S * 2.0 ** min(self.failures - _FAILS_ALL, 16))

    def _failed(self) -> bool:
        self.failures += 1
        return bool(self._limits.fail_limit) and self.failures >= self._limits.fail_limit

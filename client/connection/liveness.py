"""Whether the other end of a connection still lives: if nothing comes, a Ping asks.

An answer may take long for many reasons, and a read that waits is meant to. But a middleware answers a Ping
as soon as it reads it, and sends Alive while it does not read. So a connection on
which something is awaited and nothing has come for ``ping_after`` seconds is asked; when no byte follows
within about the same time again, the middleware stands still, or is gone, and the client goes elsewhere.
"""

from __future__ import annotations

from typing import Any

from telesto.client.connection.link import InternalRequest, Link
from telesto.protocol import packets

#: While only Pings are answered they become rarer; their distance is at most this many times ``ping_after``.
_PAUSE_MAX = 3
#: An answer may take this many times longer than recent ones.
_SLOWER = 3
#: It may take a second longer for this many bytes that were sent before and may still be on their way.
_BYTES_PER_S = 1024 * 1024
#: In seconds. In this time a client reads what has come while its own process stood still.
READING_S = 0.05


class LivenessCheck:
    """Watches one connection."""

    def __init__(self, link: Link, ping_after: float, now: float) -> None:
        self._link = link
        self._ping_after = self._pause = ping_after
        self._ping = InternalRequest(packets.Ping(), self._answered)
        self._took = 0.0
        self._reading = False
        # Hello is the first question. It has twice the time, for the connection has to be accepted first.
        self._asked_at = now + ping_after
        link.heard_at = None

    def look(self, now: float, keep_alive: float, *, awaits_pushes: bool, greeted: bool) -> bool:
        """Asks, if it is time to; tells whether the other end counts as lost.

        ``awaits_pushes`` tells that something may come that answers no request.
        """
        link = self._link
        if link.heard_at is None:
            return self._is_overdue(now)
        oldest: Any = next(iter(link.pending.values()), None)
        pause = self._ping_after if link.sent_at > self._asked_at else self._pause
        ask_at = link.sent_at + keep_alive
        if oldest is not None:
            ask_at = min(ask_at, max(link.heard_at, oldest.sent_at) + pause)
        elif awaits_pushes:
            ask_at = min(ask_at, link.heard_at + pause)
        if now < ask_at:
            link.look_at = ask_at
            return False
        self._pause = min(2 * pause, _PAUSE_MAX * self._ping_after)
        self._asked_at = now
        self._reading = False
        link.heard_at = None
        if greeted and link.pending.get(self._ping.packet_id) is not self._ping:
            link.send(self._ping, 0, [], now)
        return self._is_overdue(now)

    def _is_overdue(self, now: float) -> bool:
        """Tells whether an answer is overdue. Sets when to look again."""
        link = self._link
        if link.output:  # the question has not left yet: it waits for the flush of a state
            self._asked_at = max(self._asked_at, now)
        due = self._asked_at + self._ping_after + _SLOWER * self._took + link.unheard / _BYTES_PER_S
        if now < due:
            self._reading = False
            link.look_at = due
        elif not self._reading:
            self._reading = True
            link.look_at = now + READING_S
        else:
            return True
        return False

    def _answered(self, ping: InternalRequest) -> None:
        if self._link.heard_at is not None:
            self._took = max(self._link.heard_at - ping.sent_at, self._took / 2)

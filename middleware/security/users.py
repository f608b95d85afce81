"""Users of the service: what each may do, and how a middleware hears of changes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from enum import IntFlag
from functools import cache
from typing import NamedTuple
from weakref import WeakValueDictionary

import asyncpg

from telesto.db import calls
from telesto.middleware.common.periodic import Periodic

#: The channel on which the database tells which user has changed.
CHANNEL = "telesto_users"
#: How often users are read again in case a notification was lost, in seconds.
_READ_AGAIN_S = 10.0
#: The same after a failure, in seconds.
_RETRY_S = 0.5
#: The shortest pause between two times, so that many changes cost little.
_SPACING_S = 0.1
#: How many users one call reads again.
_USERS_MAX = 1_000
#: How many decisions a user keeps, for queues and topics by id and by name. Beyond that it forgets all.
_DECISIONS_MAX = 10_000

#: The names that clients choose for themselves when they are temporary.
_TEMPORARY = re.compile(r"temporary-.+-[0-9a-f]{16}", re.DOTALL)
_TOKEN = re.compile(r"\\([*?\\])|([*?])", re.DOTALL)

Read = Callable[..., Awaitable[list[asyncpg.Record]]]


class Right(IntFlag):
    """What a user may do with a queue or topic."""

    NONE = 0
    CONFIGURE = 1
    PUT = 2
    GET = 4
    ADMIN = 8
    #: It may know that it exists: with any of the others, and as a monitor.
    SEE = 16
    #: Of the name of a client: its clients may have it.
    CLIENTS = 32


#: The rights, and the columns of their patterns.
_COLUMNS = {Right.CONFIGURE: "configure", Right.PUT: "put", Right.GET: "get", Right.ADMIN: "admin"}


def compile_patterns(patterns: Sequence[str]) -> Callable[[str], object]:
    """Makes a function whose result is true for the names that match one of the patterns.

    It decides as ``telesto.name_matches`` does in SQL. Its time is at most proportional to the lengths of
    pattern and name: each part behind a ``*`` is looked for once, in an atomic group.
    """
    if not patterns:
        return lambda _name: None

    # When it is needed: whoever only tries to log in as a user must not find out by the time that it exists.
    @cache
    def compiled() -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{_expression(pattern)})" for pattern in patterns), re.DOTALL)

    return lambda name: compiled().fullmatch(name)


def _expression(pattern: str) -> str:
    parts = [""]
    position = 0
    for token in _TOKEN.finditer(pattern):
        parts[-1] += re.escape(pattern[position : token.start()])
        position = token.end()
        if token[2] == "*":
            parts.append("")
        else:
            parts[-1] += "." if token[2] else re.escape(token[1])
    parts[-1] += re.escape(pattern[position:])
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + ".*" + last


class UserQuotas(NamedTuple):
    """How much a user may use, at each middleware unless it says otherwise; None for no limit."""

    connections: int | None
    consumers: int | None
    waiting_reads: int | None
    #: Messages in a second.
    puts_per_s: int | None
    #: What its clients may have stored: for all middlewares, as it was measured last.
    stored_messages: int | None
    stored_bytes: int | None


#: Those of what is stored, and the columns of a row that tell how much that is.
_STORED = ("stored_messages", "stored_bytes")
#: The columns of a row that tell them.
_QUOTAS = tuple(f"max_{name}" for name in UserQuotas._fields)


class User:
    """A user, as the middleware knows it. Each user that is in use is one object, which changes.

    Attributes:
        user_id: identifies it for ever.
        name: its name.
        verifier: what its password is checked by, in PostgreSQL's format; None without a password.
        enabled: it may log in; false also once it is deleted.
        administrator: it may do everything.
        monitor: it sees everything.
        patterns: the texts of its patterns by right: configure, put, get, admin, clients.
        quotas: how much it may use.
        limited: it has a quota.
        without_space: the quota of what it stores that is used up, and how much is used; None for none.
        version: rises with each change.
        decisions: what it may do with queues by id, and with queues and topics by name, as far as known, as
            values of ``Right``. Changes of its rights empty it.
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_rights",
        "administrator",
        "decisions",
        "enabled",
        "limited",
        "monitor",
        "name",
        "patterns",
        "quotas",
        "user_id",
        "verifier",
        "version",
        "without_space",
    )

    def __init__(self, row: asyncpg.Record) -> None:
        self.user_id: int = row["user_id"]
        self.version = 0
        self.decisions: dict[int | str, int] = {}
        self.update(row)

    def update(self, row: asyncpg.Record) -> bool:
        """Takes what the database says of it now. Tells whether its rights or its state have changed."""
        patterns = {name: tuple(row[name]) for name in (*_COLUMNS.values(), "clients")}
        after = (row["enabled"], row["administrator"], row["monitor"], row["name"], patterns)
        changed = not self.version or after != (
            self.enabled,
            self.administrator,
            self.monitor,
            self.name,
            self.patterns,
        )
        self.verifier: str | None = row["verifier"]
        self.quotas = UserQuotas(*(row[column] for column in _QUOTAS))
        self.limited = any(quota is not None for quota in self.quotas)
        self.without_space: tuple[str, int] | None = None
        for stored in _STORED:
            limit, used = getattr(self.quotas, stored), row[stored]
            if limit is not None and used is not None and used >= limit:
                self.without_space = stored, used
        if not changed:
            return False
        self.name: str = row["name"]
        self.enabled: bool = row["enabled"]
        self.administrator: bool = row["administrator"]
        self.monitor: bool = row["monitor"]
        self.patterns: dict[str, tuple[str, ...]] = patterns
        self._rights = [(right, compile_patterns(patterns[column])) for right, column in _COLUMNS.items()]
        self._client = compile_patterns(patterns["clients"])
        self.version += 1
        self.decisions.clear()
        return True

    def delete(self) -> None:
        """It is gone: it may do nothing any more."""
        self.enabled = self.administrator = self.monitor = False
        self._rights = []
        self._client = compile_patterns(())
        self.patterns = dict.fromkeys(self.patterns, ())
        self.version += 1
        self.decisions.clear()

    def rights_on(self, name: str) -> Right:
        """What it may do with the queue or topic of a name."""
        if self.administrator:
            return Right.CONFIGURE | Right.PUT | Right.GET | Right.ADMIN | Right.SEE
        rights = Right.NONE
        for right, matches in self._rights:
            if matches(name):
                rights |= right
        return rights | Right.SEE if rights or self.monitor else rights

    def decide(self, key: int | str, name: str) -> int:
        """The same, and keeps the decision under a key: a queue's id, or the name itself."""
        decisions = self.decisions
        if len(decisions) >= _DECISIONS_MAX:
            decisions.clear()
        decisions[key] = rights = self.rights_on(name).value
        return rights

    @property
    def sees_all(self) -> bool:
        """Whether it sees everything."""
        return self.administrator or self.monitor

    def may_be_client(self, name: str, *, temporary: bool = False) -> bool:
        """Tells whether its clients may have a name.

        A temporary client may also have one that no other client is ever given: what it ends in is random.
        """
        if self.administrator or self._client(name) is not None:
            return True
        return temporary and _TEMPORARY.fullmatch(name) is not None


def visible_to(user: User | None) -> list[str] | None:
    """Returns the patterns of the queues and topics that a user sees; None for all."""
    if user is None or user.sees_all:
        return None
    return sorted({pattern for column in _COLUMNS.values() for pattern in user.patterns[column]})


def readable_by(user: User | None) -> list[str] | None:
    """Returns the patterns of the queues and topics that a user may read; None for all."""
    return None if user is None or user.administrator else list(user.patterns["get"])


class UserRegistry:
    """Finds users, and keeps those that are in use up to date.

    A user is in use while something refers to it: a connection, or a login under way. There is one object for
    each, so that a change is seen by all that refer to it.

    Attributes:
        required: who connects has to log in.
        secret: 32 bytes that all middlewares of the database share.
        queue_names: the names of queues by their ids, as far as they are known; they never change.
        work: the background task that reads all users in use again, soon when poked: one has changed, or
            notifications may have been lost.
    """

    def __init__(
        self,
        read: Read,
        *,
        always_required: bool,
        on_changed: Callable[[User], None],
        on_required: Callable[[], None],
    ) -> None:
        """Reads nothing yet.

        Args:
            read: calls a procedure, one call at a time. Raises what DatabaseConnection.read raises.
            always_required: who connects has to log in even if there are no users.
            on_changed: called with each user in use whose rights have changed, or that is disabled or
                deleted, which its ``enabled`` tells.
            on_required: called when there are users for the first time.
        """
        self._read = read
        self._always = always_required
        self._on_changed = on_changed
        self._on_required = on_required
        self.required = always_required
        self.secret = b""
        self.queue_names: dict[int, str] = {}
        self._kept: WeakValueDictionary[int, User] = WeakValueDictionary()
        self.work = Periodic("users", self.read_again, period_s=_READ_AGAIN_S, spacing_s=_SPACING_S)

    async def find(self, name: str) -> User | None:
        """Reads a user by name, whether it is enabled or not. Raises what ``read`` raises."""
        rows = await self._read(*calls.find_users(names=[name], user_ids=[]))
        return self._take(rows[0]) if rows else None

    def forget_ids(self) -> None:
        """Forgets what ids stand for: another database may be there, such as one restored from a backup."""
        self.queue_names.clear()
        for user in self._kept.values():
            user.decisions.clear()

    async def read_again(self) -> None:
        """Reads whether a login is required, and all users in use. Raises what ``read`` raises."""
        self.work.period_s = _RETRY_S
        row = (await self._read(*calls.get_login_state()))[0]
        self.secret = row["secret"]
        before, self.required = self.required, self._always or row["has_users"]
        if self.required and not before:
            self._on_required()
        kept = list(self._kept.values())
        for first in range(0, len(kept), _USERS_MAX):
            await self._read_some(kept[first : first + _USERS_MAX])
        self.work.period_s = _READ_AGAIN_S

    async def _read_some(self, users: list[User]) -> None:
        rows = await self._read(*calls.find_users(names=[], user_ids=[user.user_id for user in users]))
        found = {self._take(row).user_id for row in rows}
        for user in users:
            if user.user_id not in found and user.enabled:
                user.delete()
                self._on_changed(user)

    def _take(self, row: asyncpg.Record) -> User:
        user = self._kept.get(row["user_id"])
        if user is None:
            user = self._kept[row["user_id"]] = User(row)
        elif user.update(row):
            self._on_changed(user)
        return user

"""What a run has its clients do: who they are, how everything is taken at the end, and what is checked."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from telesto.client import AsyncTelestoClient, ClientOptions

from .checkers.calls import Bounds
from .checkers.checker import Verdict
from .clients.history import Event
from .service.processes import Database
from .waiting import until

CLIENT_OPTIONS: dict[str, Any] = {
    "call_timeout": 25.0,
    "greeting_timeout": 25.0,
    "try_timeout": 1.5,
    "connect_timeout": 1.0,
    "close_timeout": 10.0,
    "backoff_max": 0.5,
    "recovered_hold": 3.0,
    "keep_alive": 3.0,
    "max_tries": 50,
}


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens.

    Attributes:
        middlewares: how many.
        clients: styles of the clients by their role; the roles end in this order.
        rounds: how often each kind of fault strikes.
        at_once: how many faults may be at work at a time.
        keys: how many keys of partitions there are.
    """

    middlewares: int
    clients: Mapping[str, tuple[str, ...]]
    rounds: int
    at_once: int
    keys: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """What one client has to do.

    Attributes:
        role: the module that does it.
        name: the client's.
        style: which of the ways to do it.
        values: of its task, beyond what all have.
        durable: it keeps a state.
    """

    role: str
    name: str
    style: str
    values: dict[str, Any] = field(default_factory=dict)
    durable: bool = False


#: Ends the style of a client that keeps a state.
_DURABLE = "+state"


def part_of(role: str, name: str, style: str, values: dict[str, Any]) -> Part:
    """Returns what a client has to do, whose style says too whether it keeps a state."""
    return Part(role, name, style.removesuffix(_DURABLE), values, style.endswith(_DURABLE))


class Workload(ABC):
    """The clients' work in one run.

    Attributes:
        sizes: by name.
        meaningless: the kinds of faults that strike nothing here.
    """

    sizes: ClassVar[Mapping[str, Size]]
    meaningless: ClassVar[Set[str]] = frozenset()

    def __init__(self, size: Size, histories: Path) -> None:
        self._size = size
        self._histories = histories

    def names(self, role: str) -> dict[str, str]:
        """Names the clients of a role; returns their styles."""
        return {f"{role}-{number}": style for number, style in enumerate(self._size.clients[role], 1)}

    @abstractmethod
    async def prepare(self, url: str) -> list[Part]:
        """Makes what the clients need; returns what each has to do."""

    @abstractmethod
    def may_be_killed(self, part: Part) -> bool:
        """Says whether a client's history tells, after a kill, what it had."""

    @abstractmethod
    async def drain(self, url: str) -> None:
        """Takes what is left, once the clients have ended and no fault is at work."""

    @abstractmethod
    async def leftovers(self, database: Database) -> list[str]:
        """Says what is left in the database and should not be."""

    @abstractmethod
    def check(self, events: Iterable[Event], bounds: Bounds) -> Verdict:
        """Reads the histories."""


async def register(url: str, name: str) -> int:
    """Registers a client; returns its id."""
    async with AsyncTelestoClient(url, options=ClientOptions(**CLIENT_OPTIONS), name=name) as client:
        await client.connect()
        assert client.client_id is not None
        return client.client_id


async def rows_left_at_last(database: Database, tables: Iterable[str]) -> list[str]:
    """Says which of these tables do not become empty, although middlewares clear up now and then."""
    tables = list(tables)

    async def empty() -> bool:
        return not await rows_left(database, tables)

    with suppress(TimeoutError):
        await until(empty)
    return await rows_left(database, tables)


async def rows_left(database: Database, tables: Iterable[str]) -> list[str]:
    """Says which of these tables are not empty."""
    left = []
    for table in tables:
        rows = await database.execute(f"SELECT count(*) FROM telesto.{table}")
        if rows[0][0]:
            left.append(f"{rows[0][0]} rows are left in {table}")
    return left

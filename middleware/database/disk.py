"""Refuses puts while the database's disk is nearly full, so that messages can still be taken out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from telesto.middleware.common.failures import Failure, LostError, RefusedError, UnavailableError, disk_full
from telesto.middleware.common.logs import logger
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.single_request import Call

#: The reserve is at most a tenth of the disk, or on a small disk this many bytes. Reads need it: they write.
PART_OF_DISK = 10
_SMALL_RESERVE_BYTES = 128 << 20
#: Puts are taken again when the free space exceeds the reserve by an eighth of it.
_MARGIN = 8
#: How often the disk is checked, in seconds; and how often when less than _CLOSE_BYTES are free.
PERIOD_S = 1.0
_CLOSE_PERIOD_S = 0.1
_CLOSE_BYTES = 512 << 20
#: The longest time that reads wait for space, in seconds.
_PACE_S = 5.0
#: After an error of the database that its disk is full, puts are tried again after this time, in seconds.
RETRY_S = 5.0
#: Where nothing can be measured, a disk that stays full is logged once in this time, in seconds.
_WARN_S = 60.0
#: When at most 7 of 8 rows are left, there is space inside the tables.
_DRAINED = (7, 8)

MAX_WAL = "SELECT setting::bigint * 1024 * 1024 FROM pg_settings WHERE name = 'max_wal_size'"
SIZE = "SELECT pg_database_size(current_database())"
#: The tables that hold bodies.
_STORES = (
    "messages",
    "keyed_messages",
    "delayed_messages",
    "topic_messages",
    "deliveries",
    "leases",
    "dead_letters",
    "staged_messages",
)
#: Their rows, and the pieces in which PostgreSQL keeps long bodies. Dead rows count until they have been
#: vacuumed: before that their space cannot be used again. A PostgreSQL that crashed has lost its statistics,
#: and counts no rows of a table until that is vacuumed: then the answer is NULL.
ROWS = """
SELECT CASE WHEN sum(counts.n_live_tup + counts.n_dead_tup) > 0
                 OR bool_and(coalesce(counts.last_vacuum, counts.last_autovacuum) IS NOT NULL)
            THEN sum(counts.n_live_tup + counts.n_dead_tup) END::bigint
FROM pg_class AS stored
JOIN pg_stat_all_tables AS counts ON counts.relid IN (stored.oid, stored.reltoastrelid)
WHERE stored.relnamespace = 'telesto'::regnamespace AND stored.relname = ANY ($1)
"""
#: Whether this user may vacuum and checkpoint. Without the right they cause a warning or an error.
RIGHTS = """
SELECT pg_has_role(relowner, 'USAGE'), pg_has_role('pg_checkpoint', 'USAGE')
FROM pg_class WHERE oid = 'telesto.messages'::regclass
"""
VACUUM = f"VACUUM (SKIP_LOCKED) {', '.join(f'telesto.{name}' for name in _STORES)}"
CHECKPOINT = "CHECKPOINT"

_log = logger("disk")


class Disk:
    """Decides whether puts are taken.

    They are refused when less than the reserve is free, because reads, acknowledgements and purges write to
    their tables and to the log, too. The space of deleted rows is used again, but the files of the tables do
    not always shrink. So puts are taken again when there is space on the disk, or when an eighth of the
    stored rows is deleted and vacuumed. In the second case they are taken as long as the free space does not
    shrink further.

    Where the disk cannot be measured, the size of the database is limited if the setting says so. In any case
    puts are refused for some seconds after the database reported that its disk is full.

    Attributes:
        work: what runs in the background.
        is_full: puts are refused.
        free: how many more bytes may be stored; negative while the reserve is used; None if unknown.
    """

    def __init__(
        self, call: Call, counters: Counters, settings: ServerSettings, clock: Callable[[], float]
    ) -> None:
        self._call = call
        self._counters = counters
        self._clock = clock
        self._directory = settings.disk_directory
        self._reserve = settings.disk_reserve_bytes
        self._max_bytes = settings.max_database_bytes
        self._left = self._reserve if self._max_bytes is None else self._reserve_of(self._max_bytes)
        self._refusal = disk_full(settings.disk_retry_ms)
        self.is_full = False
        self._short = False
        self._is_waited_for = False
        self._space_made = asyncio.Event()
        self._vacuum_at = 0.0
        self._warned_at = -_WARN_S
        self._rows: int | None = None
        self._floor = 0
        self._try_at = 0.0
        self._max_wal: int | None = None
        self._remedies: list[str] | None = None
        self.free: int | None = None
        measured = self._directory is not None or self._max_bytes is not None
        self.work = Periodic("disk", self.look, period_s=PERIOD_S if measured else None)
        if measured:
            self.work.poke()

    def refusal(self, requests: int) -> Failure:
        """Counts puts that are refused. Returns their failure."""
        for _ in range(requests):
            self._counters.refused(self._refusal.code)
        return self._refusal

    def refused_by_database(self) -> None:
        """The database had no space for a call, so puts are refused for a while."""
        self._try_at = self._clock() + RETRY_S
        self._rows = None
        self.work.period_s = PERIOD_S
        if not self.is_full:
            self._refuse()
            self.work.poke()

    async def pace(self) -> None:
        """Delays a call that moves messages while space has to be freed first."""
        if self.is_full and self._short:
            self._space_made.clear()
            self._is_waited_for = True
            self.work.poke()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PACE_S):
                    await self._space_made.wait()

    async def look(self) -> None:
        """Measures the free space and decides whether puts are taken."""
        self.free = await self._measure()
        self._short = self.free is not None and self.free < -self._left // 4
        close = self.is_full or (self.free is not None and self.free < _CLOSE_BYTES)
        if self.work.period_s is not None:
            self.work.period_s = _CLOSE_PERIOD_S if close else PERIOD_S
        if self.is_full:
            if self.free is not None:
                if self._rows is None:
                    self._rows = await self._count()
                if self._is_waited_for or self._clock() >= self._vacuum_at:
                    await self._free_space()
            await self._reconsider()
        elif self.free is not None and self.free < self._floor:
            self._refuse()
            self._rows = await self._count()
        elif self.free is not None and self.free >= self._left // _MARGIN:
            self._floor = 0

    def _refuse(self) -> None:
        self.is_full = True
        if self.free is None and self._clock() < self._warned_at + _WARN_S:
            return
        self._warned_at = self._clock()
        _log.warning("disk_full", free=self.free, reserve=self._left, puts="refused")

    async def _reconsider(self) -> None:
        """Takes puts again if there is space."""
        if self._clock() < self._try_at:
            return
        if self.free is None:
            self._take("some time has passed", 0)
        elif self.free >= self._left // _MARGIN:
            self._take("there is space", 0)
        elif self.free > -self._left * 3 // 4 and await self._is_drained():
            self._take("there is space in the tables", min(0, self.free - self._left // (2 * _MARGIN)))

    def _take(self, why: str, floor: int) -> None:
        self._floor = floor
        self.is_full = False
        if self._directory is None and self._max_bytes is None:
            self.work.period_s = None
            _log.debug("disk_tried", why=why)
        else:
            _log.info("disk_has_space", why=why, free=self.free, puts="taken")

    async def _is_drained(self) -> bool:
        rows = await self._count()
        if rows is None:
            return False
        # PostgreSQL counts what was stored up to some seconds late.
        self._rows = max(self._rows or 0, rows)
        part, whole = _DRAINED
        return rows * whole <= self._rows * part

    # --- measuring ---------------------------------------------------------------------------

    async def _measure(self) -> int | None:
        found_free = []
        if self._directory is not None:
            with suppress(OSError):
                found_free.append(await self._free_on_disk(self._directory))
        if self._max_bytes is not None and (size := await self._ask(SIZE)) is not None:
            found_free.append(self._max_bytes - size - self._reserve_of(self._max_bytes))
        return min(found_free, default=None)

    async def _free_on_disk(self, directory: Path) -> int:
        if self._max_wal is None:
            self._max_wal = await self._ask(MAX_WAL)
        found = await asyncio.to_thread(os.statvfs, directory)
        wal = await asyncio.to_thread(_size_of_wal, directory)
        self._left = self._reserve_of(found.f_blocks * found.f_frsize)
        log_to_come = 0 if wal is None else max(0, (self._max_wal or 0) - wal)
        return found.f_bavail * found.f_frsize - self._left - log_to_come

    def _reserve_of(self, size: int) -> int:
        return min(self._reserve, max(size // PART_OF_DISK, _SMALL_RESERVE_BYTES))

    async def _count(self) -> int | None:
        return await self._ask(ROWS, list(_STORES))

    async def _free_space(self) -> None:
        """Vacuums and checkpoints, as far as this user may.

        A read writes a message once more, and autovacuum and checkpoints are too slow for that.
        """
        begun = self._clock()
        try:
            if self._remedies is None:
                rows = await self._call(RIGHTS)
                self._remedies = [sql for sql, may in zip((VACUUM, CHECKPOINT), rows[0], strict=True) if may]
            for sql in self._remedies:
                await self._call(sql)
        except (UnavailableError, LostError):
            # PostgreSQL may have met the full disk and begun anew. Nothing is freed yet: reads go on waiting,
            # because what they write would take the last of the space.
            return
        except RefusedError:
            pass
        now = self._clock()
        self._vacuum_at = now + max(PERIOD_S, 2 * (now - begun))
        self._is_waited_for = False
        self._space_made.set()

    async def _ask(self, sql: str, *arguments: object) -> int | None:
        """Returns one number from the database; None if it does not answer."""
        try:
            rows = await self._call(sql, *arguments)
        except (UnavailableError, LostError, RefusedError):
            return None
        return None if not rows else rows[0][0]


def _size_of_wal(directory: Path) -> int | None:
    """Returns the size of the write-ahead log's files; None where they cannot be read."""
    try:
        with os.scandir(directory / "pg_wal") as entries:
            return sum(entry.stat().st_size for entry in entries if entry.is_file())
    except OSError:
        return None

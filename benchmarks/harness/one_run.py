"""One run: prepare, load, sample, audit."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.harness.preparation import Prepared, prepare, sending, share_out
from telesto.benchmarks.harness.sampling import Sampler
from telesto.benchmarks.harness.settings import RunSettings, middleware_settings
from telesto.benchmarks.load.ceiling import CeilingPlan
from telesto.benchmarks.load.plan import Participant, WorkloadPlan
from telesto.benchmarks.load.recorder import Records, read_records
from telesto.benchmarks.load.worker import HEAD_START_S, Plan, Result, Worker
from telesto.benchmarks.results.analysis import Figures, Window, analyse
from telesto.benchmarks.results.audit import (
    NO_IDENTITIES,
    NOTHING,
    Balance,
    Doubts,
    balance_of_queues,
    balance_of_topic,
    published_in,
)
from telesto.benchmarks.results.stored import stored_for_subscription, stored_in_queues
from telesto.benchmarks.results.tables import Row, Tables
from telesto.benchmarks.tiers.service import (
    Middlewares,
    connected,
    describe_database,
    old_snapshot,
    running_middlewares,
)
from telesto.benchmarks.tiers.usage import raise_open_files

GENERATOR_MODULE: Final = "telesto.benchmarks.load.generator"
CEILING_MODULE: Final = "telesto.benchmarks.load.ceiling"
STATES: Final = "states"
"""The folder of the clients' durable states, in a run's directory while it goes on."""
SPARE_FILES: Final = 256
"""Open files that a process needs besides its connections."""
TAKE_TIMEOUT_S: Final = 5.0

OnSecond = Callable[[float], None]


@dataclass(slots=True)
class Outcome:
    """What a run gave.

    Attributes:
        began_at: the beginning, by this machine's clock.
        settings: of the database server, as it told them.
        figures: of the window.
        tiers: the rows of the table of tiers.
        tables: the state of Telesto's tables before and after.
        balance: the audit.
        errors: failed requests, by operation and error.
        late: requests of an open loop that found no free slot at their moments.
        unsent: those whose moments came and that were not sent before the end.
        redelivered: messages that came marked so.
    """

    began_at: datetime
    settings: dict[str, str]
    figures: Figures
    tiers: Sequence[Row]
    tables: dict[str, list[dict[str, Any]]]
    balance: Balance
    errors: dict[str, int] = field(default_factory=dict)
    late: int = 0
    unsent: int = 0
    redelivered: int = 0


async def measure_run(run: Run, database_url: str, directory: Path, on_second: OnSecond) -> Outcome:
    """Carry out a run on an empty database with Telesto's schema; its tables go to `directory`."""
    with Tables(directory) as tables:
        return await _measure_run(run, database_url, directory, tables, on_second)


async def _measure_run(
    run: Run, database_url: str, directory: Path, tables: Tables, on_second: OnSecond
) -> Outcome:
    settings = run.settings
    environment = middleware_settings(settings)
    raise_limits(settings)
    async with running_middlewares(database_url, directory, settings.middlewares, environment) as middlewares:
        prepared = await prepare(settings, middlewares.urls)
        load = _Load(run, database_url, directory, middlewares, prepared, tables)
        with_snapshot = old_snapshot(database_url) if settings.old_snapshot else nullcontext()
        async with with_snapshot:
            await load.load(on_second)
    # The middlewares have ended, so that nothing moves any more.
    return await load.conclude()


class OpenFilesError(Exception):
    """The system does not let a process have as many connections as a run needs."""


def raise_limits(settings: RunSettings) -> None:
    """Let this process, and so what it starts, have enough open files; raises OpenFilesError."""
    limit = raise_open_files(settings.clients + SPARE_FILES)
    if limit < settings.clients + SPARE_FILES:
        raise OpenFilesError(
            f"{settings.clients:,} clients need more than {limit:,} open files: raise the limit (ulimit -n)"
        )


class _Load:
    """A run on its way."""

    def __init__(
        self,
        run: Run,
        database_url: str,
        directory: Path,
        middlewares: Middlewares,
        prepared: Prepared,
        tables: Tables,
    ) -> None:
        self._run = run
        self._database_url = database_url
        self._directory = directory
        self._middlewares = middlewares
        self._prepared = prepared
        self._begin = 0.0
        self._began_at = datetime.now(UTC)
        self._server_settings: dict[str, str] = {}
        self._results: list[Result] = []
        self._written = tables
        self._tiers: Sequence[Row] = ()
        self._tables: dict[str, list[dict[str, Any]]] = {}

    async def load(self, on_second: OnSecond) -> None:
        """Start the generators, sample the tiers while they work, and take their results."""
        settings = self._run.settings
        database = await describe_database(self._database_url)
        self._server_settings = dict(database.settings)
        await self._checkpoint()
        workers = [await Worker.spawn(module, plan) for module, plan in self._plans()]
        try:
            await asyncio.gather(*(worker.ready() for worker in workers))
            pids = [worker.pid for worker in workers]
            sampler = Sampler(
                database, self._middlewares, pids, self._written, settings.wait_samples_per_s, on_second
            )
            self._tables["before"] = await sampler.state_of_tables()
            self._begin = time.monotonic() + HEAD_START_S
            self._began_at = datetime.fromtimestamp(time.time() + HEAD_START_S, UTC)
            for worker in workers:
                await worker.begin(self._begin)
            await self._sample(sampler, workers, settings)
            self._tables["after"] = await sampler.state_of_tables()
        finally:
            for worker in workers:
                await worker.stop()

    async def _sample(self, sampler: Sampler, workers: Sequence[Worker], settings: RunSettings) -> None:
        """Sampler until the load is over, which may be before its time: a backlog ends when it is drained."""
        sampling = asyncio.create_task(sampler.run(self._begin, self._begin + settings.total_s))
        working = asyncio.create_task(_results(workers, settings.total_s))
        try:
            done, _ = await asyncio.wait([sampling, working], return_when=asyncio.FIRST_COMPLETED)
            if sampling in done:
                sampling.result()
            self._results = await working
        finally:
            for task in (sampling, working):
                task.cancel()
            await asyncio.gather(sampling, working, return_exceptions=True)
        await sampler.sample_once_more(self._begin)
        self._tiers = sampler.tiers

    async def conclude(self) -> Outcome:
        """Work on the records and audit."""
        settings = self._run.settings
        paths = [Path(result["records"]) for result in self._results]
        records = [read_records(path) for path in paths]
        window = self._window(records)
        figures = await asyncio.to_thread(
            analyse, records, self._begin, window, settings.sample_every, self._written
        )
        balance = await self._balance(records)
        errors: dict[str, int] = {}
        for result in self._results:
            for name, count in result["errors"].items():
                errors[name] = errors.get(name, 0) + count
        for path in paths:
            path.unlink()
        shutil.rmtree(self._directory / STATES, ignore_errors=True)
        return Outcome(
            began_at=self._began_at,
            settings=self._server_settings,
            figures=figures,
            tiers=self._tiers,
            tables=self._tables,
            balance=balance,
            errors=errors,
            late=self._sum("late"),
            unsent=self._sum("unsent"),
            redelivered=self._sum("redelivered"),
        )

    def _window(self, records: Sequence[Records]) -> Window:
        """Return what counts: for a drain all of it, until the last message came."""
        if self._run.settings.workload != "drain":
            return self._run.settings.window
        last = max((float(part["ended"].max()) for part in records if len(part)), default=self._begin)
        return Window(0.0, max(last - self._begin, math.ulp(1.0)))

    async def _balance(self, records: Sequence[Records]) -> Balance:
        prepared = self._prepared
        doubts = Doubts(self._all("doubtful"), self._all("doubtful_takes"))
        async with connected(self._database_url) as connection:
            if not prepared.subscriptions:
                stored = await stored_in_queues(connection, prepared.queue_ids)
                backlog = np.concatenate([NO_IDENTITIES, *prepared.backlogs.values()])
                keys = self._run.settings.keys
                return await asyncio.to_thread(balance_of_queues, records, backlog, stored, doubts, keys)
            total = NOTHING
            for number, subscription_id in prepared.subscriptions.items():
                left = await stored_for_subscription(connection, subscription_id)
                destination = prepared.participants[number].destination
                published = np.concatenate(
                    [published_in(records, self._slots_at(destination)), prepared.backlogs[destination]]
                )
                total += balance_of_topic(
                    records, number * self._run.settings.in_flight, published, left, doubts.puts
                )
            return total

    def _slots_at(self, destination: int | str) -> list[int]:
        """Return the slots of the clients that put to a topic."""
        slots = self._run.settings.in_flight
        return [
            each.number * slots + index
            for each in self._prepared.participants
            if each.destination == destination and each.role == "publisher"
            for index in range(slots)
        ]

    def _plans(self) -> list[tuple[str, Plan]]:
        """Return the module and the plan of each process that generates load."""
        participants, settings = self._prepared.participants, self._run.settings
        if settings.bare_batch is not None:
            return [(CEILING_MODULE, asdict(self._ceiling_plan(settings.bare_batch)))]
        if settings.state:
            (self._directory / STATES).mkdir()
        # The rate of an open loop is shared by those who send.
        senders = max(1, sending(participants))
        return [
            (GENERATOR_MODULE, asdict(self._plan(share, index, sending(share) / senders)))
            for index, share in enumerate(share_out(participants, settings.processes))
        ]

    def _ceiling_plan(self, batch: int) -> CeilingPlan:
        settings = self._run.settings
        return CeilingPlan(
            database_url=self._database_url,
            queue_ids=self._prepared.queue_ids,
            with_takes=settings.workload == "put-read",
            clients=settings.clients,
            batch=batch,
            seconds=settings.total_s,
            records=str(self._directory / "0.records"),
            body_bytes=settings.message_bytes,
        )

    def _plan(self, participants: Sequence[Participant], index: int, share: float) -> WorkloadPlan:
        settings = self._run.settings
        return WorkloadPlan(
            urls=tuple(self._middlewares.urls),
            participants=tuple(participants),
            seconds=settings.total_s,
            records=str(self._directory / f"{index}.records"),
            seed=self._run.seed + index,
            slots=settings.in_flight,
            body_bytes=settings.message_bytes,
            priorities=settings.priority_spread,
            delivery=settings.delivery,
            blocking=settings.client == "blocking",
            states=str(self._directory / STATES) if settings.state else None,
            think_s=settings.think_ms / 1000,
            think_spread=settings.think_spread,
            rate=settings.rate * share if settings.rate is not None and share else None,
            arrivals=settings.arrivals,
            read_batch=settings.read_batch,
            fetch_batch=settings.fetch_batch,
            credit=settings.credit,
            keys=settings.keys,
            take_timeout_s=TAKE_TIMEOUT_S,
            exhaustible=settings.workload == "drain",
        )

    async def _checkpoint(self) -> None:
        """Have what the preparation wrote behind us."""
        async with connected(self._database_url) as connection:
            await connection.execute("CHECKPOINT")

    def _sum(self, name: str) -> int:
        return sum(result[name] for result in self._results)

    def _all(self, name: str) -> list[int]:
        return [identity for result in self._results for identity in result[name]]


async def _results(workers: Sequence[Worker], seconds: float) -> list[Result]:
    """Return what the generators give when their load of `seconds` is over."""
    return list(await asyncio.gather(*(worker.result(seconds) for worker in workers)))

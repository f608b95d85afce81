"""One run: prepare, load, sample, audit."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.harness.preparation import Prepared, prepare, sending, share_out
from telesto.benchmarks.harness.sampling import Sampler
from telesto.benchmarks.load.ceiling import CeilingPlan
from telesto.benchmarks.load.plan import Participant, WorkloadPlan
from telesto.benchmarks.load.recorder import Records, read_records
from telesto.benchmarks.load.settings import RunSettings, Window, middleware_settings
from telesto.benchmarks.load.worker import HEAD_START_S, Plan, Result, Worker
from telesto.benchmarks.results.analysis import analyse
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
from telesto.benchmarks.tiers.connection import connected
from telesto.benchmarks.tiers.service import describe_database, old_snapshot, running_middlewares
from telesto.benchmarks.tiers.usage import raise_open_files

GENERATOR_MODULE: Final = "telesto.benchmarks.load.generator"
CEILING_MODULE: Final = "telesto.benchmarks.load.ceiling"
STATES: Final = "states"
"""The folder of the clients' durable states, in a run's directory while the run lasts."""
SPARE_FILES: Final = 256
"""Open files that a process needs besides its connections."""

OnSecond = Callable[[float], None]


async def measure_run(run: Run, database_url: str, directory: Path, on_second: OnSecond) -> dict[str, Any]:
    """Measure a run on an empty database with Telesto's schema, and write its tables into `directory`.

    Returns the measured part of `run.json`.
    """
    settings = run.settings
    raise_limits(settings)
    environment = middleware_settings(settings)
    state: dict[str, list[dict[str, Any]]] = {}
    with Tables(directory) as tables:
        async with running_middlewares(
            database_url, directory, settings.middlewares, environment
        ) as middlewares:
            prepared = await prepare(settings, middlewares.urls)
            async with old_snapshot(database_url) if settings.old_snapshot else nullcontext():
                database = await describe_database(database_url)
                # What the preparation wrote is flushed now, and not during the load.
                async with connected(database_url) as connection:
                    await connection.execute("CHECKPOINT")
                plans = _plans(run, database_url, directory, middlewares.urls, prepared)
                workers = [await Worker.spawn(module, plan) for module, plan in plans]
                try:
                    await asyncio.gather(*(worker.ready() for worker in workers))
                    pids = [worker.pid for worker in workers]
                    sampler = Sampler(
                        database, middlewares, pids, tables, settings.wait_samples_per_s, on_second
                    )
                    state["before"] = await sampler.state_of_tables()
                    begin = time.monotonic() + HEAD_START_S
                    began_at = datetime.fromtimestamp(time.time() + HEAD_START_S, UTC)
                    for worker in workers:
                        await worker.begin(begin)
                    results = await _sample(sampler, workers, begin, settings.total_s)
                    state["after"] = await sampler.state_of_tables()
                finally:
                    for worker in workers:
                        await worker.stop()
        # The middlewares have stopped, so the database no longer changes.
        paths = [Path(result["records"]) for result in results]
        records = [read_records(path) for path in paths]
        window = _window(settings, records, begin)
        figures = await asyncio.to_thread(analyse, records, begin, window, settings.sample_every, tables)
        balance = await _balance(settings, database_url, prepared, records, results)
    for path in paths:
        path.unlink()
    shutil.rmtree(directory / STATES, ignore_errors=True)
    return {
        "began_at": began_at.isoformat(),
        "server": dict(database.settings),
        "figures": asdict(figures),
        "tiers": tier_figures(sampler.tiers, settings.window),
        "balance": balance.as_plain(),
        "errors": dict(sum((Counter(result["errors"]) for result in results), Counter[str]())),
        **{name: sum(result[name] for result in results) for name in ("late", "unsent", "redelivered")},
        "tables": state,
    }


class OpenFilesError(Exception):
    """The system does not let a process have as many connections as a run needs."""


def raise_limits(settings: RunSettings) -> None:
    """Raise the limit of open files for this process and its children; raises OpenFilesError."""
    limit = raise_open_files(settings.clients + SPARE_FILES)
    if limit < settings.clients + SPARE_FILES:
        raise OpenFilesError(
            f"{settings.clients:,} clients need more than {limit:,} open files: raise the limit (ulimit -n)"
        )


async def _sample(
    sampler: Sampler, workers: Sequence[Worker], begin: float, seconds: float
) -> Sequence[Result]:
    """Sample until the load ends, which may be early: a drain ends when the backlog is empty."""
    sampling = asyncio.create_task(sampler.run(begin, begin + seconds))
    working: asyncio.Future[list[Result]] = asyncio.gather(*(worker.result(seconds) for worker in workers))
    both: list[asyncio.Future[Any]] = [sampling, working]
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if sampling in done:
            sampling.result()
        results = await working
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    await sampler.sample_once_more(begin)
    return results


def _window(settings: RunSettings, records: Sequence[Records], begin: float) -> Window:
    """Return the measured part of the load: of a drain everything, up to its last message."""
    if settings.workload != "drain":
        return settings.window
    last = max((float(part["ended"].max()) for part in records if len(part)), default=begin)
    return Window(0.0, max(last - begin, math.ulp(1.0)))


async def _balance(
    settings: RunSettings,
    database_url: str,
    prepared: Prepared,
    records: Sequence[Records],
    results: Sequence[Result],
) -> Balance:
    doubts = Doubts(
        *(
            [identity for result in results for identity in result[name]]
            for name in ("doubtful", "doubtful_takes")
        )
    )
    async with connected(database_url) as connection:
        if not prepared.subscriptions:
            stored = await stored_in_queues(connection, prepared.queue_ids)
            backlog = np.concatenate([NO_IDENTITIES, *prepared.backlogs.values()])
            return await asyncio.to_thread(balance_of_queues, records, backlog, stored, doubts, settings.keys)
        total = NOTHING
        for number, subscription_id in prepared.subscriptions.items():
            left = await stored_for_subscription(connection, subscription_id)
            destination = prepared.participants[number].destination
            publishing = [
                each.number * settings.in_flight + index
                for each in prepared.participants
                if each.destination == destination and each.role == "publisher"
                for index in range(settings.in_flight)
            ]
            published = np.concatenate([published_in(records, publishing), prepared.backlogs[destination]])
            total += balance_of_topic(records, number * settings.in_flight, published, left, doubts.puts)
        return total


def _plans(
    run: Run, database_url: str, directory: Path, urls: Sequence[str], prepared: Prepared
) -> list[tuple[str, Plan]]:
    """Return the module and the plan of each process that generates load."""
    participants, settings = prepared.participants, run.settings
    if settings.bare_batch is not None:
        plan = CeilingPlan(
            database_url=database_url,
            queue_ids=prepared.queue_ids,
            with_takes=settings.workload == "put-read",
            clients=settings.clients,
            batch=settings.bare_batch,
            seconds=settings.total_s,
            records=str(directory / "0.records"),
            body_bytes=settings.message_bytes,
        )
        return [(CEILING_MODULE, asdict(plan))]
    states = str(directory / STATES) if settings.state else None
    if states is not None:
        (directory / STATES).mkdir()
    senders = max(1, sending(participants))

    def plan_of(index: int, share: Sequence[Participant]) -> WorkloadPlan:
        # The senders share the rate of an open loop.
        rate = settings.rate * sending(share) / senders if settings.rate is not None else 0.0
        records = str(directory / f"{index}.records")
        return WorkloadPlan(
            tuple(urls), tuple(share), settings, records, run.seed + index, rate or None, states
        )

    shares = share_out(participants, settings.processes)
    return [(GENERATOR_MODULE, plan_of(index, share).as_plain()) for index, share in enumerate(shares)]


def tier_figures(rows: Sequence[Row], window: Window) -> dict[str, dict[str, float]]:
    """Return how many processors each tier used within the window, and its peak memory in bytes."""
    # CPU seconds and memory of all processes of a tier, by the moment.
    samples: dict[str, dict[float, tuple[float, float]]] = {}
    for row in rows:
        since, tier, _, cpu_s, memory_bytes = cast(tuple[float, str, int, float, int], row)
        cpu_before, memory_before = samples.setdefault(tier, {}).get(since, (0.0, 0.0))
        samples[tier][since] = cpu_before + cpu_s, memory_before + memory_bytes
    figures = {}
    for tier, of_tier in samples.items():
        inside = {since: sample for since, sample in of_tier.items() if window.begin <= since <= window.end}
        counted = inside if len(inside) > 1 else of_tier
        first, last = min(counted), max(counted)
        used = (counted[last][0] - counted[first][0]) / (last - first) if last > first else 0.0
        figures[tier] = {"processors": used, "memory_bytes": max(memory for _, memory in counted.values())}
    return figures

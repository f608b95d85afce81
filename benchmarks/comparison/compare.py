"""Runs the comparison: starts the servers, then runs each kind of work on all peers in turn, repeatedly."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final, Literal

import numpy as np

from telesto.benchmarks.comparison.catalog import CATALOG, Entry, Servers
from telesto.benchmarks.comparison.load import PeerPlan, identity_of
from telesto.benchmarks.load.recorder import Operation, Records, read_records
from telesto.benchmarks.load.settings import Window
from telesto.benchmarks.load.worker import HEAD_START_S, Result, Worker
from telesto.benchmarks.peers.interface import Peer, PeerUnavailableError, Server
from telesto.benchmarks.results.audit import Balance, Doubts, Stored, as_identities, audit
from telesto.benchmarks.tiers.usage import cpu_seconds, family_cpu_seconds

Work = Literal["put", "end-to-end", "latency"]
WORKS: Final[tuple[Work, ...]] = ("put", "end-to-end", "latency")
REFERENCE: Final = "telesto"
LOAD: Final = "telesto.benchmarks.comparison.load"
STREAMS_PER_PROCESS: Final = 1 << 16
TAIL_S: Final = 0.3
"""The load continues briefly after the measured part: the CPU seconds of a process that is just ending can be
missed, because it is gone and its parent does not count them yet."""
SETTLE_S: Final = 1.0
"""The pause after a run, in which a server finishes its work."""


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of load, and its duration.

    Attributes:
        rate: puts a second of the open loop.
        processes: that generate load; connections and consumers are spread over them evenly.
    """

    seconds: float = 5.0
    warm_up_s: float = 1.0
    repetitions: int = 5
    connections: int = 8
    in_flight: int = 64
    consumers: int = 8
    processes: int = 2
    rate: float = 2_000.0
    body_bytes: int = 200

    @property
    def load_s(self) -> float:
        """How long the load of a run lasts."""
        return self.warm_up_s + self.seconds + TAIL_S


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run.

    Attributes:
        per_second: messages confirmed (put), acknowledged until the queue was empty (end-to-end), or
            acknowledged in the measured part (latency).
        median_ms, p99_ms: from the scheduled time of a put to the delivery; for the work `latency` only.
        cpu_us: microseconds of CPU per message, of clients and of servers.
    """

    per_second: float
    median_ms: float
    p99_ms: float
    cpu_us: dict[str, float]
    audit: Balance
    errors: dict[str, int]
    unfinished: bool = False
    """Consumers did not take all messages within their time."""


@dataclass(slots=True)
class Comparison:
    """All measurements.

    Attributes:
        runs: by work and peer, one for each repetition.
        settings: of each peer.
        skipped: why a peer was left out, or from which work.
    """

    size: Size
    runs: dict[Work, dict[str, list[Run]]] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


async def compare_peers(
    comparison: Comparison,
    names: Iterable[str],
    works: Sequence[Work],
    directory: Path,
    progress: Callable[[str], None],
    catalog: Mapping[str, Entry] = CATALOG,
) -> None:
    """Measure Telesto and these peers; what cannot take part is named with the reason.

    The comparison gets each repetition when it is complete, so it can be shown even if this is cancelled.
    """
    chosen = [name for name in catalog if name == REFERENCE or name in set(names)]
    async with _started(chosen, catalog, comparison, directory, progress) as peers:
        for work in works:
            await _measure(work, peers, comparison, directory, progress)


@asynccontextmanager
async def _started(
    names: Sequence[str],
    catalog: Mapping[str, Entry],
    comparison: Comparison,
    directory: Path,
    progress: Callable[[str], None],
) -> AsyncIterator[list[Peer]]:
    """Start the servers of the peers that can take part."""
    servers, peers = Servers(), []
    outcomes: dict[Server, PeerUnavailableError | None] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            if lacking := lacks(catalog[name]):
                comparison.skipped[name] = lacking
                continue
            progress(f"starting {name}")
            try:
                peer = catalog[name].make(servers)
                await _start(peer.server, directory, outcomes, stack)
                await peer.prepare()
                comparison.settings[name] = await peer.describe()
            except Exception as error:  # noqa: BLE001 - the other peers are still compared
                comparison.skipped[name] = _reason(error)
            else:
                peers.append(peer)
        yield peers


def lacks(entry: Entry) -> str:
    """Describe what a peer lacks and how to install it; empty if nothing."""
    said = []
    if modules := entry.missing_modules():
        said.append(f"{', '.join(modules)} not installed: pip install 'telesto-mq[bench]'")
    if files := entry.missing_files():
        how = (
            f"pip install {' '.join(entry.python)}"
            if entry.python
            else f"apt-get install {' '.join(entry.debian)}"
        )
        said.append(f"no {', '.join(files)}: {how}")
    return "; ".join(said)


async def _start(
    server: Server,
    directory: Path,
    outcomes: dict[Server, PeerUnavailableError | None],
    stack: AsyncExitStack,
) -> None:
    """Start a server that peers share, or raise the PeerUnavailableError of its first start again."""
    if server not in outcomes:
        home = directory / f"server-{len(outcomes)}"
        home.mkdir(mode=0o711)
        stack.push_async_callback(server.stop)
        outcomes[server] = None
        try:
            await server.start(home)
        except Exception as error:  # noqa: BLE001 - whatever it is, the peer is unavailable
            outcomes[server] = PeerUnavailableError(_reason(error))
    if (failure := outcomes[server]) is not None:
        raise failure


async def _measure(
    work: Work,
    peers: Sequence[Peer],
    comparison: Comparison,
    directory: Path,
    progress: Callable[[str], None],
) -> None:
    """Measure one kind of work. A peer that fails in it is left out of its table."""
    found: dict[str, list[Run]] = {peer.name: [] for peer in peers}
    comparison.runs[work] = found
    for repetition in range(1, comparison.size.repetitions + 1):
        runs: dict[str, Run] = {}
        for peer in peers:
            if peer.name not in found:
                continue
            step = f"{work}, repetition {repetition} of {comparison.size.repetitions}: {peer.name}"
            try:
                run = await run_once(peer, work, comparison.size, directory)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are compared
                del found[peer.name]
                comparison.skipped[f"{peer.name}, {work}"] = _reason(error)
                progress(f"{step}: failed ({_reason(error)})")
            else:
                runs[peer.name] = run
                progress(f"{step}: {_briefly(run)}")
        for name, run in runs.items():
            found[name].append(run)


def _briefly(run: Run) -> str:
    delays = f", median {run.median_ms:.2f} ms, p99 {run.p99_ms:.2f} ms" if run.median_ms else ""
    if run.unfinished:
        delays += f", {run.audit.left} left"
    wrong = "" if run.audit.clean else f", {run.audit.lost} lost, {run.audit.duplicated} duplicated"
    failed = f", failures: {dict(run.errors)}" if run.errors else ""
    return f"{run.per_second:,.0f} a second{delays}{wrong}{failed}"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, PeerUnavailableError) else f"{type(error).__name__}: {error}"


_numbers = count(1)


async def run_once(peer: Peer, work: Work, size: Size, directory: Path) -> Run:
    """Run one kind of work on one peer, on a new queue, and audit it."""
    queue = f"peers{next(_numbers)}"
    await peer.make_queue(queue)
    try:
        plans = plans_of(peer, work, size, queue, directory)
        workers = [await Worker.spawn(LOAD, asdict(plan)) for plan in plans]
        window, used, results = await _load(workers, peer, size)
        paths = [Path(result["records"]) for result in results]
        records = np.concatenate([read_records(path) for path in paths])
        for path in paths:
            path.unlink()
        left = [identity_of(body) for body in await peer.left(queue)]
    finally:
        await peer.drop_queue(queue)
    await asyncio.sleep(SETTLE_S if size.seconds >= SETTLE_S else 0)
    errors: Counter[str] = sum((Counter(result["errors"]) for result in results), Counter())
    doubtful = [identity for result in results for identity in result["doubtful"]]
    balance = audit(
        as_identities(done(records, Operation.PUT)["identity"]),
        as_identities(done(records, Operation.ACK)["identity"]),
        Stored(left),
        Doubts(doubtful),
    )
    return summarise(work, records, window, used, balance, errors)


async def _load(
    workers: Sequence[Worker], peer: Peer, size: Size
) -> tuple[Window, dict[str, float], list[Result]]:
    """Run the workers together; return the window, each tier's CPU seconds in it, and the results."""

    def used() -> dict[str, float]:
        return {
            "client": cpu_seconds(worker.pid for worker in workers),
            "server": sum(family_cpu_seconds(root) for root in peer.server.roots()),
        }

    try:
        await asyncio.gather(*(worker.ready() for worker in workers))
        begin = time.monotonic() + HEAD_START_S
        window = Window(begin + size.warm_up_s, begin + size.warm_up_s + size.seconds)
        for worker in workers:
            await worker.begin(begin)
        await asyncio.sleep(window.begin - time.monotonic())
        before = used()
        await asyncio.sleep(window.end - time.monotonic())
        after = used()
        results = await asyncio.gather(*(worker.result(size.load_s) for worker in workers))
    finally:
        for worker in workers:
            await worker.stop()
    return window, {tier: after[tier] - before[tier] for tier in after}, list(results)


def plans_of(peer: Peer, work: Work, size: Size, queue: str, directory: Path) -> list[PeerPlan]:
    """Spread the connections over processes; consumers too, if the peer can have several."""
    processes = min(size.processes, size.connections)
    apart = work == "latency" and peer.calls_overlap
    consumers = 0 if work == "put" else min(size.consumers, peer.consumers_max or size.consumers)
    plan = PeerPlan(
        module=peer.module,
        address=peer.address(),
        queue=queue,
        seconds=size.load_s,
        records="",
        at_once=1 if apart else min(peer.puts_at_once, size.in_flight),
        in_flight=size.in_flight,
        body_bytes=size.body_bytes,
    )
    return [
        replace(
            plan,
            records=str(directory / f"{queue}-{index}.records"),
            producers=_share(size.connections, processes, index),
            consumers=_share(consumers, processes, index),
            rate=size.rate / processes if work == "latency" else 0.0,
            first_stream=index * STREAMS_PER_PROCESS,
        )
        for index in range(processes)
    ]


def _share(total: int, parts: int, index: int) -> int:
    return total // parts + (index < total % parts)


def summarise(
    work: Work,
    records: Records,
    window: Window,
    used: Mapping[str, float],
    balance: Balance,
    errors: Mapping[str, int],
) -> Run:
    """Compute the figures of a run from its records."""
    puts, acks = done(records, Operation.PUT), done(records, Operation.ACK)
    put, acked = completed(puts, window), completed(acks, window)
    # While messages accumulate, more are put than taken: the CPU time is for both.
    messages = {"put": put, "end-to-end": (put + acked) // 2, "latency": acked}[work]
    delays = delays_of(acks, window) if work == "latency" else np.empty(0)
    median_s, p99_s = np.percentile(delays, [50, 99]) if len(delays) else (0.0, 0.0)
    return Run(
        per_second=drained(acks, window) if work == "end-to-end" else messages / window.seconds,
        median_ms=1000 * float(median_s),
        p99_ms=1000 * float(p99_s),
        cpu_us={tier: 1e6 * seconds / max(1, messages) for tier, seconds in used.items()},
        audit=balance,
        errors=dict(errors),
        unfinished=work != "put" and balance.left > 0,
    )


def done(records: Records, operation: Operation) -> Records:
    """Return the records of one kind of operation."""
    chosen: Records = records[records["operation"] == operation]
    return chosen


def completed(records: Records, window: Window) -> int:
    """Count the records that ended within the window."""
    return int(np.count_nonzero((records["ended"] >= window.begin) & (records["ended"] < window.end)))


def drained(acks: Records, window: Window) -> float:
    """Messages acknowledged a second, from the beginning of the window until the queue was empty.

    A peer gains nothing by putting faster than its consumers follow: the messages that wait at the end of the
    load still count, and so does the time that they take.
    """
    moments = acks["ended"][acks["ended"] >= window.begin]
    return len(moments) / (float(moments.max()) - window.begin) if len(moments) else 0.0


def delays_of(acks: Records, window: Window) -> Records:
    """Return the delays of the messages that were scheduled within the window."""
    due = acks["ended"] - acks["latency"]
    delays: Records = acks["age"][(due >= window.begin) & (due < window.end)]
    return delays

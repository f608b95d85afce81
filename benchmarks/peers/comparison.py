"""Carries out the comparison: servers, then for each kind of work all peers in turn, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final, Literal

from telesto.benchmarks.audit import Balance, Stored, audit_tally
from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.peers.bodies import identity_of
from telesto.benchmarks.peers.catalog import CATALOG, Entry, Servers
from telesto.benchmarks.peers.interface import Peer, PeerUnavailableError, Server
from telesto.benchmarks.peers.load import PeerPlan
from telesto.benchmarks.records import Record, Window, completed, percentile
from telesto.benchmarks.runs import STREAMS_PER_WORKER, drive
from telesto.benchmarks.tally import Tally, load_tally
from telesto.benchmarks.usage import cpu_seconds, family_cpu_seconds
from telesto.benchmarks.worker import Worker

Work = Literal["put", "end-to-end", "latency"]
WORKS: Final[tuple[Work, ...]] = ("put", "end-to-end", "latency")
REFERENCE: Final = "telesto"
LOAD: Final = "telesto.benchmarks.peers.load"
SETTLE_S: Final = 1.0
"""Pause after a run, in which a server ends what the run has left it to do."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much load there is, and for how long.

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
    def timing(self) -> Timing:
        """How long a run takes."""
        return Timing(self.warm_up_s, self.seconds)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave.

    Attributes:
        per_second: messages confirmed (put), acknowledged until the queue was empty (end-to-end), or
            acknowledged in the measured part (latency).
        median_ms, p99_ms: from the moment at which a put was due to the delivery; of the work `latency` only.
        cpu_us: microseconds of CPU per message, of clients and of servers.
    """

    per_second: float
    median_ms: float
    p99_ms: float
    cpu_us: dict[str, float]
    audit: Balance
    errors: dict[str, int]
    unfinished: bool = False
    """Consumers did not take all that was put, in the time that they had."""


@dataclass(slots=True)
class Comparison:
    """All that was measured.

    Attributes:
        runs: by work and peer, one for each repetition.
        settings: of each peer.
        skipped: why a peer took no part, or not in all.
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

    The comparison gets each repetition when it is whole, so that it can be shown also when this is cancelled.
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
    """Start the servers of those peers that can take part."""
    servers, started, peers = Servers(), _Started(directory), []
    try:
        for name in names:
            if lacking := lacks(catalog[name]):
                comparison.skipped[name] = lacking
                continue
            progress(f"starting {name}")
            try:
                peer = catalog[name].make(servers)
                await started.start(peer.server)
                await peer.prepare()
                comparison.settings[name] = await peer.describe()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are compared
                comparison.skipped[name] = _reason(error)
            else:
                peers.append(peer)
        yield peers
    finally:
        await started.stop()


def lacks(entry: Entry) -> str:
    """Say what a peer lacks, and how to get it; empty when nothing."""
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


class _Started:
    """The servers that were started. One that failed is not tried again for the next peer that shares it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = AsyncExitStack()
        self._failed: dict[Server, PeerUnavailableError] = {}
        self._running: set[Server] = set()

    async def start(self, server: Server) -> None:
        """Start a server unless it runs. Raises PeerUnavailableError."""
        if server in self._running:
            return
        if server in self._failed:
            raise self._failed[server]
        directory = self._directory / f"server-{len(self._running) + len(self._failed)}"
        directory.mkdir(mode=0o711)
        self._stack.push_async_callback(server.stop)
        try:
            await server.start(directory)
        except Exception as error:
            self._failed[server] = PeerUnavailableError(_reason(error))
            raise self._failed[server] from error
        self._running.add(server)

    async def stop(self) -> None:
        """Stop all of them, the last one first."""
        await self._stack.aclose()


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
    """Carry out one run of one peer on a queue of its own, and audit it."""
    queue = f"peers{next(_numbers)}"
    await peer.make_queue(queue)
    try:
        plans = plans_of(peer, work, size, queue, directory)
        workers = [await Worker.spawn(LOAD, plan.as_plan()) for plan in plans]
        tiers = {
            "client": lambda: cpu_seconds(worker.pid for worker in workers),
            "server": lambda: sum(family_cpu_seconds(root) for root in peer.server.roots()),
        }
        window, usage, results = await drive(workers, size.timing, tiers)
        tally = Tally()
        for result in results:
            load_tally(result, tally)
        left = [identity_of(body) for body in await peer.left(queue)]
    finally:
        await peer.drop_queue(queue)
    await asyncio.sleep(SETTLE_S if size.seconds >= SETTLE_S else 0)
    used = {tier: sum(seconds) for tier, seconds in usage.items()}
    return summarise(work, tally, window, used, audit_tally(tally, Stored(left)))


def plans_of(peer: Peer, work: Work, size: Size, queue: str, directory: Path) -> list[PeerPlan]:
    """Spread the connections over processes; consumers too, where the peer can have several."""
    processes = min(size.processes, size.connections)
    apart = work == "latency" and peer.calls_overlap
    consumers = 0 if work == "put" else min(size.consumers, peer.consumers_max or size.consumers)
    plan = PeerPlan(
        module=peer.module,
        address=peer.address(),
        queue=queue,
        seconds=size.timing.total_s,
        directory=str(directory),
        at_once=1 if apart else min(peer.puts_at_once, size.in_flight),
        in_flight=size.in_flight,
        body_bytes=size.body_bytes,
    )
    return [
        replace(
            plan,
            producers=_share(size.connections, processes, index),
            consumers=_share(consumers, processes, index),
            rate=size.rate / processes if work == "latency" else 0.0,
            first_stream=index * STREAMS_PER_WORKER,
        )
        for index in range(processes)
    ]


def _share(total: int, parts: int, index: int) -> int:
    return total // parts + (index < total % parts)


def summarise(work: Work, tally: Tally, window: Window, used: Mapping[str, float], audit: Balance) -> Run:
    """Turn the records of a run into its figures."""
    put, taken = completed(tally.puts, window), completed(tally.takes, window)
    # While messages pile up more are put than taken: the CPU time is that of both.
    messages = {"put": put, "end-to-end": (put + taken) // 2, "latency": taken}[work]
    delays = sorted(delays_of(tally.takes, window)) if work == "latency" else []
    return Run(
        per_second=drained(tally.takes, window) if work == "end-to-end" else messages / window.seconds,
        median_ms=1000 * percentile(delays, 0.5),
        p99_ms=1000 * percentile(delays, 0.99),
        cpu_us={tier: 1e6 * seconds / max(1, messages) for tier, seconds in used.items()},
        audit=audit,
        errors=dict(tally.errors),
        unfinished=work != "put" and audit.left > 0,
    )


def drained(takes: Record, window: Window) -> float:
    """Messages acknowledged a second, from the beginning of the window until the queue was empty.

    Nobody gains by putting faster than consumers follow: what waits at the end of the load is still counted,
    and so is the time that it takes.
    """
    moments = [moment for moment in takes.ended if moment >= window.begin]
    return len(moments) / (max(moments) - window.begin) if moments else 0.0


def delays_of(takes: Record, window: Window) -> list[float]:
    """The delays of the messages that were due within the window, however late they came."""
    pairs = zip(takes.ended, takes.latencies, strict=True)
    return [delay for moment, delay in pairs if moment - delay in window]

"""A run: clients at work, faults drawn from a seed, a drain, and the verdict.

``python -m tests.faults.run --size small --seed 1 --kinds cut,kill-middleware``
``python -m tests.faults.run --database pair --kinds failover,switchover``
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from telesto.db.embedded.process import end_leftovers

from .checkers.calls import Bounds
from .clients.client_process import Task
from .clients.history import Fault, Killed, Left, Recorder, read_histories
from .clients.states import puts_of_state
from .consumer_work import ConsumerWork
from .queue_work import QueueWork
from .report import Report, recoveries_of, struck_kinds
from .service.cluster import Cluster
from .service.faults import KINDS, PAIR_KINDS, Blow, End, Strike
from .service.logs import client_complaints, middleware_complaints, warnings_of
from .service.pair import Pair
from .service.processes import Client, Database, SingleServer
from .service.secured import Secured
from .topic_work import TopicWork
from .workload import CLIENT_OPTIONS, Part, Size, Workload

#: What a call may take beyond its own time limit before it counts as hung: the machine may be busy.
_SLACK_S = 5.0
_GAP_S = (0.1, 0.8)
#: A fault that meets nothing is tried again.
_TRIES = 3


WORK: dict[str, type[Workload]] = {"queues": QueueWork, "topics": TopicWork, "consumers": ConsumerWork}
#: The databases that a run can have, and the kinds of faults that can strike there.
DATABASES: dict[str, type[Database]] = {"single": SingleServer, "pair": Pair}
_STRIKES: dict[str, Strike] = {**KINDS, **PAIR_KINDS}
KINDS_ON = {"single": list(KINDS), "pair": list(_STRIKES)}


class Run:
    """One run; see ``faults.Stage`` for what faults need of it.

    Attributes:
        database: what holds the state; its class decides which kinds of faults can strike.
    """

    def __init__(
        self,
        directory: Path,
        work: type[Workload],
        size: Size,
        seed: int,
        kinds: list[str],
        database: type[Database],
        secured: bool,
    ) -> None:
        self.directory = directory
        self._secured = Secured(directory) if secured else None
        self.histories = directory / "histories"
        self.histories.mkdir()
        self._states = directory / "states"
        self._size = size
        self._work = work(size, self.histories)
        self._seed = seed
        self._kinds = kinds
        self.chance = random.Random(seed)
        self.database = database(directory / "data")
        self.database_lock = asyncio.Lock()
        self._recorder = Recorder(self.histories, "faults", 1)
        self._clients: dict[str, Client] = {}
        self._parts: dict[str, tuple[Part, Task]] = {}
        self.failures: list[str] = []

    async def perform(self) -> Report:
        """Does it all."""
        await self.database.start()
        try:
            await self.database.install()
            if self._secured is not None:
                # A commit waits for the standby, which is reached by a proxy of this loop.
                await asyncio.to_thread(self._secured.add_user, self.database.url)
            self.cluster = Cluster(
                self.directory,
                self.database.url,
                self._size.middlewares,
                primary=lambda: self.database.primary,
                secured=self._secured,
            )
            self.sites = self.cluster.sites
            async with self.cluster:
                await self._perform()
        finally:
            for client in self._clients.values():
                await client.kill()
            await self.database.stop()
        return self._report()

    async def _perform(self) -> None:
        for part in await self._work.prepare(self.cluster.url()):
            self._add(part)
        await asyncio.gather(*(client.start() for client in self._clients.values()))
        await asyncio.gather(*(client.line() for client in self._clients.values()))  # all are connected
        await self._strike_all()
        for role in self._size.clients:
            await self._end_clients(role)
        await self._work.drain(self.cluster.url())
        await self._look_for_leftovers()

    # --- clients -----------------------------------------------------------------------------

    def _add(self, part: Part) -> None:
        order = list(range(len(self.sites)))
        self.chance.shuffle(order)
        task = Task(
            history=str(self.histories),
            name=part.name,
            run=1,
            url=self.cluster.url(*order),
            seed=self._seed,
            style=part.style,
            state_dir=str(self._states / part.name) if part.durable else None,
            options=CLIENT_OPTIONS,
            **part.values,
        )
        self._parts[part.name] = (part, task)
        self._clients[part.name] = Client(part.role, self.histories, vars(task))

    def clients(self) -> list[Client]:
        """All clients."""
        return list(self._clients.values())

    def killable(self, durable: bool = False) -> list[Client]:
        """Those of them that may be killed, or of these those that keep a state."""
        parts = [part for part, _ in self._parts.values() if part.durable or not durable]
        return [self._clients[part.name] for part in parts if self._work.may_be_killed(part)]

    async def replace(self, client: Client, state: bool = False, end: End = Client.kill) -> bool:
        """Ends a client and starts it again under its name, with the state that it kept or without.

        Returns False when the client is being replaced already, or does not end.
        """
        if client.replaced or not client.running:
            return False
        client.replaced = True
        part, task = self._parts[client.name]
        code = await end(client)
        if code is None:
            return False
        if code == -signal.SIGKILL:
            self._recorder.write_event(Killed(client.name, client.run, time.monotonic()))
            if state and task.state_dir is not None:
                left = puts_of_state(task.state_dir)
                self._recorder.write_event(Left(client.name, client.run, time.monotonic(), left))
        elif code:
            self.failures.append(f"{client.name}.{client.run} ended with exit code {code}")
        if part.durable and not state:
            shutil.rmtree(self._states / part.name, ignore_errors=True)
        task.run += 1
        successor = self._clients[client.name] = Client(part.role, self.histories, vars(task))
        successor.replaced = True  # until it is connected: before that, SIGTERM ends it with no order
        await successor.start()
        await successor.line()
        successor.replaced = False
        return True

    async def _end_clients(self, role: str) -> None:
        await asyncio.gather(
            *(
                self._end(client)
                for name, client in self._clients.items()
                if self._parts[name][0].role == role
            )
        )

    async def _end(self, client: Client) -> None:
        code = await client.end()
        if code is None:
            self.failures.append(f"{client.name} did not end in time; its log shows what it did")
        elif code:
            self.failures.append(f"{client.name} ended with exit code {code}")

    # --- faults ------------------------------------------------------------------------------

    async def _strike_all(self) -> None:
        plan = [kind for _ in range(self._size.rounds) for kind in self._kinds]
        self.chance.shuffle(plan)
        blows = [
            (kind, number, random.Random(f"{self._seed} {number}")) for number, kind in enumerate(plan, 1)
        ]
        at_once = asyncio.Semaphore(self._size.at_once)
        async with asyncio.TaskGroup() as strikes:
            for kind, number, chance in blows:
                await at_once.acquire()
                await asyncio.sleep(chance.uniform(*_GAP_S))
                strike = strikes.create_task(self._strike(kind, number, chance))
                strike.add_done_callback(lambda _: at_once.release())

    async def _strike(self, kind: str, number: int, chance: random.Random) -> None:
        for _ in range(_TRIES):
            blow = Blow(chance)
            await _STRIKES[kind](self, blow)
            fault = Fault(kind, number, blow.at, time.monotonic(), blow.target, blow.effect)
            self._recorder.write_event(fault)
            if blow.effect:
                return

    # --- the end -----------------------------------------------------------------------------

    async def _look_for_leftovers(self) -> None:
        self.failures += await self._work.leftovers(self.database)
        for site in self.sites:
            self.failures += await site.left()
            self.failures += await site.stop()
        self.failures += [f"db check: {problem}" for problem in await self.database.problems()]

    def _report(self) -> Report:
        self._recorder.close()
        events = read_histories(self.histories)
        bounds = Bounds(call_s=CLIENT_OPTIONS["call_timeout"] + _SLACK_S)
        verdict = self._work.check(events, bounds)
        failures = self.failures
        warnings: Counter[str] = Counter()
        for site in self.sites:
            failures += middleware_complaints(site.log)
            warnings += warnings_of(site.log)
        for log in sorted(self.histories.glob("*.log")):
            failures += client_complaints(log)
        missed = sorted(set(self._kinds) - struck_kinds(events))
        failures += [f"{kind} never struck while a call was under way" for kind in missed]
        faults = [event for event in events if isinstance(event, Fault)]
        return Report(verdict, failures, faults, recoveries_of(events), warnings)


async def perform(
    work: str,
    size: str,
    seed: int,
    kinds: list[str],
    directory: Path,
    database: str = "single",
    *,
    secured: bool = False,
) -> Report:
    """Performs a run in an empty directory that others can reach, with TLS and users if ``secured``."""
    workload = WORK[work]
    kinds = [kind for kind in kinds if kind not in workload.meaningless]
    run = Run(directory, workload, workload.sizes[size], seed, kinds, DATABASES[database], secured)
    return await run.perform()


def scratch_directory() -> Path:
    """Makes a directory for a run, in memory where there is such a disk."""
    memory = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="telesto-faults-", dir=memory if memory.is_dir() else None))
    directory.chmod(0o711)
    return directory


def remove_directory(directory: Path) -> None:
    """Removes the directory of a run, and the servers that still run in it."""
    for cluster in (directory / "data").glob("**/postgresql"):
        end_leftovers(cluster)
    shutil.rmtree(directory)


def main() -> int:
    """Reads the command line, performs runs and reports."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=main.__doc__)
    parser.add_argument("--work", choices=WORK, default="queues")
    parser.add_argument("--size", choices=("small", "medium", "large"), default="small")
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    parser.add_argument("--runs", type=int, default=1, help="with the seeds that follow")
    parser.add_argument(
        "--database", choices=DATABASES, default="single", help="one server, or a primary and its standby"
    )
    parser.add_argument("--secured", action="store_true", help="with TLS, users and their rights")
    parser.add_argument("--kinds", default=None, help="separated by commas; by default all that there are")
    arguments = parser.parse_args()
    known = KINDS_ON[arguments.database]
    kinds = known if arguments.kinds is None else arguments.kinds.split(",")
    if unknown := set(kinds) - set(known):
        parser.error(f"there are no faults named {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    first = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    seeds = range(first, first + arguments.runs)
    return max(
        _one(arguments.work, arguments.size, seed, kinds, arguments.database, arguments.secured)
        for seed in seeds
    )


def _one(work: str, size: str, seed: int, kinds: list[str], database: str, secured: bool) -> int:
    directory = scratch_directory()
    began = time.monotonic()
    what = f"{work}, secured," if secured else work
    print(f"{size} run of {what} with seed {seed} in {directory}", flush=True)
    report = asyncio.run(perform(work, size, seed, kinds, directory, database, secured=secured))
    took = time.monotonic() - began
    print("\n".join(report.lines()))
    if report.problems:
        print(f"  FAILED after {took:.0f} s; histories and logs are kept", flush=True)
        return 1
    print(f"  passed after {took:.0f} s", flush=True)
    remove_directory(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The sections of the experiment: each measures one thing and gives its part of the report."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from telesto.benchmarks.consumers import ConsumerBench, measure_consumers
from telesto.benchmarks.consumers_part import consumers_part
from telesto.benchmarks.delivery import deliveries_part, measure_deliveries
from telesto.benchmarks.experiment import Experiment
from telesto.benchmarks.history import histories_part, measure_histories
from telesto.benchmarks.idle import measure_idle
from telesto.benchmarks.idle_part import idle_part
from telesto.benchmarks.measurement import Timing
from telesto.benchmarks.report import Part
from telesto.benchmarks.service import Middlewares, running_middlewares
from telesto.benchmarks.state import measure_states, states_part
from telesto.benchmarks.steady import measure_steady
from telesto.benchmarks.steady_part import steady_part
from telesto.benchmarks.tally import Workload
from telesto.benchmarks.throughput import ThroughputPlan, measure_throughput, ungathered_candidates
from telesto.benchmarks.throughput_part import throughput_part
from telesto.benchmarks.topics import TopicBench, measure_topics
from telesto.benchmarks.topics_part import topics_part

Section = Callable[[Experiment], Awaitable[Part]]


def progress(line: str) -> None:
    """Tell what is going on, apart from the report."""
    print(line, file=sys.stderr, flush=True)


@asynccontextmanager
async def _service(experiment: Experiment) -> AsyncIterator[Middlewares]:
    """Run the middlewares of one section: what an earlier load left in their memory does not count."""
    url, count = experiment.bench.database.url, experiment.options.middlewares
    async with running_middlewares(url, experiment.directory, count) as middlewares:
        yield middlewares


async def _throughput(experiment: Experiment, workload: Workload) -> Part:
    plan = _throughput_plan(experiment)
    return throughput_part(
        await measure_throughput(experiment.bench, workload, plan, experiment.directory, progress)
    )


def _throughput_plan(experiment: Experiment) -> ThroughputPlan:
    size, options = experiment.size, experiment.options
    candidates = ungathered_candidates()
    # The middle of the list is the likeliest: it is what a short run tries.
    first = (len(candidates) - size.candidates) // 2 if size.candidates < len(candidates) else 0
    chosen = candidates[first : first + size.candidates]
    return ThroughputPlan(options.shapes, chosen, size.timing, size.repetitions, options.middlewares)


async def _put(experiment: Experiment) -> Part:
    return await _throughput(experiment, "put")


async def _put_read(experiment: Experiment) -> Part:
    return await _throughput(experiment, "put-read")


async def _delivery(experiment: Experiment) -> Part:
    size = experiment.size
    async with _service(experiment) as middlewares:
        return deliveries_part(
            await measure_deliveries(experiment.bench, middlewares, size.timing, size.repetitions, progress)
        )


async def _history(experiment: Experiment) -> Part:
    size = experiment.size
    async with _service(experiment) as middlewares:
        return histories_part(
            await measure_histories(experiment.bench, middlewares, size.timing, size.repetitions, progress)
        )


async def _steady(experiment: Experiment) -> Part:
    size = experiment.size
    progress(f"put plus read over {size.steady_s:g} s under each condition")
    async with _service(experiment) as middlewares:
        timing = Timing(size.warm_up_s, size.steady_s)
        return steady_part(await measure_steady(experiment.bench, middlewares, timing, size.backlog))


async def _idle(experiment: Experiment) -> Part:
    connections = experiment.size.idle_connections
    progress(f"{connections:,} idle connections")
    async with _service(experiment) as middlewares:
        return idle_part(await measure_idle(middlewares, connections))


async def _topics(experiment: Experiment) -> Part:
    size, database = experiment.size, experiment.bench.database
    bench = TopicBench(database, experiment.bench.connection, experiment.options.body_bytes)
    async with running_middlewares(database.url, experiment.directory, 2) as middlewares:
        return topics_part(
            await measure_topics(
                bench, middlewares, size.timing, size.topic_backlog, size.repetitions, progress
            )
        )


async def _consumers(experiment: Experiment) -> Part:
    size = experiment.size
    bench = ConsumerBench(
        experiment.bench.database, experiment.bench.connection, experiment.options.body_bytes
    )
    async with _service(experiment) as middlewares:
        return consumers_part(
            await measure_consumers(
                bench,
                middlewares,
                size.timing,
                size.consumer_backlog,
                size.backlog,
                size.repetitions,
                progress,
            )
        )


async def _state(experiment: Experiment) -> Part:
    size = experiment.size
    async with _service(experiment) as middlewares:
        return states_part(
            await measure_states(experiment.bench, middlewares, size.timing, size.repetitions, progress)
        )


SECTIONS: Final[dict[str, Section]] = {
    "put": _put,
    "put-read": _put_read,
    "delivery": _delivery,
    "history": _history,
    "steady": _steady,
    "idle": _idle,
    "topics": _topics,
    "consumers": _consumers,
    "state": _state,
}

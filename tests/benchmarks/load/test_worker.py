"""Workers are let go together, and a failing one says why."""

import asyncio
import time

import pytest

from telesto.benchmarks.load.worker import Worker, WorkerFailedError

ECHO = "tests_bench_echo"
ECHO_SOURCE = """
import time
from telesto.benchmarks.load.worker import run_worker

async def work(plan, start):
    moment = await start.wait()
    return {"late": time.monotonic() - moment, "plan": plan}

run_worker(work)
"""
FAILING = "tests_bench_failing"
FAILING_SOURCE = """
from telesto.benchmarks.load.worker import run_worker

async def work(plan, start):
    raise RuntimeError("planted")

run_worker(work)
"""


@pytest.fixture
def modules(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path_factory.mktemp("modules")
    (directory / f"{ECHO}.py").write_text(ECHO_SOURCE)
    (directory / f"{FAILING}.py").write_text(FAILING_SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(directory))


@pytest.mark.usefixtures("modules")
async def test_a_worker_begins_at_the_moment_given() -> None:
    workers = [await Worker.spawn(ECHO, {"number": number}) for number in range(2)]
    await asyncio.gather(*(worker.ready() for worker in workers))
    moment = time.monotonic() + 0.1
    for worker in workers:
        await worker.begin(moment)
    results = [await worker.result(1.0) for worker in workers]
    assert [result["plan"]["number"] for result in results] == [0, 1]
    assert all(result["late"] >= 0 for result in results)


@pytest.mark.usefixtures("modules")
async def test_a_worker_that_fails_tells_the_reason() -> None:
    worker = await Worker.spawn(FAILING, {})
    with pytest.raises(WorkerFailedError, match="planted"):
        await worker.ready()


@pytest.mark.usefixtures("modules")
async def test_a_worker_can_be_stopped_at_any_time() -> None:
    worker = await Worker.spawn(ECHO, {})
    await worker.stop()
    await worker.stop()
    with pytest.raises(WorkerFailedError):
        await worker.ready()

"""Processes that generate load: start them, wait until they are ready, and let them begin together.

The parent sends a plan (JSON) as the first line of the worker's standard input. The worker connects, prints
`ready`, and waits for a second line with the start time (monotonic seconds). At the end it prints its result
(JSON) as its last line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self

READY: Final = "ready"
CONNECT_TIMEOUT_S: Final = 120.0
RESULT_TIMEOUT_S: Final = 120.0
LINE_BYTES_MAX: Final = 2**24
CLOCK_TICK_S: Final = 0.001
HEAD_START_S: Final = 0.2
"""How long before the start workers are told of it."""

Plan = dict[str, Any]
Result = dict[str, Any]


class WorkerFailedError(Exception):
    """A worker ended early or did not answer in time; the message ends with its output."""


class Worker:
    """The parent's side of one worker process."""

    def __init__(self, module: str, process: asyncio.subprocess.Process) -> None:
        self._module = module
        self._process = process

    @classmethod
    async def spawn(cls, module: str, plan: Plan) -> Self:
        """Start `python -m module` with a plan."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, stdin=pipe, stdout=pipe, stderr=pipe, limit=LINE_BYTES_MAX
        )
        worker = cls(module, process)
        await worker._say(json.dumps(plan))
        return worker

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the worker has connected; `WorkerFailedError` if it cannot."""
        if await self._hear(CONNECT_TIMEOUT_S) != READY:
            raise await self._failure("did not get ready")

    async def begin(self, moment: float) -> None:
        """Let the worker begin at a time of the monotonic clock."""
        await self._say(repr(moment))

    async def result(self, seconds: float) -> Result:
        """Wait for the result of a run of `seconds`."""
        line = await self._hear(seconds + RESULT_TIMEOUT_S)
        if not line:
            raise await self._failure("ended without a result")
        await self._process.wait()
        result: Result = json.loads(line)
        return result

    async def stop(self) -> None:
        """End the process if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()

    async def _hear(self, timeout_s: float) -> str:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                return (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            return ""

    async def _failure(self, what: str) -> WorkerFailedError:
        """Describe the failure with the end of the worker's standard error."""
        await self.stop()
        assert self._process.stderr is not None
        text = (await self._process.stderr.read()).decode(errors="replace")
        return WorkerFailedError(f"{self._module} {what} (exit {self._process.returncode}): {text[-2000:]}")


class StartSignal:
    """The worker's side: it waits here for the start."""

    async def wait(self) -> float:
        """Report that everything is connected; return the start time once it has come."""
        print(READY, flush=True)
        moment = float(await asyncio.to_thread(sys.stdin.readline))
        # An event loop may wake a little early, because its clock ticks in milliseconds.
        await asyncio.sleep(moment + CLOCK_TICK_S - time.monotonic())
        return moment


def run_worker(work: Callable[[Plan, StartSignal], Awaitable[Result]]) -> None:
    """Run as a worker: read the plan, carry it out, print the result."""
    plan: Plan = json.loads(sys.stdin.readline())
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        result = runner.run(_carry_out(work, plan))
    print(json.dumps(result), flush=True)


async def _carry_out(work: Callable[[Plan, StartSignal], Awaitable[Result]], plan: Plan) -> Result:
    return await work(plan, StartSignal())


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory where uvloop is installed, else None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

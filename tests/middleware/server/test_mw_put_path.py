"""How many files of the product a put touches on its way to the database and back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from conftest import StartMiddleware
from telesto.client import AsyncTelestoClient, ClientOptions
from telesto.client.calls import tracing

REPOSITORY = Path(__file__).resolve().parents[3]
PRODUCT = ("client", "protocol", "middleware", "db")
#: A put must not touch more files than this (docs/explanation/architecture.md, "A put"). To read a put is to
#: read these.
FILES_MAX = 20
#: Background work is not part of a put. It does not run within this time, in seconds, or not in all puts.
SELDOM_S = 3600.0
SELDOM = {
    "staged_interval_s": SELDOM_S,
    "staged_idle_s": SELDOM_S,
    "sweep_interval_s": SELDOM_S,
    "due_sweep_interval_s": SELDOM_S,
    "lost_leases_s": SELDOM_S,
    "wake_sweep_s": SELDOM_S,
    "interest_idle_s": SELDOM_S,
    "loop_lag_interval_s": SELDOM_S,
    "database_late_s": SELDOM_S,
    "heartbeat_interval_s": SELDOM_S,
    "heartbeat_timeout_s": 2 * SELDOM_S,
}
PUTS = 20


@contextmanager
def files_of_calls() -> Iterator[set[str]]:
    """The files of the product in which functions run in this thread, as paths in the repository."""
    names: set[str] = set()
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            names.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
    for path in map(Path, names):
        # The package is installed by links to the folders of the repository.
        if path.is_file() and (real := path.resolve()).is_relative_to(REPOSITORY):
            relative = real.relative_to(REPOSITORY)
            if relative.parts[0] in PRODUCT:
                files.add(str(relative))


async def test_a_put_touches_few_files(
    start_middleware: StartMiddleware, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests of this process import libraries that import OpenTelemetry, and then a put is traced.
    monkeypatch.delitem(sys.modules, tracing.API, raising=False)
    host, port = (await start_middleware(**SELDOM)).address
    options = ClientOptions(confirm_after=SELDOM_S, ping_after=SELDOM_S)
    touched: list[set[str]] = []
    async with AsyncTelestoClient(f"telesto://{host}:{port}", options=options, name="puts") as client:
        await client.connect()
        queue = await client.create_queue("queue")
        await queue.put(b"first")
        for number in range(PUTS):
            with files_of_calls() as files:
                await queue.put(b"%d" % number)
            touched.append(files)
    always = set.intersection(*touched)
    assert {"client/aio/queue.py", "middleware/wire/connection.py", "db/calls.py"} <= always
    listed = "\n".join(sorted(always))
    assert len(always) <= FILES_MAX, f"a put touches {len(always)} files:\n{listed}"

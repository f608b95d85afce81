"""The course of the demonstration: prepare, ship, check, report, clean up."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from telesto.cli.demo.check import Verdict, check, read_records
from telesto.cli.demo.processes import Process, ready_client, running, start, wait_for
from telesto.cli.demo.report import Figures, report
from telesto.cli.demo.service import running_service
from telesto.cli.demo.source import Text, prepare_text
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.interrupts import handled, raise_for
from telesto.client import TelestoClient

LOWEST_PRIORITY = 1
DRAIN_TIMEOUT_S = 600.0
"""How long readers may take after the last put; a healthy service needs a moment."""


@dataclass(frozen=True)
class DemoPlan:
    """What the user asked for."""

    file: Path | None
    data_dir: Path | None
    producers: int
    readers: int


@dataclass(frozen=True)
class Shipment:
    """One text on its way through one queue; each of `urls` begins with another middleware."""

    text: Text
    urls: list[str]
    queue_id: int
    directory: Path

    @property
    def log(self) -> Path:
        """The file for the errors of the processes."""
        return self.directory / "log"

    def url(self, worker: int) -> str:
        """The URL for a process: they begin with the middlewares by turns."""
        return self.urls[worker % len(self.urls)]


def run_demo(plan: DemoPlan, *, as_json: bool) -> ExitCode:
    """Run the demonstration; DONE when every line came out once, unchanged and in order, else REFUSED."""
    for number in handled():
        signal.signal(number, _clean_up_and_end)
    with _scratch_directory() as directory:
        text = prepare_text(plan.file, directory)
        if not as_json:
            output.print_line(f"shipping {text.origin}: {len(text.digests)} lines, {text.size_bytes} bytes")
            output.print_line("starting PostgreSQL and two middlewares ...")
        data_dir = plan.data_dir if plan.data_dir is not None else directory / "data"
        with running_service(data_dir, directory / "log") as addresses:
            urls = [_url(addresses[index:] + addresses[:index]) for index in range(len(addresses))]
            with _queue(urls[0]) as (client, queue_id):
                figures = _ship(client, Shipment(text, urls, queue_id, directory), plan)
    report(figures, as_json=as_json)
    return ExitCode.DONE if figures.verdict.passed else ExitCode.REFUSED


def _clean_up_and_end(number: int, _frame: FrameType | None) -> None:
    """Unwind once; later signals must not stop the clean-up, which is bounded in time."""
    for each in handled():
        signal.signal(each, signal.SIG_IGN)
    raise_for(number)


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="telesto-demo-"))
    directory.chmod(0o711)  # PostgreSQL may run under an account of its own, which must get through
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _queue(url: str) -> Iterator[tuple[TelestoClient, int]]:
    """A queue for this run only, and the client that manages it."""
    run = time.time_ns()
    with TelestoClient(url, name=f"demo-{run}") as client:
        client.connect()
        queue = client.create_queue(f"demo-{run}")
        try:
            yield client, queue.queue_id
        finally:
            queue.delete()
            client.delete_client()


def _ship(client: TelestoClient, shipment: Shipment, plan: DemoPlan) -> Figures:
    with ExitStack() as stack:
        readers = [stack.enter_context(_reader(shipment, worker)) for worker in range(plan.readers)]
        producers = [
            stack.enter_context(_producer(shipment, worker, plan.producers))
            for worker in range(plan.producers)
        ]
        reader_ids = [ready_client(reader, "a reader", shipment.log) for reader in readers]
        for producer in producers:
            ready_client(producer, "a producer", shipment.log)
        started = time.monotonic()
        for process in [*readers, *producers]:
            start(process)
        for producer in producers:
            wait_for(producer, "a producer", shipment.log)
        for reader_id in reader_ids:
            client.put_message(shipment.queue_id, b"no more", priority=LOWEST_PRIORITY, receiver_id=reader_id)
        for reader in readers:
            wait_for(reader, "a reader", shipment.log, DRAIN_TIMEOUT_S)
        seconds = time.monotonic() - started
    return Figures(
        text=shipment.text,
        middlewares=len(shipment.urls),
        producers=plan.producers,
        readers=plan.readers,
        seconds=seconds,
        verdict=_verdict(shipment, plan.readers),
    )


def _producer(shipment: Shipment, worker: int, shares: int) -> AbstractContextManager[Process]:
    task = {
        "url": shipment.url(worker),
        "name": f"producer-{worker}-{shipment.queue_id}",
        "queue_id": str(shipment.queue_id),
        "text": str(shipment.text.path),
        "share": str(worker),
        "shares": str(shares),
    }
    return running("producer", [json.dumps(task)], shipment.log)


def _reader(shipment: Shipment, worker: int) -> AbstractContextManager[Process]:
    task = {
        "url": shipment.url(worker),
        "name": f"reader-{worker}-{shipment.queue_id}",
        "queue_id": str(shipment.queue_id),
        "records": str(_records(shipment, worker)),
    }
    return running("reader", [json.dumps(task)], shipment.log)


def _verdict(shipment: Shipment, readers: int) -> Verdict:
    records = [read_records(_records(shipment, worker)) for worker in range(readers)]
    return check(shipment.text.digests, records)


def _records(shipment: Shipment, worker: int) -> Path:
    return shipment.directory / f"records-{worker}"


def _url(addresses: list[str]) -> str:
    return f"telesto://{','.join(addresses)}"

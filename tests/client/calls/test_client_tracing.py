"""Traces of puts and handlers, in a process of its own: what OpenTelemetry is told holds for all of it."""

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from real_service import PATIENCE_S

BEGIN = """
import json, signal, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from telesto import AsyncTelestoClient, ClientOptions, NewMessage, QueueNotExistingError, TelestoClient

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("application")
url = sys.argv[1]
"""
END = """
for span in exporter.get_finished_spans():
    print(json.dumps({
        "name": span.name, "kind": span.kind.name, "status": span.status.status_code.name,
        "id": format(span.context.span_id, "016x"), "trace": format(span.context.trace_id, "032x"),
        "parent": span.parent and format(span.parent.span_id, "016x"),
        "attributes": dict(span.attributes), "events": [event.name for event in span.events],
    }))
"""
BLOCKING = """
with TelestoClient(url) as client:
    queue = client.declare_queue("orders")
    with tracer.start_as_current_span("sell"):
        queue.put({"order": 1}, headers={"tenant": "north"})

    def work(message):
        assert message.headers["tenant"] == "north" and "traceparent" in message.headers
        with tracer.start_as_current_span("pack"):
            pass
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("no box")

    queue.run_consumer(work, stop_signals=[signal.SIGTERM])
"""
ASYNCIO = """
import asyncio

async def main():
    async with AsyncTelestoClient(url) as client:
        queue = await client.declare_queue("orders")
        with tracer.start_as_current_span("sell"):
            await queue.put({"order": 1}, headers={"tenant": "north"})

        async def work(message):
            assert message.headers["tenant"] == "north" and "traceparent" in message.headers
            with tracer.start_as_current_span("pack"):
                await asyncio.sleep(0)
            signal.raise_signal(signal.SIGTERM)
            raise ValueError("no box")

        await queue.run_consumer(work, stop_signals=[signal.SIGTERM])

asyncio.run(main())
"""
OTHER_PUTS = """
with TelestoClient(url) as client:
    queue = client.declare_queue("many")
    queue.put_many([b"1", NewMessage(b"2", headers={"traceparent": "mine"})])
    first, second = queue.get_many(max_messages=2, timeout=60)
    assert second.headers == {"traceparent": "mine"}
    print(json.dumps(first.headers["traceparent"]))
    full = {f"name-{number}": "x" for number in range(64)}
    queue.put(b"3", headers=full)
    assert queue.get(timeout=60).headers == full
    prices = client.topic("prices")
    prices.subscribe()
    prices.put("wheat 210")
    print(json.dumps(prices.get(timeout=60).headers["traceparent"]))
    try:
        client.put_message(1 << 40, b"x")
    except QueueNotExistingError:
        pass
"""


@pytest.fixture
def traced(real_service_url: str) -> Any:
    def run(program: str) -> list[Any]:
        script = BEGIN + program + END
        command = [sys.executable, "-c", textwrap.dedent(script), real_service_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.mark.parametrize("program", [BLOCKING, ASYNCIO], ids=["blocking", "asyncio"])
def test_a_trace_goes_through_the_queue_to_the_handler(traced: Any, program: str) -> None:
    spans = {span["name"]: span for span in traced(program)}
    sell, send, process, pack = (spans[name] for name in ("sell", "send orders", "process orders", "pack"))
    assert len({span["trace"] for span in spans.values()}) == 1
    assert (send["parent"], process["parent"], pack["parent"]) == (sell["id"], send["id"], process["id"])
    assert (send["kind"], process["kind"]) == ("PRODUCER", "CONSUMER")
    assert send["attributes"] == {
        "messaging.system": "telesto",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
    }
    message_id = process["attributes"].pop("messaging.message.id")
    assert int(message_id) > 0
    assert process["attributes"] == {
        "messaging.system": "telesto",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.message.body.size": len(b'{"order":1}'),
        "telesto.message.attempt": 1,
    }
    assert (send["status"], process["status"], process["events"]) == ("UNSET", "ERROR", ["exception"])


def test_every_kind_of_put_is_a_span_that_its_messages_carry(traced: Any) -> None:
    first, price, *spans = traced(OTHER_PUTS)
    batch, full, topic, failed = spans
    assert (batch["name"], batch["attributes"]["messaging.batch.message_count"]) == ("send many", 2)
    assert batch["id"] in first
    assert full["name"] == "send many"
    assert topic["name"] == "send prices"
    assert topic["id"] in price
    assert (failed["name"], failed["status"]) == ("send", "ERROR")
    assert failed["attributes"]["error.type"] == "QueueNotExistingError"


def test_a_process_without_opentelemetry_does_not_import_it(real_service_url: str) -> None:
    program = (
        "import sys; from telesto import TelestoClient\n"
        "with TelestoClient(sys.argv[1]) as client:\n"
        "    client.declare_queue('plain').put(b'x')\n"
        "    assert client.queue('plain').get(timeout=60).headers == {}\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    command = [sys.executable, "-c", program, real_service_url]
    subprocess.run(command, check=True, timeout=PATIENCE_S)

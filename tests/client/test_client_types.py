"""A type checker finds misuse of the client: which line, and which error; correct use gives none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What a comment behind a line says: the codes of the errors that it gives.
EXPECTED = re.compile(r"# gives ([a-z-]+(?:, [a-z-]+)*)$")
ERROR = re.compile(r"^[^:]+:(\d+): error: .*\[([a-z-]+)\]$")

HEAD = """\
import asyncio
from datetime import UTC, datetime, timedelta
from signal import SIGTERM
from telesto import (
    AsyncTelestoClient, ClientOptions, LeasedMessage, Message, NewMessage, NewTopicMessage, QueueSettings,
    ReadMode, TelestoClient, TopicMessage,
)
"""

CORRECT = """\
def handle(message: Message) -> None: ...
def answer(message: Message) -> str | None: return message.text
async def handle_later(message: Message) -> None: ...
async def answer_later(message: Message) -> bytes: return message.body

def use(client: TelestoClient) -> None:
    orders = client.declare_queue("orders", max_attempts=3, lease=timedelta(minutes=1), backoff=0.5)
    client.create_queue("other", QueueSettings(expires=60))
    number: int = orders.put({"a": [1]}, priority=9, headers={"a": "b"}, delay=timedelta(1), expires=5)
    orders.put("text", at=datetime.now(UTC), dedup_key="a", partition_key="b")
    orders.put_many([b"a", "b", {"c": 1}, NewMessage(b"d", priority=3)])
    message: Message = orders.get()
    body: bytes = client.retrieve_message("orders").body
    perhaps: Message | None = orders.get(timeout=5, mode=ReadMode.TIME)
    if perhaps is not None:
        text: str = perhaps.text
    wait: float | None = None
    later: Message | None = orders.get(timeout=wait)
    many: list[Message] = orders.get_many(10, timeout=timedelta(seconds=1))
    response: Message = orders.request("a", timeout=5)
    client.reply(message, {"ok": True})
    orders.run_consumer(handle, concurrency=4, drain=5, stop_signals=(SIGTERM,))
    orders.serve_requests(answer)
    with orders.consume(keep_alive=True) as consumer:
        for leased in consumer:
            with leased as given:
                given.body.decode()
    prices = client.topic("prices")
    prices.subscribe(max_age=timedelta(days=1), existing="error")
    prices.put_many(["a", NewTopicMessage(b"b")])
    price: TopicMessage = prices.get()
    none: TopicMessage | None = prices.get(timeout=0)
    client.confirm([message, price])
    client.close(drain=timedelta(seconds=1))

async def use_later() -> None:
    options = ClientOptions(call_timeout=5)
    async with AsyncTelestoClient(name="a-{pid}", existing="take_over", options=options) as client:
        orders = client.queue("orders")
        number: int = await orders.put(b"a")
        one, two = await asyncio.gather(orders.put(b"a"), orders.put("b"))
        message: Message = await orders.get()
        again: Message = await client.retrieve_message(orders)
        perhaps: Message | None = await orders.get(timeout=0)
        price: TopicMessage = await client.topic("prices").get()
        await orders.run_consumer(handle_later)
        await orders.serve_requests(answer_later)
        async for browsed in orders.browse():
            text: str = browsed.text
        async with orders.consume() as consumer:
            async for leased in consumer:
                async with leased as given:
                    given.message.json()
"""

BLOCKING = """\
def handle_text(body: str) -> None: ...
def handle_two(message: Message, lease: int) -> None: ...
def answer(message: Message) -> object: ...

def use(client: TelestoClient) -> None:
    orders = client.queue("orders")
    orders.put(None)  # gives arg-type
    orders.put(object())  # gives arg-type
    orders.put(b"a", 9)  # gives call-arg
    orders.put(b"a", priority="9")  # gives arg-type
    orders.put(b"a", priorty=9)  # gives call-arg
    orders.put(b"a", delay="5s")  # gives arg-type
    orders.put(b"a", expires=datetime.now(UTC))  # gives arg-type
    orders.put(b"a", at="tomorrow")  # gives arg-type
    orders.put(b"a", headers={"a": 1})  # gives dict-item
    orders.put(b"a", dedup_key=7)  # gives arg-type
    orders.put()  # gives call-arg
    orders.put_many(b"a", b"b")  # gives call-arg
    orders.put_many([NewMessage()])  # gives call-arg
    text: str = orders.put(b"a")  # gives assignment
    text = orders.get().body  # gives assignment
    orders.get().body.encode()  # gives attr-defined
    orders.get(timeout=5).body  # gives union-attr
    orders.get(5)  # gives call-overload
    orders.get(timeout="5")  # gives call-overload
    orders.get(mode="time")  # gives call-overload
    client.retrieve_message("orders", timeout=1).text  # gives union-attr
    orders.get_many()  # gives call-arg
    orders.get_many(max_messages="10")  # gives arg-type
    orders.request(b"a", timeout="5")  # gives arg-type
    orders.request(b"a").result()  # gives attr-defined
    client.put(b"a")  # gives attr-defined
    client.topic("prices").put(b"a", priority=9)  # gives call-arg
    client.topic("prices").subscribe(existing="take_over")  # gives arg-type
    client.topic("prices").get(timeout=0).body  # gives union-attr
    client.topic(7)  # gives arg-type
    client.queue(None)  # gives arg-type
    client.declare_queue("orders", max_attempt=3)  # gives call-arg
    client.declare_queue("orders", lease="30s")  # gives arg-type
    client.create_queue("orders", {"lease": 30})  # gives arg-type
    orders.update(leese=30)  # gives call-arg
    QueueSettings(max_messages="1")  # gives arg-type
    ClientOptions(5)  # gives call-arg
    ClientOptions(call_timeout="5")  # gives arg-type
    ClientOptions(timeout=5)  # gives call-arg
    TelestoClient("telesto://a", "shop")  # gives call-arg
    TelestoClient(name="shop", existing="fence")  # gives arg-type
    TelestoClient(name="shop", delivery="twice")  # gives arg-type
    orders.run_consumer(handle_text)  # gives arg-type
    orders.run_consumer(handle_two)  # gives arg-type
    orders.run_consumer(handle_text(""))  # gives func-returns-value, arg-type
    orders.serve_requests(answer)  # gives arg-type
    orders.run_consumer(print, stop_signals=SIGTERM)  # gives arg-type
    client.confirm(orders.get())  # gives arg-type
    client.reply(b"a", b"b")  # gives arg-type
    client.close(5)  # gives call-arg
    for message in orders: ...  # gives attr-defined
    for leased in orders.consume():
        leased.body.encode()  # gives attr-defined
    async def later() -> None:
        await orders.put(b"a")  # gives misc
        async with client: ...  # gives attr-defined, attr-defined
"""

ASYNCIO = """\
def handle(message: Message) -> None: ...

async def use(client: AsyncTelestoClient) -> None:
    orders = client.queue("orders")
    number: int = orders.put(b"a")  # gives assignment
    orders.put(b"a")  # gives unused-coroutine
    orders.get().body  # gives attr-defined
    (await orders.get(timeout=5)).body  # gives union-attr
    (await client.topic("prices").get(timeout=5)).body  # gives union-attr
    (await client.retrieve_message("orders", timeout=5)).body  # gives union-attr
    text: str = (await orders.get()).body  # gives assignment
    await orders.put(b"a", delay="5s")  # gives arg-type
    await orders.run_consumer(handle)  # gives arg-type
    for browsed in orders.browse(): ...  # gives attr-defined
    with client: ...  # gives attr-defined, attr-defined
    client.close()  # gives unused-coroutine
    TelestoClient().queue(orders)  # gives arg-type
"""


def errors_of(program: Path) -> list[tuple[int, str]]:
    """What mypy finds: lines and codes."""
    mypy = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--namespace-packages"]
    checked = subprocess.run(
        [*mypy, "--follow-imports", "silent", "--hide-error-context", str(program)],
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [ERROR.match(line) for line in checked.stdout.splitlines() if ": error: " in line]
    assert None not in found, checked.stdout
    assert found or checked.stdout.startswith("Success"), checked.stdout + checked.stderr
    return sorted((int(match[1]), match[2]) for match in found if match is not None)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """The errors of each program."""
    folder = tmp_path_factory.mktemp("types")
    programs = {"correct": CORRECT, "blocking": BLOCKING, "asyncio": ASYNCIO}
    outcome = {}
    for name, text in programs.items():
        program = folder / f"{name}.py"
        program.write_text(HEAD + text)
        outcome[name] = errors_of(program)
    return outcome


def test_correct_use_gives_no_error(found: dict[str, list[tuple[int, str]]]) -> None:
    assert found["correct"] == []


@pytest.mark.parametrize(("name", "text"), [("blocking", BLOCKING), ("asyncio", ASYNCIO)])
def test_each_misuse_gives_its_error(name: str, text: str, found: dict[str, list[tuple[int, str]]]) -> None:
    lines = (HEAD + text).splitlines()
    expected = sorted(
        (number, code)
        for number, line in enumerate(lines, 1)
        if (match := EXPECTED.search(line))
        for code in match[1].split(", ")
    )
    differ = set(found[name]) ^ set(expected)
    assert not differ, "\n".join(
        f"{'missing' if (number, code) in expected else 'surprising'} {code}: {lines[number - 1].strip()}"
        for number, code in sorted(differ)
    )
    assert found[name] == expected

"""The changes of each customer are made in their order and once, also when a worker is killed among them."""

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from programs import Program, until
from telesto import TelestoClient

CUSTOMERS = [f"customer{number}" for number in range(12)]
STEPS = 10


def made(file: Path) -> list[tuple[str, str, int]]:
    """Read the changes in the order in which they were made, each with its worker."""
    with contextlib.closing(sqlite3.connect(file, timeout=60)) as database:
        return database.execute("SELECT customer, change, worker FROM changes ORDER BY place").fetchall()


def test_changes_stay_in_order_when_a_worker_is_killed(
    start: Callable[..., Program], telesto_client: TelestoClient, tmp_path: Path
) -> None:
    file = tmp_path / "accounts.db"
    steps = [f"step {number}" for number in range(STEPS)]
    lines = "".join(f"{customer} {step}\n" for step in steps for customer in CUSTOMERS)
    assert start("changes.py").finish(lines) == [f"{len(CUSTOMERS) * STEPS} changes"]

    # The first one never ends with what it has begun.
    killed = start("account_worker.py", str(file), "3600")
    killed.wait_for("begins: step 0")
    others = {start("account_worker.py", str(file), "0.01").process.pid for _ in range(2)}
    until(lambda: made(file))
    killed.kill()

    until(lambda: len(made(file)) == len(CUSTOMERS) * STEPS)
    changes: dict[str, list[str]] = defaultdict(list)
    for customer, change, worker in made(file):
        changes[customer].append(change)
        assert worker in others
    assert changes == dict.fromkeys(CUSTOMERS, steps)

    queue = telesto_client.queue("changes")
    until(lambda: queue.statistics().leased == 0)
    assert (queue.statistics().depth, queue.statistics().dead) == (0, 0)


def test_a_worker_that_is_told_to_end_leaves_the_rest_to_another_one(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    file = tmp_path / "accounts.db"
    first = start("account_worker.py", str(file), "0.2")
    start("changes.py").finish("".join(f"anna step {number}\n" for number in range(20)))
    first.wait_for("anna begins: step 1")
    first.stop()
    assert [change for _, change, _ in made(file)] == [f"step {number}" for number in range(len(made(file)))]

    start("account_worker.py", str(file), "0")
    until(lambda: len(made(file)) == 20)
    assert [change for _, change, _ in made(file)] == [f"step {number}" for number in range(20)]

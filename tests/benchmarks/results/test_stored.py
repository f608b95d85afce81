"""What the database holds at the end of a run, with planted faults: the audit against real tables."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from telesto.benchmarks.load.ceiling import CeilingPlan, PutCalls
from telesto.benchmarks.load.recorder import Recorder, read_records
from telesto.benchmarks.results.audit import Balance, Doubts, balance_of_queues
from telesto.benchmarks.results.stored import stored_in_queues

DELETE = "DELETE FROM telesto.messages WHERE queue_id = $1 AND substr(body, 1, 8) = $2"
COPY = """
INSERT INTO telesto.messages
SELECT (jsonb_populate_record(m, jsonb_build_object('message_id', m.message_id + 1000000))).*
FROM telesto.messages AS m WHERE queue_id = $1 AND substr(body, 1, 8) = $2
"""
SHORTEN = "UPDATE telesto.messages SET body = 'x' WHERE queue_id = $1 AND substr(body, 1, 8) = $2"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_planted_faults_in_the_tables_are_found(
    connection: asyncpg.Connection, database_url: str, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        await connection.execute("SELECT telesto.create_queue($1)", name)
    queue_ids = [row[0] for row in await connection.fetch("SELECT queue_id FROM telesto.queues ORDER BY 1")]
    first, second = queue_ids
    plan = CeilingPlan(database_url, [first], False, 1, 10, 0.0, str(tmp_path / "records"))
    with Recorder(Path(plan.records)) as recorder:
        calls = PutCalls(connection, plan, recorder)
        await calls.prepare()
        await calls.call()
    put = [int(identity) for identity in read_records(Path(plan.records))["identity"]]

    async def audit() -> Balance:
        stored = await stored_in_queues(connection, queue_ids)
        return balance_of_queues([], np.array(put, np.uint64), stored, Doubts())

    whole = await audit()
    assert whole.clean
    assert (whole.put, whole.left) == (10, 10)
    assert len((await stored_in_queues(connection, [second])).waiting) == 0

    await connection.execute(COPY, first, put[3].to_bytes(8))
    await connection.execute(DELETE, first, put[7].to_bytes(8))
    found = await audit()
    assert (found.lost, found.duplicated, found.foreign) == (1, 1, 0)
    assert found.examples == (put[7], put[3])

    await connection.execute(SHORTEN, first, put[0].to_bytes(8))
    with pytest.raises(ValueError, match="the benchmarks did not put"):
        await audit()

"""A worker whose tasks work in the database and are acknowledged there, until it is killed."""

import asyncio
import json
import sys
from typing import Any

from telesto.tasks import App, Worker

_given = json.loads(sys.argv[1])
app = App(_given["url"], database=_given["database"])


@app.task(queue=_given["queue"], transaction=True, lease=2, max_attempts=1_000, backoff=0)
def plain(connection: Any, number: int) -> None:
    connection.execute("INSERT INTO work VALUES (%s)", [number])
    print(number, flush=True)


@app.task(queue=_given["queue"], transaction=True)
async def coroutine(connection: Any, number: int) -> None:
    await connection.execute("INSERT INTO work VALUES (%s)", [number])
    print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(Worker(app, concurrency=2).run())

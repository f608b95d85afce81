"""The end of a run: every client that read comes back for what it left, then everything is read."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from telesto.client import AsyncTelestoClient, ClientOptions

from .clients.history import Began, Ended, Recorder
from .clients.reader import Call

_BATCH = 200
#: No process has run so often; the drain's hand-overs are those of a last process of each reader.
_RUN = 1_000_000


async def drain(
    url: str, options: Mapping[str, Any], directory: Path, names: Iterable[str], queue_ids: list[int]
) -> None:
    """Empties the queues, once as each reader, who alone may have some of the messages."""
    for name in names:
        recorder = Recorder(directory, name, _RUN)
        async with AsyncTelestoClient(url, options=ClientOptions(**options), name=name) as client:
            await client.connect()
            recorder.write(Began, client_id=client.client_id)
            for queue_id in queue_ids:
                await _empty(client, recorder, queue_id)
        recorder.write(Ended)
        recorder.close()


async def _empty(client: AsyncTelestoClient, recorder: Recorder, queue_id: int) -> None:
    messages = None
    number = queue_id * _RUN
    while messages is None or messages:
        number += 1
        call = Call(recorder, number, queue_id, 0.0)
        call.began(client)
        messages = await client.queue(queue_id).get_many(max_messages=_BATCH, timeout=0)
        call.returned(client, messages)
        if messages:
            call.confirmed(client)

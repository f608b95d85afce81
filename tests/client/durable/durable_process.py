"""A process with a durable client, for test_durable_processes: does as it is told, dies where it should."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shells import opening
from telesto.client import ClientOptions
from telesto.client.durable.durable_session import DurableSession
from telesto.client.durable.state_directory import StateDirectory
from telesto.client.durable.state_log import StateLog


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def before(action: Callable[..., Any]) -> Callable[..., Any]:
    return die


def after(action: Callable[..., Any]) -> Callable[..., Any]:
    def then_die(*arguments: Any) -> None:
        action(*arguments)
        die()

    return then_die


#: Where the process dies: what is called then, and how.
POINTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "before the flush": (StateDirectory, "write", before),
    "after the flush": (StateDirectory, "write", after),
    "while compacting": (Path, "rename", before),
    "compacted": (Path, "rename", after),
    "at the answer": (DurableSession, "feed", before),
    "after the answer": (DurableSession, "feed", after),
    "before the return": (DurableSession, "take", before),
}


def arm(point: str) -> None:
    """From now on the process dies at this point."""
    owner, name, how = POINTS[point]
    if owner is Path:
        StateLog.write = compacting(StateLog.write)  # type: ignore[method-assign]
    setattr(owner, name, how(getattr(owner, name)))


def compacting(write: Callable[..., Any]) -> Callable[..., Any]:
    def write_and_compact(log: Any, changes: Any) -> None:
        log.replace_at = 0
        write(log, changes)

    return write_and_compact


def main(kind: str, url: str, state_dir: str, queue_id: int, point: str, actions: list[str]) -> None:
    """Does these things; what they tell goes to a file beside the state."""
    with opening(kind) as open_client, Path(f"{state_dir}.told").open("w", buffering=1) as told:
        # Nothing is written or confirmed on the side, so that the process dies where it should.
        client = open_client(url, ClientOptions(confirm_after=3600), state_dir=state_dir)
        client.connect()
        for action in actions:
            verb, *rest = action.split()
            if verb == "arm":
                arm(point)
            elif verb == "put":
                client.put_message(queue_id, rest[0].encode())
            elif verb == "get":
                message = client.retrieve_message(queue_id, timeout=0)
                print(f"{message.text} {message.redelivered}" if message else "nothing", file=told)
            elif verb == "recover":
                for put in client.recovered_puts():
                    print(f"{put.message.body.decode()} {put.error}", file=told)
            elif verb == "die":
                die()

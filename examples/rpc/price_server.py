"""Answer requests for prices in several processes: `python price_server.py PROCESSES SECONDS`."""

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from telesto import Message, RequestRefusedError, TelestoClient

PRICES = {"nails": 210, "glue": 350, "amber": 9000}


class NoPriceError(RequestRefusedError):
    """The answer to who asks for something that has no price."""


def serve(seconds: float) -> None:
    """Serve requests until SIGTERM, in one of the processes; the price of amber takes so many seconds."""

    def price(request: Message) -> dict[str, int]:
        if request.text == "amber":
            print(f"{os.getpid()} looks for amber", flush=True)
            time.sleep(seconds)
        if request.text not in PRICES:
            raise NoPriceError(f"{request.text} has no price")
        return {"price": PRICES[request.text], "process": os.getpid()}

    # The client is made here, for a client belongs to one process.
    with TelestoClient(name="prices-{pid}") as client:
        queue = client.declare_queue("prices")
        print(f"{os.getpid()} serves", flush=True)
        queue.serve_requests(price, concurrency=8, stop_signals=(signal.SIGTERM, signal.SIGINT))


def keep_running(processes: int, seconds: float, ended: Connection) -> None:
    """Keep so many processes running until there is the end of something to read."""
    spawning = multiprocessing.get_context("spawn")

    def start() -> SpawnProcess:
        process = spawning.Process(target=serve, args=(seconds,))
        process.start()
        return process

    running = [start() for _ in range(processes)]
    while ended not in (events := wait([ended, *(process.sentinel for process in running)])):
        running = [start() if process.sentinel in events else process for process in running]
    for process in running:
        process.terminate()  # each ends what it has begun
    for process in running:
        process.join()


def main(processes: str, seconds: str = "1") -> None:
    """Serve until SIGTERM or Ctrl-C."""
    ended, ending = multiprocessing.Pipe(duplex=False)

    def end(*_: object) -> None:
        if not ending.closed:
            ending.close()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    keep_running(int(processes), float(seconds), ended)


if __name__ == "__main__":
    main(*sys.argv[1:])

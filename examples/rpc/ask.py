"""Ask for prices: `python ask.py SECONDS ITEM...`."""

import sys
from concurrent.futures import ThreadPoolExecutor

from telesto import Queue, RemoteError, RequestTimeoutError, TelestoClient


def ask(prices: Queue, item: str, seconds: float) -> str:
    """Ask for one price, and tell what came of it."""
    try:
        answer = prices.request(item, timeout=seconds).json()
    except RemoteError as error:  # the handler has raised NoPriceError, or has failed
        return f"{item}: {error.type}, {error.text}"
    except RequestTimeoutError:  # nobody handles the request any more, unless somebody has begun it
        return f"{item}: no answer"
    return f"{item}: {answer['price']} (process {answer['process']})"


def main(seconds: str, *items: str) -> None:
    """Ask for all at the same time, over one connection."""
    with TelestoClient() as client, ThreadPoolExecutor(max_workers=16) as threads:
        prices = client.declare_queue("prices")
        for answer in threads.map(lambda item: ask(prices, item, float(seconds)), items):
            print(answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

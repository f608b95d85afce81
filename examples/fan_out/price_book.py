"""Keep the price ticks of a topic in a file of SQLite: `python price_book.py NAME FILE`.

Each name is a subscriber of its own, and gets every tick. What comes while it is away waits for it.
"""

import contextlib
import signal
import sqlite3
import sys

from telesto import ClientOptions, TelestoClient


def main(name: str, file: str) -> None:
    """Subscribe, and keep what comes until SIGTERM."""
    # A tick counts as taken when the program says so, which it does when the tick is in the file: if it
    # counted as taken when the loop gets it, it could be lost when the process is killed in between.
    options = ClientOptions(auto_confirm=False)
    with (
        contextlib.closing(sqlite3.connect(file)) as database,
        TelestoClient(name=name, options=options) as client,
    ):
        database.execute(
            "CREATE TABLE IF NOT EXISTS ticks (number INTEGER PRIMARY KEY, product TEXT, price INTEGER)"
        )
        prices = client.topic("prices")
        prices.subscribe(max_behind=100_000)  # again, it changes nothing
        print(f"{name} is there", flush=True)
        for message in prices.messages(stop_signals=(signal.SIGTERM,)):
            tick = message.json()
            with database:
                # After a crash the last ticks may come again, under the numbers that they had.
                database.execute(
                    "INSERT OR IGNORE INTO ticks VALUES (?, ?, ?)",
                    (message.number, tick["product"], tick["price"]),
                )
            client.confirm([message])
            print(f"{name} has {message.number}: {tick['product']} {tick['price']}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

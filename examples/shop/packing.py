"""Pack the orders, each exactly once: the message is acknowledged in the transaction that packs."""

import os
import signal
import sys
import time

from psycopg_pool import ConnectionPool

from telesto import Message, TelestoClient


def main(seconds: str = "0") -> None:
    """Pack until SIGTERM; an order takes so many seconds."""
    with (
        ConnectionPool(os.environ["SHOP_DATABASE_URL"], kwargs={"autocommit": True}) as pool,
        TelestoClient(name="packing-{pid}") as client,
    ):

        def pack(message: Message) -> None:
            order = message.json()
            with pool.connection() as database, database.transaction():
                # First the acknowledgement: if the message is somebody else's by now, it raises.
                database.execute("SELECT telesto.ack(%s, %s, %s)", message.lease)
                print(f"packing {order['item']}", flush=True)
                time.sleep(float(seconds))  # stands for the work
                database.execute(
                    "UPDATE orders SET packages = packages + 1 WHERE order_id = %s", (order["order_id"],)
                )
            print(f"packed {order['item']}", flush=True)

        queue = client.queue("orders")
        queue.run_consumer(
            pack, concurrency=4, ack_in_database=True, stop_signals=(signal.SIGTERM, signal.SIGINT)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

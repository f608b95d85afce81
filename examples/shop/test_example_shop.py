"""No order is without its message, none is packed twice, also when the worker is killed in the middle."""

import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import psycopg
import pytest

from programs import Program, until
from telesto import TelestoClient

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


def call(method: str, url: str) -> tuple[int, Any]:
    """Call the shop, and return the status and the answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_each_order_is_packed_once_although_the_worker_is_killed(
    start: Callable[..., Program], telesto_database_url: str, telesto_client: TelestoClient
) -> None:
    def start_here(*command: str, with_errors: bool = False) -> Program:
        return start(*command, with_errors=with_errors, SHOP_DATABASE_URL=telesto_database_url)

    shop = start_here("-m", "uvicorn", "shop:app", "--port=0", with_errors=True)
    found = re.search(r"http://[\d.:]+", shop.wait_for("Uvicorn running on"))
    assert found is not None
    orders = f"{found[0]}/orders"

    assert call("POST", f"{orders}?item=nails") == (200, {"order_id": 1, "item": "nails", "packages": 0})
    assert call("POST", f"{orders}?item=dynamite") == (400, {"detail": "not sold here"})
    assert call("POST", f"{orders}?item=glue")[0] == 200

    killed = start_here("packing.py", "3600")
    killed.wait_for("packing nails")
    killed.kill()
    assert call("GET", f"{orders}/1") == (200, {"order_id": 1, "item": "nails", "packages": 0})

    worker = start_here("packing.py")
    with psycopg.connect(telesto_database_url, autocommit=True) as database:

        def packed() -> list[Any]:
            return database.execute("SELECT item, packages FROM orders ORDER BY order_id").fetchall()

        until(lambda: all(packages for _, packages in packed()))
        # The transaction is over before the client has told that it is done with the message.
        queue = telesto_client.queue("orders")
        until(lambda: queue.statistics().leased == 0)
        worker.stop()
        assert packed() == [("nails", 1), ("glue", 1)]
        assert (queue.statistics().depth, queue.statistics().put_total) == (0, 2)

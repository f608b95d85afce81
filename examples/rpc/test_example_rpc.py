"""Requests are answered, refused or out of time, and a killed process leaves its request to another one."""

import os
import re
import signal
from collections.abc import Callable

from programs import Program, until
from telesto import TelestoClient


def serving(server: Program) -> int:
    """Wait until one more process of a server serves, and return its id."""
    return int(server.wait_for(" serves").split()[0])


def test_requests_are_answered_or_refused(start: Callable[..., Program]) -> None:
    server = start("price_server.py", "2")
    processes = {serving(server), serving(server)}
    assert len(processes) == 2

    nails, ghost, glue = start("ask.py", "60", "nails", "ghost", "glue").finish()
    for answer, price in ((nails, "nails: 210"), (glue, "glue: 350")):
        found = re.fullmatch(rf"{price} \(process (\d+)\)", answer)
        assert found is not None
        assert int(found[1]) in processes
    assert ghost == "ghost: NoPriceError, ghost has no price"


def test_without_a_server_the_time_is_up(
    start: Callable[..., Program], telesto_client: TelestoClient
) -> None:
    assert start("ask.py", "0.5", "amber").finish() == ["amber: no answer"]
    # A server that comes later does not handle what nobody waits for.
    prices = telesto_client.queue("prices")
    until(lambda: prices.statistics().depth == 0)
    server = start("price_server.py", "1")
    assert start("ask.py", "60", "nails").finish()[0].startswith("nails: 210")
    assert not any("amber" in line for line in server.stop())


def test_a_slow_handler_runs_out_of_time(start: Callable[..., Program]) -> None:
    server = start("price_server.py", "1", "3600")
    serving(server)
    assert start("ask.py", "2", "amber").finish() == ["amber: no answer"]


def test_a_request_is_answered_although_its_server_is_killed(start: Callable[..., Program]) -> None:
    killed = start("price_server.py", "1", "3600")
    asking = start("ask.py", "60", "amber")
    killed.wait_for("looks for amber")
    other = start("price_server.py", "1", "0")
    process = serving(other)
    killed.kill()
    assert asking.finish() == [f"amber: 9000 (process {process})"]


def test_a_process_that_dies_is_replaced(start: Callable[..., Program]) -> None:
    server = start("price_server.py", "1")
    first = serving(server)
    os.kill(first, signal.SIGKILL)
    second = serving(server)
    assert second != first
    assert start("ask.py", "60", "glue").finish() == [f"glue: 350 (process {second})"]
    server.stop()

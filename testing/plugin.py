"""The plugin for pytest: a service of its own for each test that asks for one.

pytest loads this wherever Telesto is installed, so it imports nothing of Telesto and starts nothing before
one of its fixtures is used.
"""

from __future__ import annotations

import fcntl
import functools
import inspect
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from telesto.client import TelestoClient
    from telesto.client.aio.client import AsyncTelestoClient

OPTION = "--telesto-url"
VARIABLE = "TELESTO_TEST_URL"
#: How much of its log is shown when the service does not start, in bytes.
_SHOWN = 4_000
#: How long the service may take to end, in seconds.
_END_S = 30.0


class Services:
    """The process that gives fresh services, see `service`."""

    def __init__(self, data_dir: Path, lock: int, log: Path) -> None:
        """``lock`` is the descriptor of the directory's lock, which the process holds as long as it lives."""
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "telesto.testing.service", str(data_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                pass_fds=[lock],
                env={name: value for name, value in os.environ.items() if not name.startswith("TELESTO_")},
                start_new_session=True,  # Ctrl-C is for pytest, which then ends it
            )

    def fresh(self) -> tuple[str, str]:
        """Ends the service that was given last; returns the URLs of a new one and of its database."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(file=self._process.stdin, flush=True)
            urls = self._process.stdout.readline().split()
        except BrokenPipeError:
            urls = []
        if not urls:
            said = self._log.read_bytes()[-_SHOWN:].decode(errors="replace")
            raise RuntimeError(
                f"the service for the tests has not started, or has ended ({self._log}):\n{said}"
            )
        return urls[0], urls[1]

    def end(self) -> None:
        """Ends it, and PostgreSQL with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended by itself
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.getgroup("telesto").addoption(
        OPTION,
        metavar="URL",
        help=f"use this running service of Telesto as it is, not a fresh one for each test (or {VARIABLE})",
    )


@pytest.fixture(scope="session")
def telesto_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Starts what gives fresh services, for `telesto_url`; ends it with the session."""
    with ExitStack() as stack:
        data_dir, lock = stack.enter_context(_data_directory())
        services = Services(data_dir, lock, tmp_path_factory.mktemp("telesto") / "service.log")
        stack.callback(services.end)
        yield services


@pytest.fixture
def telesto_service(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    """Gives the URLs of a service for the test and of its database; that of a given one's is not known."""
    given = request.config.getoption(OPTION) or os.environ.get(VARIABLE)
    if given:
        return str(given), None
    services: Services = request.getfixturevalue("telesto_services")
    return services.fresh()


@pytest.fixture
def telesto_url(telesto_service: tuple[str, str | None]) -> Iterator[str]:
    """Gives the URL of a service that holds nothing, or of the one that ``--telesto-url`` names, as it is.

    Afterwards it closes the clients by which applications (``App``) have put tasks: the next test has another
    service.
    """
    yield telesto_service[0]
    if apps := sys.modules.get("telesto.tasks.app"):
        apps.close_all()


@pytest.fixture
def telesto_database_url(telesto_service: tuple[str, str | None]) -> str:
    """Gives the URL of the PostgreSQL database of that service, as its owner."""
    database_url = telesto_service[1]
    if database_url is None:
        pytest.skip(f"the database of the service that {OPTION} or {VARIABLE} names is not known")
    return database_url


@pytest.fixture
def telesto_client(telesto_url: str) -> Iterator[TelestoClient]:
    """Gives a connected client of that service, closed after the test."""
    from telesto.client import TelestoClient

    with TelestoClient(telesto_url) as client:
        client.connect()
        yield client


@pytest.fixture
def async_telesto_client(request: pytest.FixtureRequest, telesto_url: str) -> AsyncTelestoClient:
    """Gives an asyncio client of that service.

    A test that is a coroutine gets it connected, whatever runs it, and it is closed when the test function
    ends. Any other test connects and closes it in a loop of its own.
    """
    from telesto.client.aio.client import AsyncTelestoClient

    client = AsyncTelestoClient(telesto_url)
    item: Any = request.node
    test = item.obj
    if inspect.iscoroutinefunction(test):
        # Fixtures that are coroutines need a plugin that runs them; so the test itself connects and closes.
        @functools.wraps(test)
        async def connected(*args: Any, **kwargs: Any) -> Any:
            async with client:
                await client.connect()
                return await test(*args, **kwargs)

        item.obj = connected
    return client


@contextmanager
def _data_directory() -> Iterator[tuple[Path, int]]:
    """Gives a data directory that no other process uses, and its lock; the next run starts sooner with it."""
    if "XDG_CACHE_HOME" in os.environ:
        cache = Path(os.environ["XDG_CACHE_HOME"])
    elif os.geteuid() == 0:
        # PostgreSQL has an account of its own then, which could not pass through root's home.
        cache = Path("/var/cache")
    else:
        cache = Path.home() / ".cache"
    base = cache / "telesto-testing"
    base.mkdir(parents=True, exist_ok=True, mode=0o711)
    for number in itertools.count():
        with (base / f"{number}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield base / str(number), lock.fileno()
            return

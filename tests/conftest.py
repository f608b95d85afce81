"""The database of the tests: one PostgreSQL per run, one template with the schema, one clone of it per test.

`TELESTO_TEST_DATABASE_URL` names a server to use (as a superuser) instead of the embedded one, `--postgres` a
release; the end of a run says what it ran on. Nothing is started unless a test asks for it. Under
pytest-xdist the workers share the server: the first that needs it starts and owns it, every user holds a
shared lock, and the owner ends it when it is alone.
"""

import contextlib
import faulthandler
import fcntl
import json
import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

import servers
from secret_search import leaking_files, pytest_runtest_logreport

__all__ = ["pytest_runtest_logreport"]

# A test must not fail because the machine is busy with others.
settings.register_profile("telesto", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("telesto")

SERVER_URL_VARIABLE = "TELESTO_TEST_DATABASE_URL"
RELEASE_OPTION = "--postgres"
OLDEST_RELEASE = 15
SOURCE = pytest.StashKey[servers.Source]()
#: What the servers of the tests were, as each process of the run has seen it.
COVERED = pytest.StashKey[set[str]]()
#: What the workers share, ended with the session: at a fixture's end the owner would wait for the others
#: within the time limit of its last test.
SHARED = pytest.StashKey[contextlib.ExitStack]()
#: Where a process of the run that hangs says it, whatever captures its output.
STDERR = pytest.StashKey[IO[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        RELEASE_OPTION,
        type=int,
        metavar="RELEASE",
        help="run on a PostgreSQL of this major release: in a container where Docker answers, "
        "else Debian's or the embedded one",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COVERED] = set()
    config.stash[SHARED] = contextlib.ExitStack()
    config.stash[STDERR] = os.fdopen(os.dup(2), "w")
    config.add_cleanup(config.stash[STDERR].close)
    release = config.getoption(RELEASE_OPTION)
    if release is None:
        config.stash[SOURCE] = servers.embedded()
        return
    if SERVER_URL_VARIABLE in os.environ:
        raise pytest.UsageError(f"either {RELEASE_OPTION} or {SERVER_URL_VARIABLE}")
    if release < OLDEST_RELEASE:
        raise pytest.UsageError(f"{RELEASE_OPTION} {release}: Telesto needs PostgreSQL {OLDEST_RELEASE}")
    try:
        config.stash[SOURCE] = servers.of_release(release)
    except servers.ReleaseMissingError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watch the end of a failed test too: for debuggers, pytest and pytest-timeout stop at a failure."""
    limit_s = float(node.config.getini("faulthandler_timeout"))
    if isinstance(node, pytest.Item) and limit_s > 0 and not node.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(limit_s, file=node.config.stash[STDERR], exit=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[SHARED].close()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["covered"] = sorted(session.config.stash[COVERED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of a parallel run has seen; one that crashed tells nothing."""
    node.config.stash[COVERED].update(getattr(node, "workeroutput", {}).get("covered", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for server in sorted(config.stash[COVERED]):
        terminalreporter.write_line(f"These tests ran on {server}.")


@pytest.fixture(scope="session", autouse=True)
def _no_secret_in_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the tests of a process, their services and commands have left in files has no password."""
    yield
    assert not list(leaking_files(tmp_path_factory.getbasetemp()))


@pytest.fixture(autouse=True)
def _same_log_level() -> Iterator[None]:
    """What a test configures for a middleware in its own process does not hide what the next one logs."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Give a directory for an embedded server, not made yet, that the server's account can reach.

    Not below `tmp_path`, whose parents pytest closes to all other accounts.
    """
    with servers.scratch_directory() as scratch:
        yield scratch / "data"


@pytest.fixture(scope="module")
def module_data_dir() -> Iterator[Path]:
    """Give a directory as `data_dir` does, to be shared by the tests of a module."""
    with servers.scratch_directory() as scratch:
        yield scratch / "data"


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> str:
    """Give the URL of a running PostgreSQL, as a superuser."""
    if given := os.environ.get(SERVER_URL_VARIABLE):
        pytestconfig.stash[COVERED].add(f"PostgreSQL {_version(given)} ({SERVER_URL_VARIABLE})")
        return given
    source = pytestconfig.stash[SOURCE]
    url = pytestconfig.stash[SHARED].enter_context(_shared(tmp_path_factory, "server", source.run))
    pytestconfig.stash[COVERED].add(f"PostgreSQL {_version(url)} ({source.name})")
    return url


@pytest.fixture(scope="session")
def template_database(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> str:
    """Give the name of a database that holds the schema and nothing else."""
    return pytestconfig.stash[SHARED].enter_context(
        _shared(tmp_path_factory, "template", lambda: _template(postgres_url))
    )


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """Give the URL of a fresh database with the schema, dropped after the test."""
    with _database(postgres_url, f"TEMPLATE {template_database} STRATEGY wal_log") as url:
        # Else tests that run at the same time would have one service, and their clients one name.
        _execute(url, "UPDATE telesto.installation SET incarnation = gen_random_uuid()")
        yield url


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """Give the URL of a fresh database without the schema, dropped after the test."""
    with _database(postgres_url, "TEMPLATE template0") as url:
        yield url


@contextlib.contextmanager
def _template(server_url: str) -> Iterator[str]:
    from telesto.db import schema

    with _database(server_url, "TEMPLATE template0", prefix="telesto_template") as url:
        schema.upgrade(url)
        yield urlsplit(url).path.lstrip("/")


@contextlib.contextmanager
def _database(server_url: str, how: str, prefix: str = "telesto_test") -> Iterator[str]:
    name = f"{prefix}_{uuid.uuid4().hex}"
    _execute(server_url, f"CREATE DATABASE {name} {how}")
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _version(url: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute("SHOW server_version").fetchone()[0]


def _execute(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@contextlib.contextmanager
def _shared(factory: pytest.TempPathFactory, name: str, make: Any) -> Iterator[str]:
    """Share a resource, told by a string, among the workers of a run; who comes first makes and ends it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    told = root / f"{name}.json"
    with (root / f"{name}.users").open("a") as users, contextlib.ExitStack() as owned:
        with _locked(root / f"{name}.lock"):
            fcntl.flock(users, fcntl.LOCK_SH)
            if told.exists():
                value = json.loads(told.read_text())
            else:
                value = owned.enter_context(make())
                told.write_text(json.dumps(value))
                owned.callback(told.unlink)
                owned.callback(fcntl.flock, users, fcntl.LOCK_EX)  # waits until all others are done
        try:
            yield value
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file

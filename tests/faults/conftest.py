"""The mark of the tests that hurt processes: ``pytest -m "not faults"`` leaves them out."""

import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio

from .steps.service import Service, running


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "faults: starts, stops and kills processes; takes a while")


@pytest.fixture(scope="module")
def module_database_url(postgres_url: str, template_database: str) -> Iterator[str]:
    """Gives a database with the schema for the tests of a module."""
    name = f"telesto_faults_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template_database} STRATEGY wal_log".encode())
        try:
            yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_service(
    module_database_url: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Service]:
    """Gives two middlewares for the tests of a module, with its SETTINGS: each takes a while to start."""
    settings = getattr(request.module, "SETTINGS", {})
    async with running(tmp_path_factory.mktemp("service"), module_database_url, **settings) as service:
        await service.until_all_serve()
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def service(module_service: Service) -> AsyncIterator[Service]:
    """Gives the service of the module; after the test it is mended and its rows are checked."""
    yield module_service
    await module_service.recover()
    await module_service.settled()

"""The PostgreSQL that the tests run on: the embedded one, or one of a given release, wherever it is found."""

import contextlib
import gc
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_FREE_MIN = 2 << 30
# Small, because every test database that is dropped costs a pass over the cache; and to compress the pages
# that a new one writes to the log takes half of the time to make it.
TEST_SETTINGS = {
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "min_wal_size": "80MB",
    "wal_compression": "off",
}
DEBIAN = Path("/usr/lib/postgresql")


class ReleaseMissingError(Exception):
    """The release is not to be had on this machine; the text says what is missing."""


@dataclass(frozen=True)
class Source:
    """Where servers come from: for the reader, and a context that runs one and gives a superuser's URL."""

    name: str
    run: Callable[[], AbstractContextManager[str]]


def embedded() -> Source:
    """Give servers as the service starts its own."""
    return Source("embedded", _run_binaries)


def of_release(release: int, debian: Path = DEBIAN) -> Source:
    """Give servers of a major release: in a container, else of Debian's programs, else the embedded one.

    Raises:
        ReleaseMissingError: there is none of them.
    """
    from telesto.db.embedded.binaries import find_binaries, package_directories
    from telesto.db.embedded.server import BinariesMissingError

    silent = _docker_trouble()
    if silent is None:
        return Source(f"container {_image(release)}", partial(_run_container, release))
    missing = [f"Docker does not answer ({silent})"]
    for directory in (debian / str(release) / "bin", *package_directories()):
        try:
            found = find_binaries(directory)
        except BinariesMissingError as error:
            missing.append(str(error))
            continue
        if found.major == release:
            return Source(f"programs in {directory}", partial(_run_binaries, directory))
        missing.append(f"the one in {directory} is {found.major}")
    raise ReleaseMissingError(
        f"no PostgreSQL {release} for the tests: {'; '.join(missing)}. "
        f"Start Docker, or install the package postgresql-{release}."
    )


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """Give a directory that the server's account can reach, in memory where there is space."""
    in_memory = MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free >= MEMORY_DISK_FREE_MIN
    scratch = Path(tempfile.mkdtemp(prefix="telesto-test-", dir=MEMORY_DISK if in_memory else None))
    scratch.chmod(0o711)
    try:
        yield scratch
    finally:
        _end_servers_in(scratch / "data")
        shutil.rmtree(scratch)


def _end_servers_in(directory: Path) -> None:
    """End the server of an owner that a test killed; it may still be writing."""
    from telesto.db.embedded.process import end_leftovers

    end_leftovers(directory / "postgresql")


@contextlib.contextmanager
def _run_binaries(directory: Path | None = None) -> Iterator[str]:
    from telesto.db.embedded.server import EmbeddedServer

    with (
        scratch_directory() as scratch,
        EmbeddedServer(scratch / "data", binaries=directory, settings=TEST_SETTINGS) as server,
    ):
        yield server.url


def _image(release: int) -> str:
    return f"postgres:{release}"


def _docker_trouble() -> str | None:
    """Say why Docker does not answer; None when it does."""
    from docker.errors import DockerException
    from testcontainers.core.docker_client import DockerClient

    with warnings.catch_warnings():
        # Where nothing answers, the client leaves its socket to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = DockerClient().client
            try:
                client.ping()
            finally:
                client.close()
        except DockerException as error:
            return str(error)
        finally:
            gc.collect()
    return None


@contextlib.contextmanager
def _run_container(release: int) -> Iterator[str]:
    from testcontainers.community.postgres import PostgresContainer

    from telesto.db.embedded.settings import free_mib, memory_mib, queue_settings

    settings = {**queue_settings(memory_mib(), free_mib(Path("/"))), **TEST_SETTINGS}
    command = ["postgres", *(part for name, value in settings.items() for part in ("-c", f"{name}={value}"))]
    # PostgreSQL's parallel workers share memory through /dev/shm, of which a container has 64 MiB by default.
    container = PostgresContainer(_image(release), driver=None, shm_size="256m").with_command(command)
    with container:
        yield container.get_connection_url()

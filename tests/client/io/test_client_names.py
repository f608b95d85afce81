"""One process of a machine at a time is a client of one name; a second one is told so when it connects."""

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer
from faults.waiting import wait_until
from shells import Open, opening
from started import STARTED, end
from telesto.client import (
    AsyncTelestoClient,
    ForkedError,
    InvalidParameterError,
    NameInUseError,
    SessionFencedError,
    TelestoClient,
)

PROGRAM = Path(__file__).with_name("naming_process.py")
PATIENCE_S = 60.0
kinds = pytest.mark.parametrize("kind", ["blocking", "asyncio"])


@pytest.fixture(autouse=True)
def lock_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the locks of this test are, in this process and those that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path / f"telesto-{os.geteuid()}"


@pytest.fixture
def open_client() -> Iterator[Open]:
    with opening("blocking") as open_one:
        yield open_one


class Program:
    """A process that is a client."""

    def __init__(self, kind: str, url: str, name: str) -> None:
        self.process = subprocess.Popen(
            [*STARTED, sys.executable, str(PROGRAM), kind, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()

    def calls(self) -> str:
        """Has it call the service; returns what it tells of that."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def start(fake_server: FakeServer) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start_one(kind: str, name: str = "shop") -> Program:
        programs.append(Program(kind, fake_server.url, name))
        return programs[-1]

    yield start_one
    for program in programs:
        end(program.process)
        program.process.communicate()


@kinds
def test_a_second_process_is_told_who_has_the_name(start: Callable[..., Program], kind: str) -> None:
    first = start(kind)
    assert first.said == "shop"
    second = start(kind)
    assert second.process.wait(PATIENCE_S) == 1
    assert second.said.startswith("NameInUseError: the client's name 'shop' is in use on this machine by ")
    for part in (f"process {first.process.pid};", "{pid}", "{random}", 'existing="take_over"'):
        assert part in second.said
    assert first.calls() == "0"
    assert start(kind, "shop-{pid}").said != start(kind, "shop-{pid}").said
    assert start(kind, "other").said == "other"


@kinds
def test_a_name_is_free_at_once_when_its_process_is_killed(start: Callable[..., Program], kind: str) -> None:
    for _ in range(3):
        program = start(kind)
        assert program.said == "shop"
        program.kill()
    stopped = start(kind)
    assert stopped.said == "shop"
    stopped.process.send_signal(signal.SIGSTOP)
    assert start(kind).said.startswith("NameInUseError")
    stopped.kill()
    assert start(kind).said == "shop"


def test_two_clients_of_one_process_are_told_too(open_client: Open, fake_server: FakeServer) -> None:
    first = open_client(fake_server.url, name="shop")
    first.connect()
    for arguments in ({"name": "shop"}, {"name": "shop", "existing": "use"}):
        second = open_client(fake_server.url, **arguments)
        with pytest.raises(NameInUseError, match=rf"another client of this process \({os.getpid()}\)"):
            second.get_queues()
        with pytest.raises(NameInUseError):
            second.connect()
    assert first.get_queues() == []
    first.close()
    assert second.connect().name == "shop"


def test_a_client_by_its_id_is_locked_too(open_client: Open, fake_server: FakeServer) -> None:
    record = open_client(fake_server.url, name="shop-{pid}").connect()
    open_client(fake_server.url, client_id=record.client_id, existing="take_over").connect()
    with pytest.raises(NameInUseError, match=rf"client {record.client_id} is in use"):
        open_client(fake_server.url, client_id=record.client_id).connect()


def test_names_for_one_process_and_temporary_clients_leave_no_files(
    open_client: Open, fake_server: FakeServer, lock_directory: Path
) -> None:
    clients = [open_client(fake_server.url, name=name) for name in ("a-{pid}", "a-{random}", None, None)]
    for client in clients:
        client.connect()
    assert not lock_directory.exists()
    clients.append(open_client(fake_server.url, name="a"))
    clients[-1].connect()
    assert len(list(lock_directory.iterdir())) == 1
    assert lock_directory.stat().st_mode & 0o777 == 0o700
    for client in clients:
        client.close()
    assert list(lock_directory.iterdir()) == []


@kinds
def test_a_client_that_connects_again_has_its_name(kind: str, fake_server: FakeServer) -> None:
    with opening(kind) as open_one:
        client = open_one(fake_server.url, name="shop")
        client.connect()
        for _ in range(3):
            fake_server.cut()
            assert client.get_queues() == []
        with pytest.raises(NameInUseError):
            open_one(fake_server.url, name="shop").connect()
        client.connect()


def test_who_asks_for_it_takes_the_client_over(open_client: Open, fake_server: FakeServer) -> None:
    first = open_client(fake_server.url, name="shop")
    first.connect()
    second = open_client(f"{fake_server.url}/?existing=take_over", name="shop")
    second.connect()
    with pytest.raises(SessionFencedError, match="take_over") as raised:
        first.get_queues()
    told = [line for line in traceback.format_exception(raised.value) if "Error" in line]
    assert "another process has connected as this client" in told[0]
    with pytest.raises(NameInUseError):
        first.connect()
    first.close()
    assert second.get_queues() == []
    with pytest.raises(NameInUseError):
        open_client(fake_server.url, name="shop").connect()
    second.close()
    assert open_client(fake_server.url, name="shop").connect().name == "shop"


def test_a_client_that_another_machine_takes_over_gives_up_its_name(
    open_client: Open, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = open_client(fake_server.url, name="shop")
    first.connect()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    with closing(open_client(fake_server.url, name="shop")) as other:
        other.connect()
        with pytest.raises(SessionFencedError):
            first.get_queues()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert open_client(fake_server.url, name="shop").connect().name == "shop"


def test_a_client_that_has_to_be_new_is_told_that_it_is_not(
    open_client: Open, fake_server: FakeServer
) -> None:
    from telesto.client import ClientNameNotUniqueError

    open_client(fake_server.url, name="shop", existing="error").connect()
    with pytest.raises(ClientNameNotUniqueError):
        open_client(fake_server.url, name="shop", existing="error").connect()


def test_one_name_on_two_services(open_client: Open, fake_server: FakeServer) -> None:
    open_client(fake_server.url, name="shop").connect()
    with FakeServer().running() as other:
        client = open_client(other.url, name="shop")
        assert client.connect().name == "shop"
        client.close()


def test_another_database_behind_the_same_address(open_client: Open, fake_server: FakeServer) -> None:
    client = open_client(fake_server.url, name="shop")
    client.connect()
    fake_server.service.incarnation = "restored"
    fake_server.cut()
    assert client.get_queues() == []
    with pytest.raises(NameInUseError):
        open_client(fake_server.url, name="shop").connect()


def test_a_state_and_no_state(open_client: Open, fake_server: FakeServer, tmp_path: Path) -> None:
    durable = open_client(fake_server.url, name="shop", state_dir=tmp_path / "one")
    durable.connect()
    for state_dir in (None, tmp_path / "two"):
        with pytest.raises(NameInUseError):
            open_client(fake_server.url, name="shop", state_dir=state_dir).connect()
    durable.close()
    open_client(fake_server.url, name="shop", state_dir=tmp_path / "one").connect()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_dropped_client_gives_up_its_name(open_client: Open, fake_server: FakeServer) -> None:
    dropped = [TelestoClient(fake_server.url, name="shop")]
    dropped[0].connect()
    dropped.clear()
    wait_until(lambda: gc.collect() >= 0 and connects(fake_server.url))

    async def drop() -> None:
        await AsyncTelestoClient(fake_server.url, name="shop").connect()

    asyncio.run(drop())
    wait_until(lambda: gc.collect() >= 0 and connects(fake_server.url))


def connects(url: str) -> bool:
    """Tells whether a client of this name can be had."""
    try:
        with TelestoClient(url, name="shop") as client:
            client.connect()
    except NameInUseError:
        return False
    return True


def test_a_forked_child_neither_keeps_nor_frees_the_name(fake_server: FakeServer) -> None:
    client = TelestoClient(fake_server.url, name="shop")
    client.connect()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(writing)
            try:
                client.get_queues()
            except ForkedError:
                del client
                gc.collect()
                os.read(reading, 1)  # lives on until the parent has closed its client
        finally:
            os._exit(0)
    os.close(reading)
    try:
        assert not connects(fake_server.url)
        client.close()
        assert connects(fake_server.url)
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def refuse_writing(path: Path) -> None:
    path.parent.chmod(0o500)


def be_a_file(path: Path) -> None:
    path.write_text("")


def be_a_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    path.symlink_to(elsewhere)


def be_open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def be_missing(path: Path) -> None:
    path.parent.rmdir()


@pytest.mark.parametrize("spoil", [refuse_writing, be_a_file, be_a_link, be_open_to_all, be_missing])
def test_without_a_directory_nothing_is_locked(
    open_client: Open,
    fake_server: FakeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], Any],
) -> None:
    if spoil is refuse_writing and os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    parent = tmp_path / "parent"
    parent.mkdir()
    monkeypatch.setenv("TMPDIR", str(parent))
    spoil(parent / f"telesto-{os.geteuid()}")
    first, second = (open_client(fake_server.url, name="shop") for _ in range(2))
    first.connect()
    second.connect()
    with pytest.raises(SessionFencedError):
        first.get_queues()
    if parent.exists():
        parent.chmod(0o700)


def test_the_working_directory_gets_no_locks(
    open_client: Open, fake_server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no directory for temporary files can be written, Python's own choice is the working one."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr("tempfile.tempdir", str(work))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    open_client(fake_server.url, name="shop").connect()
    assert list(work.iterdir()) == []


def test_on_a_full_disk_a_name_is_locked_all_the_same(
    open_client: Open, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    open_client(fake_server.url, name="shop").connect()
    with pytest.raises(NameInUseError, match="by process unknown"):
        open_client(fake_server.url, name="shop").connect()


def test_a_process_of_another_container_has_its_host(
    open_client: Open, fake_server: FakeServer, lock_directory: Path
) -> None:
    """Its number may be that of this process, such as 1."""
    open_client(fake_server.url, name="shop").connect()
    (lock,) = lock_directory.iterdir()
    lock.write_text(f"{os.getpid()} container-7\n")
    with pytest.raises(NameInUseError, match=f"by process {os.getpid()} on container-7"):
        open_client(fake_server.url, name="shop").connect()


def test_a_link_in_the_place_of_the_lock_is_not_followed(
    open_client: Open, fake_server: FakeServer, lock_directory: Path, tmp_path: Path
) -> None:
    client = open_client(fake_server.url, name="shop")
    client.connect()
    (lock,) = lock_directory.iterdir()
    client.close()
    precious = tmp_path / "precious"
    precious.write_text("precious")
    lock.symlink_to(precious)
    open_client(fake_server.url, name="shop").connect()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("existing", ["", "fence", 7])
def test_what_may_be_done_with_what_exists(fake_server: FakeServer, existing: Any) -> None:
    with pytest.raises(InvalidParameterError, match='must be "error", "use" or "take_over", not'):
        TelestoClient(fake_server.url, name="shop", existing=existing)


APPLICATION = """
import os
from telesto import AsyncTelestoClient

async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    client = AsyncTelestoClient(os.environ["TELESTO_URL"], name="shop")
    record = await client.connect()
    print("is", record.name, flush=True)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await client.close()
    await send({"type": "lifespan.shutdown.complete"})
"""


def test_two_workers_of_uvicorn_with_one_name(fake_server: FakeServer, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    (tmp_path / "shop.py").write_text(APPLICATION)
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *STARTED,
                sys.executable,
                "-m",
                "uvicorn",
                "shop:app",
                "--port=0",
                "--workers=2",
                "--lifespan=on",
            ],
            cwd=tmp_path,
            env=os.environ | {"TELESTO_URL": fake_server.url},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: "is shop" in (said := log.read_text()) and "NameInUseError" in said)
    finally:
        end(process)
    assert "the client's name 'shop' is in use on this machine by process" in log.read_text()

"""The plugin for pytest, in runs of pytest of its own."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import servers
from faults.waiting import wait_until
from started import STARTED

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "telesto.testing.plugin"
#: No run of pytest takes longer.
PATIENCE_S = 250.0


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    """Where the runs keep their PostgreSQL, which its account can reach."""
    with servers.scratch_directory() as scratch:
        yield scratch


class Project:
    """An application with its tests."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self._environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        for name in ("TELESTO_URL", "TELESTO_TEST_URL", "PYTEST_ADDOPTS"):
            self._environment.pop(name, None)
        (directory / "pytest.ini").write_text(
            "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
            "filterwarnings =\n  error\n  ignore:Unknown config option\n"
        )

    def file(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def set(self, name: str, value: str) -> None:
        self._environment[name] = value

    def started(self, *arguments: str) -> "subprocess.Popen[str]":
        """A run of pytest that has begun."""
        installed = entry_points(group="pytest11", name="telesto")
        plugin = [] if installed else ["-p", PLUGIN]
        return subprocess.Popen(
            [*STARTED, sys.executable, "-m", "pytest", "-q", *plugin, *arguments],
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Runs pytest; what it says."""
        with self.started(*arguments) as process:
            said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, said
        return said


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> Project:
    return Project(tmp_path, cache)


def postmasters(cache: Path) -> list[Path]:
    return list((cache / "telesto-testing").glob("*/postgresql/postmaster.pid"))


def test_it_is_an_entry_point() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["pytest11"] == {"telesto": PLUGIN}


def test_it_does_nothing_to_those_who_do_not_use_it(project: Project, cache: Path) -> None:
    project.file(
        "test_app.py",
        "import sys\n"
        "def test_nothing_is_imported():\n"
        "    names = [name for name in sys.modules if name.startswith('telesto')]\n"
        "    own = {'telesto', 'telesto.version', 'telesto.testing', 'telesto.testing.plugin'}\n"
        "    assert set(names) == own\n",
    )
    before = set(cache.iterdir())
    assert "1 passed" in project.run()
    assert set(cache.iterdir()) == before


def test_an_application_puts_to_the_service_of_each_test(project: Project) -> None:
    """Its client belongs to the service of the test before, which is gone."""
    project.file(
        "test_app.py",
        "import pytest\n"
        "from telesto.tasks import App\n"
        "app = App()\n"
        "@app.task(queue='mail')\n"
        "def thank() -> None: ...\n"
        "@pytest.mark.parametrize('number', [1, 2, 3])\n"
        "def test_it_is_put(number, telesto_url, telesto_client, monkeypatch):\n"
        "    monkeypatch.setenv('TELESTO_URL', telesto_url)\n"
        "    thank.put()\n"
        "    assert telesto_client.queue('mail').statistics().ready == 1\n",
    )
    assert "3 passed" in project.run()


BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_documentation(project: Project, cache: Path) -> None:
    for name, text in BLOCK.findall((ROOT / "docs" / "how-to" / "testing.md").read_text()):
        project.file(name, text)
    project.set("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert "5 passed" in project.run()
    assert postmasters(cache) == []


TESTS = """
import psycopg
import pytest
from telesto import TelestoClient

@pytest.mark.parametrize("time", [1, 2])
def test_a_test_finds_nothing_of_another(telesto_url, time):
    with TelestoClient(telesto_url, name="shop", existing="error") as client:
        client.connect()
        client.create_queue("orders").put(b"x")
        client.topic("prices").subscribe()
        assert [queue.name for queue in client.get_queues()] == ["orders"]

def test_the_database_is_that_of_the_service(telesto_client, telesto_database_url):
    telesto_client.create_queue("orders")
    with psycopg.connect(telesto_database_url) as database:
        assert database.execute("SELECT name FROM telesto.queues").fetchall() == [("orders",)]
        database.execute("CREATE TABLE orders ()")

def test_the_fixtures_share_a_service(telesto_client, telesto_url):
    telesto_client.create_queue("orders").put(b"x")
    with TelestoClient(telesto_url, name="other") as other:
        other.connect()
        assert other.queue("orders").get(timeout=5).body == b"x"
"""

COROUTINE = """
async def test_a_coroutine(async_telesto_client):
    queue = await async_telesto_client.create_queue("orders")
    await queue.put(b"x")
    assert (await queue.get(timeout=5)).body == b"x"

class TestAll:
    {mark}
    async def test_a_method(self, async_telesto_client):
        await async_telesto_client.ping()
"""

NEITHER = """
import asyncio

def test_without_a_plugin_for_coroutines(async_telesto_client):
    async def main():
        async with async_telesto_client as client:
            await client.connect()
            await (await client.create_queue("orders")).put(b"x")
    asyncio.run(main())
"""


def test_each_test_has_a_service_that_holds_nothing(project: Project) -> None:
    project.file("test_app.py", TESTS)
    project.file("test_neither.py", NEITHER)
    assert "5 passed" in project.run("-p", "no:asyncio", "-p", "no:anyio")


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_with_pytest_asyncio(project: Project, mode: str) -> None:
    mark = "@pytest.mark.asyncio"
    project.file("test_app.py", f"import pytest\n{mark}{COROUTINE.format(mark=mark)}{NEITHER}")
    assert "3 passed" in project.run("-o", f"asyncio_mode={mode}")


def test_with_anyio(project: Project) -> None:
    mark = "@pytest.mark.anyio"
    backend = "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    project.file("test_app.py", f"{backend}{mark}{COROUTINE.format(mark=mark)}")
    assert "2 passed" in project.run("-p", "no:asyncio")


def test_a_running_service_is_used_as_it_is(project: Project, cache: Path) -> None:
    project.file("test_app.py", "def test_it(telesto_url):\n    print(telesto_url)\n    assert False\n")
    project.set("TELESTO_TEST_URL", "telesto://one:7001")
    assert "telesto://one:7001" in project.run(code=1)
    assert "telesto://two:7001" in project.run("--telesto-url", "telesto://two:7001", code=1)
    project.file("test_app.py", "def test_it(telesto_database_url):\n    assert False\n")
    assert "1 skipped" in project.run()
    assert postmasters(cache) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_service_ends_with_pytest(project: Project, cache: Path, sent: signal.Signals) -> None:
    project.file(
        "test_app.py",
        f"import os\ndef test_it(telesto_client):\n    os.kill(os.getpid(), {int(sent)})\n",
    )
    project.run(code=2 if sent is signal.SIGINT else -int(sent))
    wait_until(lambda: not postmasters(cache))


def test_a_service_that_does_not_start_says_why(project: Project, tmp_path: Path) -> None:
    blocked = tmp_path / "cache" / "telesto-testing"
    blocked.mkdir(parents=True)
    (blocked / "0").write_text("this is a file")
    project.set("XDG_CACHE_HOME", str(blocked.parent))
    project.file("test_app.py", "def test_it(telesto_url):\n    pass\n")
    assert "is not a directory" in project.run(code=1)

"""`telesto worker` as a process: what it runs, and what ends, dies and is exchanged."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until
from telesto.client import NewMessage, TelestoClient

#: Each task writes a line to the file `ran`; one that is to be caught at work waits for another file.
SHOP = """
import asyncio, os, time
from pathlib import Path
from telesto.tasks import App

VERSION = "one"
app = App()

def say(*words):
    with open("ran", "a") as file:
        file.write(" ".join(map(str, (VERSION, *words))) + "\\n")

@app.task(queue={queue!r}, max_attempts=3, backoff=0)
def ship(number: int) -> None:
    say("ship", number)

@app.task(queue={queue!r})
def wait(file: str) -> None:
    say("wait", file, os.getpid())
    while not Path(file).exists():
        time.sleep(0.01)
    say("waited", file)

@app.task(queue={queue!r}, timeout={timeout})
async def endless() -> None:
    say("endless", os.getpid())
    await asyncio.Event().wait()

@app.task(queue={queue!r}, timeout=0.1)
def hanging() -> None:
    say("hanging")
    while not Path("go").exists():
        time.sleep(0.01)

@app.task(queue={queue!r}, timeout={timeout})
async def blocking() -> None:
    say("blocking", os.getpid())
    while not Path("never").exists():
        time.sleep(0.01)

@app.task(queue={queue!r})
def show(text: str) -> None:
    print(text, end="")
    print("!")
    raise ValueError(text)

other = "no application"
empty = App()
"""


class Shop:
    """An application in the home of the command line, and what its tasks have written."""

    def __init__(self, telesto: CommandLine, queue: str, client: TelestoClient) -> None:
        self.telesto = telesto
        self.home = telesto.home
        self.queue = client.queue(queue)
        self.queue.update(max_attempts=3, backoff=0)
        self.write(SHOP.format(queue=queue, timeout=3_600))

    def write(self, text: str) -> None:
        # Python takes a file of the same size and second for the one that it has compiled.
        (self.home / "shop.py").write_text(text + "#" * (time.monotonic_ns() % 1_000))

    def change(self, old: str, new: str) -> None:
        text = (self.home / "shop.py").read_text()
        assert old in text
        self.write(text.replace(old, new))

    def put(self, task: str, **arguments: object) -> None:
        self.queue.put(arguments, headers={"task": task})

    def ran(self) -> list[list[str]]:
        file = self.home / "ran"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def has(self, *words: object) -> Callable[[], bool]:
        """Whether a task has written these words."""
        wanted = list(map(str, words))
        return lambda: any(line[: len(wanted)] == wanted for line in self.ran())

    def process(self, *words: object) -> int:
        """The process that has written these words, by the last one of the line."""
        wanted = list(map(str, words))
        return next(int(line[-1]) for line in reversed(self.ran()) if line[: len(wanted)] == wanted)

    @contextmanager
    def worker(self, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A running `telesto worker`; its standard error is in the file `log`."""
        with (
            (self.home / "log").open("ab") as log,
            self.telesto.started("worker", "shop:app", *options, stderr=log) as process,
        ):
            yield process

    def log(self) -> str:
        return (self.home / "log").read_text()

    def idle(self) -> bool:
        statistics = self.queue.statistics()
        return statistics.depth == statistics.leased == 0


@pytest.fixture
def shop(telesto: CommandLine, queue: str, client: TelestoClient) -> Shop:
    return Shop(telesto, queue, client)


def children(process: int) -> list[int]:
    """The workers of a supervisor."""
    there = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in there if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def end(process: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> None:
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == 0


def test_tasks_run_and_are_counted_over_all_processes(shop: Shop) -> None:
    for number in range(20):
        shop.put("ship", number=number)
    shop.put("unknown")
    with shop.worker("--processes", "2", "--metrics", "127.0.0.1:0") as process:
        wait_until(lambda: len(shop.ran()) == 20 and shop.idle())
        address = re.search(r"metrics at (\S+)", shop.log())
        assert address is not None

        def counts() -> str:
            with urllib.request.urlopen(address[1], timeout=TIMEOUT_S) as answer:
                text: str = answer.read().decode()
            return text

        wait_until(lambda: 'telesto_tasks_total{outcome="done",task="ship"} 20.0' in counts())
        wait_until(lambda: 'telesto_tasks_total{outcome="rejected",task="unknown"} 1.0' in counts())
        wait_until(lambda: "telesto_worker_processes 2.0" in counts())
        assert 'telesto_task_seconds_count{task="ship"} 20.0' in counts()
        end(process, signal.SIGINT)
    assert sorted(int(line[2]) for line in shop.ran()) == list(range(20))


def test_what_runs_at_the_end_is_done_first(shop: Shop) -> None:
    shop.put("wait", file="go")
    with shop.worker("--concurrency", "1") as process:
        wait_until(shop.has("one", "wait"))
        shop.put("ship", number=1)
        process.terminate()
        wait_until(lambda: "stopping" in shop.log())
        (shop.home / "go").touch()
        assert process.wait(TIMEOUT_S) == 0
    assert [line[1] for line in shop.ran()] == ["wait", "waited"]
    assert shop.queue.statistics().depth == 1


def test_a_second_signal_cancels_what_runs(shop: Shop) -> None:
    shop.put("endless")
    shop.put("wait", file="never")
    with shop.worker("--drain", "1h") as process:
        wait_until(lambda: shop.has("one", "endless")() and shop.has("one", "wait")())
        process.terminate()
        wait_until(lambda: "stopping; a second SIGTERM cancels the tasks" in shop.log())
        end(process)
    wait_until(lambda: shop.queue.statistics().depth == 2)


def test_a_killed_process_is_replaced_and_its_message_comes_again(shop: Shop) -> None:
    shop.put("wait", file="go")
    with shop.worker() as process:
        wait_until(shop.has("one", "wait"))
        first = shop.process("one", "wait")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: shop.process("one", "wait") != first)
        assert f"process {first} ended with signal 9" in shop.log()
        (shop.home / "go").touch()
        wait_until(shop.idle)
        end(process)
    assert list(shop.queue.dead_letters()) == []


def test_a_function_that_hangs_costs_its_process_and_dies_alone(shop: Shop) -> None:
    shop.put("hanging")
    with shop.worker("--drain", "0") as process:
        wait_until(lambda: list(shop.queue.dead_letters()))
        shop.put("ship", number=1)
        wait_until(shop.has("one", "ship", 1))
        end(process)
    assert shop.ran().count(["one", "hanging"]) == 3
    assert "ended with exit status 3" in shop.log()


def test_new_code_takes_over_while_the_old_one_ends(shop: Shop) -> None:
    shop.put("wait", file="go")
    with shop.worker("--processes", "2") as process:
        wait_until(lambda: shop.has("one", "wait")() and "2 processes at work" in shop.log())
        shop.change('"one"', '"two"')
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: shop.log().count("2 processes at work") == 2)
        shop.put("ship", number=1)
        wait_until(lambda: shop.has("one", "ship", 1)() or shop.has("two", "ship", 1)())
        (shop.home / "go").touch()
        wait_until(shop.has("one", "waited"))
        shop.put("wait", file="go")
        wait_until(shop.has("two", "waited"))
        end(process)
    assert shop.idle()


def test_code_that_cannot_be_loaded_changes_nothing(shop: Shop) -> None:
    with shop.worker() as process:
        wait_until(lambda: "1 process at work" in shop.log())
        shop.change("VERSION", "import nowhere_to_be_found\nVERSION")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "go on with the old one" in shop.log())
        shop.put("ship", number=1)
        wait_until(shop.has("one", "ship", 1))
        shop.change("import nowhere_to_be_found\nVERSION", "VERSION")
        shop.change('"one"', '"two"')
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: shop.log().count("1 process at work") == 2)
        shop.put("ship", number=2)
        wait_until(shop.has("two", "ship", 2))
        end(process)


@pytest.mark.parametrize("broken", [1, 2])
def test_of_two_reloads_the_second_counts(shop: Shop, broken: int) -> None:
    """What the first one has begun does not stay, whichever of them cannot be loaded."""
    with shop.worker("--processes", "2") as process:
        wait_until(lambda: "2 processes at work" in shop.log())
        for reload in (1, 2):
            shop.write(
                f"import time; time.sleep({3 - reload})\n" + SHOP.format(queue=shop.queue.name, timeout=3_600)
            )
            shop.change('"one"', "nowhere" if reload == broken else '"two"')
            process.send_signal(signal.SIGHUP)
            wait_until(lambda count=reload: shop.log().count("loading the code anew") == count)  # type: ignore[misc]
        if broken == 1:
            wait_until(lambda: shop.log().count("2 processes at work") == 2)
        else:
            wait_until(lambda: "go on with the old one" in shop.log())
        wait_until(lambda: len(children(process.pid)) == 2)
        for number in range(20):
            shop.put("ship", number=number)
        wait_until(lambda: len(shop.ran()) == 20)
        assert {line[0] for line in shop.ran()} == {"two" if broken == 1 else "one"}
        assert len(children(process.pid)) == 2
        assert ("NameError" in shop.log()) == (broken == 2)
        end(process)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_coroutine_that_blocks_its_event_loop_keeps_no_process(shop: Shop, is_killed: bool) -> None:
    shop.put("blocking")
    with shop.worker("--drain", "0") as process:
        wait_until(shop.has("one", "blocking"))
        blocked = shop.process("one", "blocking")
        if is_killed:
            process.kill()
        else:
            end(process)
            assert f"process {blocked} does not end: it is killed" in shop.log()
        wait_until(lambda: not Path(f"/proc/{blocked}").exists())


def test_a_coroutine_that_blocks_for_longer_than_its_timeout_ends_its_process(shop: Shop) -> None:
    shop.write(SHOP.format(queue=shop.queue.name, timeout=0.5))
    shop.put("blocking")
    with shop.worker() as process:
        wait_until(shop.has("one", "blocking"))
        blocked = shop.process("one", "blocking")
        shop.change('Path("never")', 'Path("shop.py")')  # for the next process
        wait_until(lambda: f"process {blocked} ended with exit status 3" in shop.log())
        wait_until(shop.idle)
        end(process)
    assert "a coroutine blocks the event loop for 5 s now; it is here:" in shop.log()
    assert "in blocking" in shop.log()
    assert "no coroutine may run for more than 0.5 s, so this process ends" in shop.log()


def test_a_process_that_was_stopped_for_a_while_goes_on(shop: Shop) -> None:
    shop.write(SHOP.format(queue=shop.queue.name, timeout=0.1))
    with shop.worker() as process:
        wait_until(lambda: "1 process at work" in shop.log())
        (child,) = children(process.pid)
        os.kill(child, signal.SIGSTOP)
        time.sleep(6.0)  # longer than a coroutine may block
        os.kill(child, signal.SIGCONT)
        shop.put("ship", number=1)
        wait_until(shop.has("one", "ship", 1))
        assert children(process.pid) == [child]
        end(process)


@pytest.mark.parametrize("is_configured", [False, True])
def test_what_an_application_logs_is_shown_as_it_wants(shop: Shop, is_configured: bool) -> None:
    shop.change('say("ship", number)', 'logging.info("shipping"); say("ship", number)')
    configure = "logging.basicConfig(level=logging.INFO, format='mine %(message)s')" if is_configured else ""
    shop.change("app = App()", f"import logging; {configure}\napp = App()")
    shop.put("ship", number=1)
    with shop.worker() as process:
        wait_until(shop.has("one", "ship"))
        end(process)
    assert ("mine shipping" in shop.log()) == is_configured
    assert (" INFO shipping" in shop.log()) != is_configured
    assert f"working on {shop.queue.name}" in shop.log()


def test_on_a_terminal_what_tasks_say_does_not_mix_with_the_progress(shop: Shop) -> None:
    shop.put("show", text="before")
    for number in range(20):
        shop.put("ship", number=number)
    terminal, its_end = pty.openpty()
    shown = b""
    with shop.telesto.started("worker", "shop:app", stdout=its_end, stderr=its_end) as process:
        os.close(its_end)
        while b" 23 " not in shown:  # the count, with three attempts of the one that fails
            shown += os.read(terminal, 65_536)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    os.close(terminal)
    for said in (b"before!", b"ERROR task show failed on message"):
        assert re.search(rb"\r\x1b\[2K[^\r\n]*" + said, shown)


def test_processes_end_with_their_supervisor(shop: Shop) -> None:
    shop.put("endless")
    with shop.worker("--drain", "0") as process:
        wait_until(shop.has("one", "endless"))
        process.kill()
    # The lease is given back, by the process itself.
    wait_until(lambda: shop.queue.statistics().depth == 1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["shop"], 2, "'shop' names no application; write MODULE:APP"),
        (["shops:app"], 2, "there is no module 'shops' in "),
        (["shop:apps"], 2, "shop:apps does not exist; there is shop:app"),
        (["shop:other"], 2, "shop:other is a str, no App; there is shop:app"),
        (["shop:empty"], 2, "shop:empty: the application has no tasks"),
        (["shop:app", "--queue", "x"], 2, "no task has the queue 'x'"),
        (["shop:app", "--metrics", "9100"], 2, "--metrics '9100' is no address"),
    ],
)
def test_what_cannot_run_is_said_in_one_line(shop: Shop, arguments: list[str], code: int, said: str) -> None:
    assert said in shop.telesto.error(code, "worker", *arguments)


def test_a_queue_with_other_settings_is_told_and_changed_on_demand(shop: Shop) -> None:
    shop.queue.update(max_attempts=7)
    said = shop.telesto.error(1, "worker", "shop:app")
    assert "max_attempts" in said
    assert "--update-queues changes it" in said
    with shop.worker("--update-queues") as process:
        wait_until(lambda: shop.queue.settings().max_attempts == 3)
        wait_until(lambda: "1 process at work" in shop.log())
        end(process)


def test_it_waits_for_a_service_that_is_away(shop: Shop, tmp_path: Path) -> None:
    shop.telesto.environment["TELESTO_URL"] = "telesto://127.0.0.1:1"
    with shop.worker() as process:
        wait_until(lambda: "the service is away, waiting for it" in shop.log())
        end(process)


def test_messages_of_many_puts(shop: Shop) -> None:
    shop.queue.put_many(NewMessage({"number": n}, headers={"task": "ship"}) for n in range(500))
    with shop.worker("--processes", "2") as process:
        wait_until(shop.idle)
        end(process)
    assert sorted(int(line[2]) for line in shop.ran()) == list(range(500))


def test_a_library_that_is_missing_is_told_of() -> None:
    program = (
        "import sys; sys.modules['cronsim'] = None; from telesto.cli.common.app import execute; "
        "sys.exit(execute(['worker', 'shop:app']))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert result.returncode == 2
    assert result.stderr == b"telesto: tasks need: pip install 'telesto-mq[tasks]'\n"

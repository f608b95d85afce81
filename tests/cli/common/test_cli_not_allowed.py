"""What a command says, and ends with, when its login fails or a right is missing."""

import time

import pytest

from command_line import TIMEOUT_S, CommandLine

PASSWORD = "hunter2 horse, battery"
COMMANDS = [
    ("ping",),
    ("queue", "list"),
    ("queue", "create", "new"),
    ("put", "orders", "x"),
    ("get", "orders"),
    ("get", "orders", "--wait", "60"),
    ("browse", "orders"),
    ("consume", "orders", "--wait", "60"),
    ("consume", "orders", "--exec", "cat"),
    ("client", "list"),
    ("topic", "put", "prices", "x"),
    ("put", "orders", "x", "--client", "shop-1"),
]


@pytest.fixture(scope="module")
def guarded(service_url: str, service_database: str, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line of an administrator, beside a service with users."""
    ops = CommandLine(tmp_path_factory.mktemp("ops"), service_url)
    ops.environment["TELESTO_DATABASE_URL"] = service_database
    for name, *options in (
        ("ops", "--administrator"),
        ("shop", "--get", "orders", "--clients", "shop-*"),
        ("sleeper", "--get", "*"),
    ):
        add = ("user", "add", name, "--password-file", "-", *options)
        ops.run(*add, stdin=PASSWORD.encode())
    ops.environment |= {"TELESTO_USER": "ops", "TELESTO_PASSWORD": PASSWORD}
    ops.output("queue", "create", "orders")
    return ops


@pytest.fixture
def shop(guarded: CommandLine, service_url: str, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line of a user who may only get."""
    shop = CommandLine(tmp_path_factory.mktemp("shop"), service_url)
    shop.environment |= {"TELESTO_USER": "shop", "TELESTO_PASSWORD": PASSWORD}
    return shop


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_ends_the_same_way(
    shop: CommandLine, service_url: str, command: tuple[str, ...]
) -> None:
    """Without a login, and with files that cannot be used; and none of it counts as a failed login."""
    for name in ("TELESTO_USER", "TELESTO_PASSWORD"):
        del shop.environment[name]
    assert "asks for a login; write telesto://USER" in shop.error(77, *command)
    (shop.home / "empty").touch()
    shop.environment |= {"TELESTO_USER": "shop", "TELESTO_PASSWORD_FILE": "empty"}
    assert "the file 'empty' is empty" in shop.error(2, *command)
    shop.environment["TELESTO_PASSWORD_FILE"] = "nowhere"
    assert "cannot read 'nowhere' to log in" in shop.error(2, *command)
    tls = service_url.replace("telesto:", "telestos:") + "/?tls_ca=/nowhere"
    assert "tls_ca /nowhere cannot be used" in shop.error(2, *command, "--url", tls)


@pytest.mark.parametrize(
    "command",
    [each for each in COMMANDS if {"create", "put"} & {*each[:2]} and "--client" not in each],
    ids=" ".join,
)
def test_a_missing_right_is_named(shop: CommandLine, command: tuple[str, ...]) -> None:
    said = shop.error(77, *command)
    option = "--configure" if "create" in command else "--put"
    name = {"topic": "prices", "queue": "new"}.get(command[0], "orders")
    assert f"to allow it: telesto user allow shop {option} {name} (PERMISSION_DENIED)" in said


def test_a_worker_that_may_not_begin_ends_with_a_line(shop: CommandLine) -> None:
    (shop.home / "shop.py").write_text(
        "from telesto.tasks import App\napp = App()\n@app.task(queue='new')\ndef task() -> None: ...\n"
    )
    said = shop.error(77, "worker", "shop:app")
    assert "to allow it: telesto user allow shop --configure new" in said or "--get new" in said
    shop.environment["TELESTO_PASSWORD"] = "hunter2 wrong"
    assert "refuses the login of 'shop'" in shop.error(77, "worker", "shop:app")
    shop.environment["TELESTO_PASSWORD_FILE"] = "nowhere"
    del shop.environment["TELESTO_PASSWORD"]
    assert "cannot read 'nowhere'" in shop.error(2, "worker", "shop:app")


@pytest.mark.parametrize(
    "command",
    [
        ("get", "orders", "--wait", "60"),
        ("get", "orders", "--follow"),
        ("consume", "orders"),
        ("consume", "orders", "--exec", "cat"),
    ],
    ids=" ".join,
)
def test_what_waits_ends_when_its_user_is_disabled_or_loses_the_right(
    guarded: CommandLine, shop: CommandLine, command: tuple[str, ...]
) -> None:
    shop.environment["TELESTO_USER"] = "sleeper"
    for change, back, words in (
        (("disable", "sleeper"), ("enable", "sleeper"), "refuses the login of 'sleeper'"),
        (
            ("revoke", "sleeper", "--get", "*"),
            ("allow", "sleeper", "--get", "*"),
            "telesto user allow sleeper --get orders",
        ),
    ):
        with shop.started(*command) as process:
            _until_connected(guarded, "sleeper")
            guarded.output("user", *change)
            _, said = process.communicate(timeout=TIMEOUT_S)
        guarded.output("user", *back)
        assert process.returncode == 77, said
        assert words in said.decode()
        assert said.count(b"\n") == 1
        assert b"Traceback" not in said
        assert b"connect()" not in said


def _until_connected(guarded: CommandLine, user: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        rows = guarded.objects("user", "quota", user)
        (clients,) = [row["used"] for row in rows if row["quota"] == "clients"]
        if clients:
            time.sleep(1.0)
            return
    raise AssertionError("it does not connect")


def test_paused_logins_are_told(
    guarded: CommandLine, shop: CommandLine
) -> None:  # the last: others would wait
    """With the reason and the time; the command waits as long as it may, and ends as after a failed login.

    It is the last test, because those after it would wait too.
    """
    shop.environment |= {
        "TELESTO_USER": "mistyped",
        "TELESTO_PASSWORD": "hunter2 wrong",
    }
    for _ in range(20):
        said = shop.run("ping", "--retry-for", "4").stderr.decode()
        if "paused" in said:
            break
        assert "refuses the login of 'mistyped'" in said
        assert "TELESTO_PASSWORD)" in said
    result = shop.run("ping", "--retry-for", "0.5")
    assert result.returncode == 77
    first, *_, last = result.stderr.decode().splitlines()
    for line in (first, last):
        assert "logins are paused for" in line
        assert "too many logins have failed" in line
        assert "telesto serve" not in line
    assert "hunter2" not in result.stderr.decode()
    guarded.output("ping")  # who has logged in from here before is not kept out

"""URLs, and the addresses that a client tries."""

import random
import re
import traceback
from pathlib import Path
from urllib.parse import unquote

import pytest

from telesto.client.connection.addresses import AddressList, backoff
from telesto.client.errors import AddressError, CredentialsError
from telesto.client.options import ClientOptions
from telesto.client.url import Address, Credentials, ServiceUrl, TlsParameters, parse_address, parse_url
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.packets import ClientMode

SECRETS = ["hunter2", "7001?hun=ter2", *(f"hun{character}ter2" for character in "?#/@:%\u2100")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("telesto://127.0.0.1", ServiceUrl((Address("127.0.0.1", 7001),))),
        ("telesto://a:1,b:2/", ServiceUrl((Address("a", 1), Address("b", 2)))),
        ("telesto://[::1]:5,[fe80::2]", ServiceUrl((Address("::1", 5), Address("fe80::2", 7001)))),
        (
            "telesto://a?name=al%20ice&mode=full",
            ServiceUrl((Address("a", 7001),), "al ice", None, ClientMode.FULL),
        ),
        (
            "telesto://a/?client_id=7&mode=READ_ONLY&existing=use",
            ServiceUrl((Address("a", 7001),), None, 7, ClientMode.READ_ONLY, "use"),
        ),
        ("telestos://a", ServiceUrl((Address("a", 7001),), tls=TlsParameters())),
        (
            "telestos://a?tls_ca=/a%20b&tls_certificate=c&tls_key=k&tls_verify=no",
            ServiceUrl((Address("a", 7001),), tls=TlsParameters("/a b", "c", "k", False)),
        ),
    ],
)
def test_good_urls(url: str, expected: ServiceUrl) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://a", "telesto://"),
        ("127.0.0.1:7001", "telesto://"),
        ("localhost", "write telesto://host:port, or with TLS telestos://host:port"),
        ("telesto:/127.0.0.1:7001", "does not begin with telesto://"),
        ("telesto:127.0.0.1", "does not begin with telesto://"),
        ("telesto://", "no host"),
        ("telesto://a,,b", "no host"),
        ("telesto://:7001", "no host"),
        ("telesto://a:seven", "port"),
        ("telesto://a:0", "port"),
        ("telesto://a:65536", "port"),
        ("telesto://::1:5", "brackets"),
        ("telesto://[::1", "not a URL|IPv6"),
        ("telesto://[::1]7", "not a URL|IPv6"),
        ("telesto://a/queue", "path"),
        ("telesto://a/#x", "path"),
        ("telesto://alice:hunter2@", "no host"),
        ("telesto://:hunter2@a", "user is empty"),
        ("telesto://alice:@a", "password is empty"),
        ("telesto://alice:%FF@a", "password is not UTF-8"),
        ("telesto://alice:hunter2@b@a", "percent-encoded"),
        ("telesto://a?token_file=", "name a file"),
        ("telesto://a?nmae=x", "unknown parameter 'nmae'"),
        ("telesto://a?name=x&name=y", "twice"),
        ("telesto://a?name", "name=value"),
        ("telesto://a?name=w%FF", "not UTF-8"),
        ("telesto://a?name=w\udcff", r"invisible characters, as U\+DCFF"),
        ("telesto://a?name=w%E2%80%AE", r"invisible characters, as U\+202E"),
        ("telesto://a?name=", "1 to 255"),
        ("telesto://a?client_id=9223372036854775808", "client_id"),
        pytest.param("telesto://a?client_id=" + "9" * 5000, "client_id", id="long client_id"),
        pytest.param("telesto://a:" + "9" * 5000, "port", id="long port"),
        ("telesto://a%FF", "not UTF-8"),
        ("telesto://a\udcff", "no host's name"),
        ("telesto://a..b", "no host's name"),
        pytest.param(f"telesto://{'a' * 64}", "no host's name", id="long label"),
        ("telesto://a%20b", "blank"),
        ("telesto://a%00", "control"),
        ("telesto://a?state_dir=a%00b", "state_dir"),
        ("telesto://a?name=x&client_id=1", "both"),
        ("telesto://a?client_id=x", "client_id"),
        ("telesto://a?mode=half", "mode"),
        ("telesto://a?existing=maybe", "existing"),
        ("telesto://a?tls_ca=x", "write telestos://"),
        ("telestos://a?tls_ca=", "name a file"),
        ("telestos://a?tls_key=x", "no tls_certificate"),
        ("telestos://a?tls_verify=perhaps", "yes or no"),
        ("telestos:a", "does not begin with"),
    ],
)
def test_bad_urls_are_told(url: str, hint: str) -> None:
    with pytest.raises(AddressError, match=hint):
        parse_url(url)


def test_what_is_no_text_is_no_url() -> None:
    for url in (7001, b"telesto://a", ("a", 1)):
        with pytest.raises(TypeError, match="url must be a str"):
            parse_url(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("url", ["telesto://alice:{}@a", "telesto://alice:{}@a/?bogus", "telesto:alice:{}@a"])
def test_a_secret_in_a_url_is_not_repeated(url: str, secret: str) -> None:
    """As it is, not percent-encoded: neither the error of a wrong URL nor its causes show it."""
    try:
        parsed = parse_url(url.format(secret))
    except AddressError as error:
        told = "".join(traceback.format_exception(error)).replace(url, "")
        assert not re.search(r"hun|ter2", told), told
    else:
        assert parsed.credentials.password == unquote(secret)
        assert "hun" not in repr(parsed)


def test_a_user_and_its_password() -> None:
    assert parse_url("telesto://a").credentials == Credentials()
    assert parse_url("telesto://al%40ice:p%3A%2F%3F%23@a,b").credentials == Credentials("al@ice", "p:/?#")
    assert parse_url("telesto://alice@a?token_file=/t").credentials == Credentials("alice", token_file="/t")
    assert parse_url("telesto://a?name=x@y").credentials == Credentials()


def test_the_environment_says_what_the_url_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESTO_USER", "alice")
    monkeypatch.setenv("TELESTO_PASSWORD", "hunter2")
    assert parse_url("telesto://a").credentials == Credentials("alice", "hunter2")
    assert parse_url("telesto://bob:other@a").credentials == Credentials("bob", "other")
    # Whose a token is, the token says: not the user that the environment has for a password.
    assert parse_url("telesto://a?token_file=t").credentials == Credentials(token_file="t")
    monkeypatch.setenv("TELESTO_TOKEN_FILE", "t")
    with pytest.raises(AddressError, match="TELESTO_PASSWORD and TELESTO_TOKEN_FILE are set"):
        parse_url("telesto://a")
    monkeypatch.delenv("TELESTO_PASSWORD")
    assert parse_url("telesto://a").credentials == Credentials("alice", token_file="t")


def test_a_password_and_a_token_exclude_each_other() -> None:
    with pytest.raises(AddressError, match="a password and a token_file") as raised:
        parse_url("telesto://alice:hunter2@a?token_file=t")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"one\ntwo\n", "several lines"),
        (b"one\rtwo", "several lines"),
        (b"one\n\n", "several lines"),
        (b"\xff", "UTF-8"),
        (b"x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_a_file_that_holds_no_password_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    for credentials, read in (
        (Credentials("alice", password_file=str(file)), Credentials.read_password),
        (Credentials(token_file=str(file)), Credentials.read_token),
    ):
        with pytest.raises(CredentialsError, match=words) as raised:
            read(credentials)
        assert "one" not in raised.value.details.replace("in one line", "").replace("one secret", "")
    for content in (b"hunter2", b"hunter2\n", b"hunter2\r\n"):
        file.write_bytes(content)
        assert Credentials("alice", password_file=str(file)).read_password() == "hunter2"


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELESTO_URL", "telesto://somewhere:1")
    assert parse_url(None).addresses == (Address("somewhere", 1),)
    assert parse_url("telesto://here:2").addresses == (Address("here", 2),)
    monkeypatch.delenv("TELESTO_URL")
    assert parse_url(None).addresses == (Address("127.0.0.1", 7001),)


def test_addresses_read_back() -> None:
    for text in ("a:1", "[::1]:2"):
        assert str(parse_address(text)) == text


def book(*addresses: str, **options: float | bool) -> AddressList:
    return AddressList(
        [parse_address(address) for address in addresses],
        ClientOptions(**options),  # type: ignore[arg-type]
        random.Random(1),
    )


def test_addresses_are_tried_in_turn_with_pauses_between_rounds() -> None:
    addresses = book("a:1", "b:2", backoff_initial=0.1, backoff_max=0.4)
    tried, pauses = [], []
    for _ in range(8):
        tried.append(str(addresses.next))
        addresses.failed()
        pauses.append(addresses.pause())
    assert tried == ["a:1", "b:2"] * 4
    assert pauses[::2] == [0.0] * 4
    assert [0.05 <= pauses[1] <= 0.1, 0.1 <= pauses[3] <= 0.2, 0.2 <= pauses[5] <= 0.4] == [True] * 3
    assert 0.2 <= pauses[7] <= 0.4
    assert addresses.rounds == 4
    addresses.succeeded()
    assert addresses.rounds == 0
    assert addresses.pause() == 0


def test_a_connection_that_ended_is_replaced_elsewhere() -> None:
    addresses = book("a:1", "b:2")
    addresses.left()
    assert str(addresses.next) == "b:2"
    assert addresses.pause() == 0


def test_addresses_are_learned_within_bounds() -> None:
    addresses = book("a:1", max_addresses=3)
    addresses.learn(["b:2", "not an : address:", "b:2", "c:3", "d:4"])
    seen = set()
    for _ in range(6):
        seen.add(str(addresses.next))
        addresses.failed()
    assert len(seen) == 3
    assert {"a:1", "d:4"} <= seen


def test_addresses_may_be_shuffled() -> None:
    starts = {
        str(
            AddressList(
                [Address("a", 1), Address("b", 2)], ClientOptions(shuffle_addresses=True), random.Random(seed)
            ).next
        )
        for seed in range(20)
    }
    assert starts == {"a:1", "b:2"}


def test_backoff_is_bounded() -> None:
    assert backoff(1000, ClientOptions(backoff_max=3), random.Random(1)) <= 3


@pytest.mark.parametrize("options", [{"call_timeout": 0}, {"max_tries": -1}, {"max_frame": 1000}])
def test_bad_options_are_told(options: dict[str, int]) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(options))):
        ClientOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:hunter2@db.example/shop",
        "telesto://shop:hunter2@db.example/shop",
        "telesto://shop:hunter2/@db.example",
        "telesto://shop:hunter2@[db.example",
        "postgresql://shop:/hunter2@db.example?x=@y",
    ],
)
def test_an_error_shows_no_password(url: str) -> None:
    with pytest.raises(AddressError) as raised:
        parse_url(url)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))

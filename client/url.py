"""The URL that says where the service is and as whom to connect."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from telesto.client import arguments
from telesto.client.errors import AddressError, CredentialsError
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.packets import DEFAULT_PORT, ClientMode

ENVIRONMENT_VARIABLE = "TELESTO_URL"
DEFAULT_URL = f"telesto://127.0.0.1:{DEFAULT_PORT}"

#: What ``subscribe`` does when the subscription exists: refuse, or use it.
Existing = Literal["error", "use"]
#: What to do when a client of this name exists: refuse; use it, unless another process of this machine has it
#: now; or use it and end the session of whoever has it.
ExistingClient = Literal["error", "use", "take_over"]


def check_existing(existing: object, choices: object = Existing) -> None:
    """Checks what is to be done with what there is already. Raises InvalidParameterError."""
    if existing not in get_args(choices):
        raise InvalidParameterError(f"existing must be {_alternatives(choices)}, not {existing!a}")


def _alternatives(choices: object) -> str:
    *most, last = (f'"{choice}"' for choice in get_args(choices))
    return f"{', '.join(most)} or {last}"


_SCHEME = "telesto"
#: The scheme for connections by TLS.
_SCHEME_TLS = "telestos"
#: What errors do not show: a password, such as that in the URL of a database.
_WITH_PASSWORD = re.compile("(:(?://)?).*@", re.DOTALL)
_PARAMETERS = ("name", "client_id", "mode", "existing", "state_dir", "token_file")
_ENCODE = (
    "the URL's user and password must be percent-encoded: "
    "%40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %25 for %"
)
#: What is read to log in, in the order in which it is told.
LOGIN_VARIABLES = ("TELESTO_USER", "TELESTO_PASSWORD", "TELESTO_PASSWORD_FILE", "TELESTO_TOKEN_FILE")
#: More than a password or a token has.
SECRET_BYTES_MAX = 65_536
_TLS_PARAMETERS = ("tls_ca", "tls_certificate", "tls_key", "tls_verify")


class Address(NamedTuple):
    """Where a middleware listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TlsParameters:
    """How a client connects by TLS.

    Attributes:
        ca: a PEM file of the authorities to trust; None for those of the system.
        certificate, key: PEM files with the client's own certificate and its key. None without a certificate;
            a key that is None is in the certificate's file.
        verify: refuse a middleware whose certificate is not trusted, or is for another name.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client logs in by. Files are read again for each connection.

    Attributes:
        user: the user; None when a token or a certificate says it, or nobody has to log in.
        password: the password; None without one, or when it is in a file.
        password_file: the file that holds it, and may end in a line end.
        token_file: the file that holds a token.
        source: where the password or the token comes from, for people; empty without one.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    token_file: str | None = None
    source: str = field(default="", compare=False)

    @property
    def has_password(self) -> bool:
        """Tells whether there is a password."""
        return self.password is not None or self.password_file is not None

    @property
    def given(self) -> str:
        """What there is to log in by, for people; empty when there is nothing."""
        if self.user is not None:
            return f"the user {self.user!r}"
        return "a password" if self.has_password else "a token" if self.token_file is not None else ""

    def read_password(self) -> str:
        """Returns the password. Raises CredentialsError for a file that cannot be used."""
        if self.password is not None:
            return self.password
        assert self.password_file is not None
        return _read_secret(self.password_file)

    def read_token(self) -> str:
        """Returns the token. Raises CredentialsError for a file that cannot be used."""
        assert self.token_file is not None
        return _read_secret(self.token_file).strip()


def _read_secret(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise CredentialsError(f"cannot read {path!r} to log in: {error.strerror}") from None
    return secret_of(content, f"the file {path!r}")


def secret_of(content: bytes, shown: str) -> str:
    """Returns the password or token that a file holds, which may end in a line end.

    Raises CredentialsError, which names the file as ``shown`` and tells nothing of its content.
    """
    if len(content) > SECRET_BYTES_MAX:
        raise CredentialsError(
            f"{shown} has more than {SECRET_BYTES_MAX} bytes; it must hold one secret only"
        )
    try:
        secret = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise CredentialsError(f"{shown} is not text in UTF-8") from None
    if not secret:
        raise CredentialsError(f"{shown} is empty; it must hold the password or token, in one line")
    if "\n" in secret or "\r" in secret:
        raise CredentialsError(f"{shown} has several lines; it must hold the password or token, in one line")
    return secret


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """A URL taken apart; what it does not name is None."""

    addresses: tuple[Address, ...]
    name: str | None = None
    client_id: int | None = None
    mode: ClientMode | None = None
    existing: ExistingClient | None = None
    state_dir: str | None = None
    tls: TlsParameters | None = None
    credentials: Credentials = Credentials()


def without_password(url: str) -> str:
    """Returns a URL as it may be shown."""
    return _WITH_PASSWORD.sub(r"\1...@", url)


def parse_url(url: str | None) -> ServiceUrl:
    """Reads ``telesto://user:password@host:port,host:port/?name=...``.

    Further parameters are ``client_id``, ``mode``, ``existing``, ``state_dir`` and ``token_file``. What is
    not in the URL to log in by is in the environment: TELESTO_USER, TELESTO_PASSWORD, TELESTO_PASSWORD_FILE,
    TELESTO_TOKEN_FILE.

    ``telestos://`` connects by TLS, with ``tls_ca``, ``tls_certificate``, ``tls_key`` (PEM files) and
    ``tls_verify=no``.

    Without a URL the environment variable TELESTO_URL is read, without that one the default is used: a
    middleware on this machine. Raises AddressError, which says what is wrong.
    """
    if url is None:
        url = os.environ.get(ENVIRONMENT_VARIABLE) or DEFAULT_URL
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, not {type(url).__name__}")
    shown = without_password(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        reason = "" if "@" in url else f": {error}"  # it may show a password
        raise AddressError(f"{shown!r} is not a URL{reason}") from None
    if parts.scheme not in (_SCHEME, _SCHEME_TLS) or not url[len(parts.scheme) :].startswith("://"):
        raise AddressError(
            f"{shown!r} does not begin with {_SCHEME}://; write {_SCHEME}://host:port, or with TLS "
            f"{_SCHEME_TLS}://host:port"
        )
    if parts.path not in ("", "/") or parts.fragment:
        raise AddressError(
            f"{shown!r} has a path; after the addresses only /?name=value parameters may follow"
        )
    login, at, hosts = parts.netloc.rpartition("@")
    if "@" in login:
        raise AddressError(_ENCODE)
    user, _, password = login.partition(":")
    try:
        return _with_parameters(
            tuple(parse_address(text) for text in hosts.split(",")),
            parts.query,
            tls=parts.scheme == _SCHEME_TLS,
            user=_login_part("user", user) if at else None,
            password=_login_part("password", password) if ":" in login else None,
        )
    except AddressError:
        if not at and "@" in url.partition("/?")[0]:  # then what the error shows may be of a password
            raise AddressError(_ENCODE) from None
        raise


def _login_part(part: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise AddressError(f"the URL's {part} is not UTF-8 behind its percent signs") from None
    if not decoded:
        raise AddressError(f"the URL's {part} is empty; write telesto://user:password@host")
    return decoded


def parse_address(text: str) -> Address:
    """Reads ``host``, ``host:port`` or ``[IPv6 address]:port``. Raises AddressError."""
    host, port = _split_port(text.strip())
    if not host:
        raise AddressError(f"{text!r} names no host; write host:port")
    _check_host(host)
    if not port:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536):
        raise AddressError(f"{text!r} has no valid port; ports are 1 to 65535")
    return Address(host, int(port))


def _check_host(host: str) -> None:
    """Refuses what can be no host's name, before it is looked up again and again."""
    try:
        encoded = host.encode("idna")
    except UnicodeError as error:
        raise AddressError(f"{host!a} is no host's name: {error}") from error
    if any(byte <= 0x20 or byte == 0x7F for byte in encoded):
        raise AddressError(f"{host!a} is no host's name: it has a blank or a control character")


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise AddressError(f"{text!r} is not [IPv6 address]:port")
        return host, rest[1:]
    if text.count(":") > 1:
        raise AddressError(f"{text!r} looks like an IPv6 address; write it in brackets: [{text}]")
    host, _, port = text.partition(":")
    try:
        return unquote(host, errors="strict"), port
    except UnicodeDecodeError as error:
        raise AddressError(f"{text!a} is not UTF-8 behind its percent signs") from error


def _with_parameters(
    addresses: tuple[Address, ...], query: str, *, tls: bool, user: str | None, password: str | None
) -> ServiceUrl:
    try:
        options = {"keep_blank_values": True, "strict_parsing": True, "errors": "strict"}
        pairs = parse_qsl(query, **options) if query else []  # type: ignore[arg-type]
    except UnicodeDecodeError as error:
        raise AddressError(
            f"the URL's parameters {query!a} are not UTF-8 behind their percent signs"
        ) from error
    except ValueError as error:
        raise AddressError(f"the URL's parameters {query!r} are not name=value: {error}") from error
    values: dict[str, str] = {}
    for key, value in pairs:
        if key in _TLS_PARAMETERS and not tls:
            raise AddressError(f"the URL has {key}, but no TLS; write {_SCHEME_TLS}://host:port")
        if key not in (*_PARAMETERS, *_TLS_PARAMETERS):
            known = (*_PARAMETERS, *_TLS_PARAMETERS) if tls else _PARAMETERS
            raise AddressError(f"the URL has an unknown parameter {key!r}; known are {', '.join(known)}")
        if key in values:
            raise AddressError(f"the URL has the parameter {key!r} twice")
        values[key] = value
    if "name" in values and "client_id" in values:
        raise AddressError("the URL has both name and client_id; one of them identifies the client")
    return ServiceUrl(
        addresses,
        name=_name(values.get("name")),
        client_id=_client_id(values.get("client_id")),
        mode=_mode(values.get("mode")),
        existing=_existing(values.get("existing")),
        state_dir=_state_dir(values.get("state_dir")),
        tls=_tls(values) if tls else None,
        credentials=_credentials(user, password, values.get("token_file")),
    )


def _credentials(user: str | None, password: str | None, token_file: str | None) -> Credentials:
    """Takes what the URL does not have from the environment."""
    if token_file is not None:
        if not token_file or "\0" in token_file:
            raise AddressError("the URL's token_file must name a file")
        if password is not None:
            raise AddressError("the URL has a password and a token_file; give one of them to log in by")
        # The token says whose it is: the user of the environment may be another one.
        return Credentials(user, token_file=token_file, source=f"token_file={token_file} in the URL")
    user = user or os.environ.get(LOGIN_VARIABLES[0]) or None
    if password is not None:
        return Credentials(user, password, source="the URL")
    given = {name: value for name in LOGIN_VARIABLES[1:] if (value := os.environ.get(name))}
    if len(given) > 1:
        raise AddressError(f"{' and '.join(given)} are set; only one of them can be used to log in")
    secret = LOGIN_VARIABLES[1]  # it is the password itself, and the others name files
    source = "".join(name if name == secret else f"{name}={value}" for name, value in given.items())
    password, password_file, token_file = (given.get(name) for name in LOGIN_VARIABLES[1:])
    return Credentials(user, password, password_file, token_file, source)


def _client_id(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) < 2**63):
        raise AddressError(f"the URL's client_id must be a number above 0 and below 2^63, not {text[:40]!a}")
    return int(text)


def _name(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return arguments.check_name("name", text)
    except InvalidParameterError as error:
        raise AddressError(f"the URL's {error.details}") from error


def _mode(text: str | None) -> ClientMode | None:
    if text is None:
        return None
    try:
        return ClientMode[text.upper()]
    except KeyError:
        raise AddressError(f"the URL's mode must be full or read_only, not {text!r}") from None


def _existing(text: str | None) -> ExistingClient | None:
    if text is None:
        return None
    try:
        check_existing(text, ExistingClient)
    except InvalidParameterError as error:
        raise AddressError(f"the URL's {error.details}") from None
    return cast(ExistingClient, text)


def _state_dir(text: str | None) -> str | None:
    if text is not None and (not text or "\0" in text):
        raise AddressError("the URL's state_dir must name a directory")
    return text


def _tls(values: Mapping[str, str]) -> TlsParameters:
    files = {name: values.get(name) for name in ("tls_ca", "tls_certificate", "tls_key")}
    for name, file in files.items():
        if file is not None and (not file or "\0" in file):
            raise AddressError(f"the URL's {name} must name a file")
    if files["tls_key"] and not files["tls_certificate"]:
        raise AddressError("the URL has a tls_key, but no tls_certificate")
    verify = values.get("tls_verify", "yes")
    if verify not in ("yes", "no"):
        raise AddressError(f"the URL's tls_verify must be yes or no, not {verify!r}")
    return TlsParameters(files["tls_ca"], files["tls_certificate"], files["tls_key"], verify == "yes")

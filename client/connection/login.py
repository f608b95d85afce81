"""The login of a connection, without I/O: what the client says, and what the service has to prove.

A password never leaves the client: SCRAM proves that it is known, and that the service knows it too. A token
leaves it over TLS only, or to this machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from telesto.client.errors import CredentialsError
from telesto.client.url import Address, Credentials
from telesto.protocol.errors import AuthenticationFailedError

if TYPE_CHECKING:
    import ssl

    from scramp import ScramClient

_SCRAM, _SCRAM_PLUS, _EXTERNAL, _BEARER = (
    "SCRAM-SHA-256",
    "SCRAM-SHA-256-PLUS",
    "EXTERNAL",
    "OAUTHBEARER",
)
#: A service that asks for more repetitions of the hash only wants to keep the client busy.
_ITERATIONS_MAX = 1_000_000
#: What a token may have, so that it fits the frame.
_TOKEN_BYTES_MAX = 3_900
_HOW = (
    "write telesto://USER:PASSWORD@host, or set TELESTO_USER and TELESTO_PASSWORD or TELESTO_PASSWORD_FILE; "
    "`telesto user add` makes users"
)


class Exchange(ABC):
    """What the client says by one mechanism.

    Attributes:
        mechanism: the mechanism.
        user: whose login it is; None when the service finds out.
    """

    mechanism: str
    user: str | None = None

    @abstractmethod
    def first(self) -> bytes:
        """Returns the first message."""

    def answer(self, data: bytes, *, done: bool) -> bytes | None:
        """Returns the message that answers one of the service, or None once the login is complete.

        Raises AuthenticationFailedError for what is not of the mechanism, or proves nothing.
        """
        if not done:
            raise AuthenticationFailedError(f"the service asks for another step of {self.mechanism}")
        return None


class _Certificate(Exchange):
    mechanism = _EXTERNAL

    def __init__(self, user: str | None) -> None:
        self.user = user

    def first(self) -> bytes:
        return (self.user or "").encode()


class _Token(Exchange):
    mechanism = _BEARER

    def __init__(self, token: str, user: str | None) -> None:
        self._token = token
        self.user = user

    def first(self) -> bytes:
        name = (self.user or "").replace("=", "=3D").replace(",", "=2C")
        header = f"n,a={name}," if name else "n,,"
        return f"{header}\x01auth=Bearer {self._token}\x01\x01".encode()


class _Password(Exchange):
    def __init__(self, scram: ScramClient, user: str) -> None:
        self._scram = scram
        self.mechanism = scram.mechanism_name
        self.user = user
        #: The client has sent its proof; the service's comes next.
        self._proved = False

    def first(self) -> bytes:
        return bytes(self._scram.get_client_first().encode())

    def answer(self, data: bytes, *, done: bool) -> bytes | None:
        from scramp import ScramException

        if done is not self._proved:
            raise AuthenticationFailedError(
                "the service says that the login is complete, but has not proved that it knows the password: "
                "it may be another one"
                if done
                else f"the service asks for another step of {self.mechanism}"
            )
        try:
            if self._proved:
                self._scram.set_server_final(data.decode())
                return None
            self._scram.set_server_first(data.decode())
            if int(self._scram.iterations) > _ITERATIONS_MAX:
                raise AuthenticationFailedError(
                    f"the service asks for {self._scram.iterations} repetitions of the hash, too many"
                )
            self._proved = True
            return bytes(self._scram.get_client_final().encode())
        except (ScramException, UnicodeDecodeError):
            what = "does not prove that it knows the password" if self._proved else f"does not speak {_SCRAM}"
            # Without the error itself, whose text may hold what was exchanged.
            raise AuthenticationFailedError(f"the service {what}: it may be another one") from None


def begin(
    mechanisms: Sequence[str],
    credentials: Credentials,
    address: Address,
    secured: ssl.SSLObject | ssl.SSLSocket | None,
) -> Exchange | None:
    """Chooses how to log in; None when no login is asked for and the client has nothing to log in by.

    Args:
        mechanisms: those that the service offers on this connection.
        credentials: what the client has.
        address: where the connection leads.
        secured: its TLS; None without.

    Raises AuthenticationFailedError, which says what to do.
    """
    if not mechanisms:
        if credentials.given:
            raise AuthenticationFailedError(
                f"{address} asks for no login, but the client has {credentials.given}: somebody may stand "
                "between. If the service is meant to have no users, leave that out"
            )
        return None
    if credentials.has_password:
        return _by_password(mechanisms, credentials, secured)
    if credentials.token_file is not None:
        return _by_token(mechanisms, credentials, address, secured)
    if _EXTERNAL in mechanisms:
        return _Certificate(credentials.user)
    if credentials.user is not None:
        raise CredentialsError(f"the client has the user {credentials.user!r}, but no password; {_HOW}")
    raise AuthenticationFailedError(f"{address} asks for a login; {_HOW}")


def refusal(exchange: Exchange | None, credentials: Credentials, said: str) -> str:
    """Returns the details of a login that the service has refused, with what to check.

    Args:
        exchange: the login; None when it had not begun.
        credentials: what the client has.
        said: what the service says, which is the same whatever is wrong.
    """
    user = None if exchange is None else exchange.user
    whose = "" if user is None else f" of {user!r}"
    if isinstance(exchange, _Token):
        check = f"the token (from {credentials.source}): its user, its times, its audience and its issuer"
    elif isinstance(exchange, _Certificate):
        check = "the name in the client's certificate (tls_certificate)"
    else:
        check = f"the user's name and the password (from {credentials.source})"
    return (
        f"the service refuses the login{whose}: {said}. It says the same whatever is wrong: check {check}, "
        "and that there is such a user and it is enabled (telesto user list). The log of the middleware says "
        "why (login_failed)"
    )


def _by_password(
    mechanisms: Sequence[str], credentials: Credentials, secured: ssl.SSLObject | ssl.SSLSocket | None
) -> Exchange:
    from scramp import ScramClient, ScramException

    if credentials.user is None:
        raise CredentialsError(f"the client has a password, but no user; {_HOW}")
    offered = [mechanism for mechanism in mechanisms if mechanism in (_SCRAM, _SCRAM_PLUS)]
    if _SCRAM not in offered:
        raise AuthenticationFailedError(_only(mechanisms, "a password is proved by SCRAM-SHA-256 only"))
    password = credentials.read_password()
    binding = None if secured is None else ("tls-server-end-point", secured)
    try:
        try:
            scram = ScramClient(offered, credentials.user, password, channel_binding=binding)
        except ScramException:
            if binding is None:
                raise
            # The certificate's signature has no hash to bind by (RFC 5929), such as one of Ed25519.
            scram = ScramClient(offered, credentials.user, password)
    except ScramException:
        raise CredentialsError(
            "the user or the password has characters that they cannot have (RFC 4013)"
        ) from None
    return _Password(scram, credentials.user)


def _by_token(
    mechanisms: Sequence[str],
    credentials: Credentials,
    address: Address,
    secured: ssl.SSLObject | ssl.SSLSocket | None,
) -> Exchange:
    if secured is None and not _is_loopback(address.host):
        raise AuthenticationFailedError(
            "a token is sent over TLS only, since whoever reads it can use it: "
            f"connect by telestos://{address}"
        )
    if _BEARER not in mechanisms:
        raise AuthenticationFailedError(_only(mechanisms, "it takes no tokens (jwt_key_file)"))
    token = credentials.read_token()
    if not token.isascii() or not token.isprintable() or " " in token or len(token) > _TOKEN_BYTES_MAX:
        raise CredentialsError(
            f"{credentials.token_file} holds no token, or one of more than {_TOKEN_BYTES_MAX} bytes"
        )
    return _Token(token, credentials.user)


def _only(mechanisms: Sequence[str], why: str) -> str:
    shown = ", ".join(ascii(mechanism[:40])[1:-1] for mechanism in mechanisms[:8])
    return f"the service lets log in by {shown} only, and {why}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"

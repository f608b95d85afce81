"""Logins: the mechanisms by which a connection proves whose it is, and what a failure costs."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import is_normalized

from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.failures import FailedError, Failure, failure_of
from telesto.middleware.security.tokens import TokenError, TokenKeys
from telesto.middleware.security.users import User, UserRegistry
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.names import NAME_CHARACTERS_MAX, invisible_character

if TYPE_CHECKING:
    from scramp import ScramServer

SCRAM, SCRAM_PLUS, EXTERNAL, BEARER = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "EXTERNAL", "OAUTHBEARER"
#: How the binding to the TLS connection is made. Python's ssl has no exporter, which RFC 9266 needs.
BINDING = "tls-server-end-point"
#: How often the hash is repeated of the passwords that `telesto user` sets. A client needs some 7 ms for it.
ITERATIONS = 16_384
#: The text of every failure.
FAILED = "the login failed"
#: How much of the name that somebody has given the log shows.
_SHOWN = 100
#: The longest first message of SCRAM, in bytes: a name of 255 characters and a nonce.
_FIRST_MAX = 1_300
_SALT_BYTES = 16
_KEY_BYTES = 32


class Verifier(NamedTuple):
    """What SCRAM checks a password by, in the order that the library wants."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class Channel:
    """What a middleware knows of a connection before its login.

    Attributes:
        peer: the peer, for the log.
        address: its address, as quotas count it.
        private: nobody between reads what passes: TLS, or an address of this machine.
        binding: what identifies the certificate of this TLS connection (RFC 5929); None without.
        certificate: the peer has presented a certificate that is trusted.
        certificate_user: whose it is; None when it names nobody.
    """

    peer: str
    address: str
    private: bool
    binding: bytes | None = None
    certificate: bool = False
    certificate_user: str | None = None


class _WrongError(Exception):
    """What somebody has sent proves nothing. Its text is for the log."""


class LoginLimits:
    """What failures cost: the answer comes later with each, and beyond a few nobody is heard for a while.

    Failures are counted by address and by name; those of a name delay answers only, so that nobody keeps
    others out by failing in their name. Whoever has logged in before under a name, from an address, is
    counted apart from both, so that nobody keeps others out by failing beside them.
    Times are those of the clock, in seconds.
    """

    #: So many failures cost a delay only.
    FREE = 5
    #: The delay of the first failure; it doubles, up to the longest.
    DELAY_S, DELAY_MAX_S = 0.1, 2.0
    #: The first time in which nobody is heard; it doubles, up to the longest.
    PAUSE_S, PAUSE_MAX_S = 1.0, 60.0
    #: A failure is forgotten after this time without another.
    FORGOTTEN_S = 600.0
    #: How many addresses and names are counted, and how many of those that have logged in are known.
    MOST = 10_000

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: By whom it is counted: the failures, when the last one was, and until when nobody is heard.
        self._counts: OrderedDict[tuple[str, ...], tuple[int, float, float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts) + len(self._known)

    def wait_s(self, address: str, name: str | None) -> float:
        """How long nobody is heard from this address, or under this name; 0.0 for now."""
        now = self._clock()
        ends = (self._counts[key][2] for key in self._keys(address, name) if key in self._counts)
        return max(0.0, max(ends, default=now) - now)

    def failed(self, address: str, name: str | None) -> float:
        """Counts a failure. Returns by how long its answer is to be delayed."""
        now, most = self._clock(), 0
        for key in self._keys(address, name):
            count, last, _ = self._counts.pop(key, (0, now, now))
            count = 1 if now - last > self.FORGOTTEN_S else count + 1
            beyond = min(count - self.FREE, 16)
            pause = min(self.PAUSE_MAX_S, self.PAUSE_S * 2.0 ** (beyond - 1)) if beyond > 0 else 0.0
            if key[0] == "name":
                pause = 0.0
            self._counts[key] = (count, now, now + pause)
            if len(self._counts) > self.MOST:
                self._counts.popitem(last=False)
            most = max(most, count)
        return min(self.DELAY_MAX_S, self.DELAY_S * 2.0 ** min(most - 1, 16))

    def succeeded(self, address: str, name: str) -> None:
        """Somebody has logged in."""
        pair = (address, name)
        self._counts.pop(pair, None)
        self._known.pop(pair, None)
        self._known[pair] = None
        if len(self._known) > self.MOST:
            self._known.popitem(last=False)

    def _keys(self, address: str, name: str | None) -> list[tuple[str, ...]]:
        if name is None:
            return [("address", address, "")]
        pair = (address, name)
        return [pair] if pair in self._known else [("address", address, ""), ("name", name, "")]


class Logins:
    """Lets connections log in."""

    def __init__(
        self,
        users: UserRegistry,
        tokens: TokenKeys | None,
        events: EventLog,
        audit: AuditLog,
        count_failure: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """Begins with nothing counted.

        Args:
            users: finds users.
            tokens: checks tokens; None when there are none.
            events: the log.
            audit: the audit log.
            count_failure: is told the reason of each failure.
            clock: the loop's clock, in seconds.
        """
        self.users = users
        self.tokens = tokens
        self.events = events
        self.audit = audit
        self.count_failure = count_failure
        self.limits = LoginLimits(clock)

    def mechanisms(self, channel: Channel) -> list[str]:
        """Returns how a connection may log in, the strongest first; nothing when no login is asked for."""
        if not self.users.required:
            return []
        offered = {
            EXTERNAL: channel.certificate,
            SCRAM_PLUS: channel.binding is not None,
            SCRAM: True,
            BEARER: self.tokens is not None and channel.private,
        }
        return [mechanism for mechanism, is_offered in offered.items() if is_offered]


class Login:
    """The login of one connection.

    Attributes:
        expires_at: when the token of this login expires, in seconds since the epoch; None without.
        delay_s: after which time a failure is answered, in seconds.
    """

    __slots__ = (
        "_channel",
        "_logins",
        "_mechanism",
        "_name",
        "_offered",
        "_scram",
        "_user",
        "delay_s",
        "expires_at",
    )

    def __init__(self, logins: Logins, channel: Channel, offered: list[str]) -> None:
        """Begins a login by one of the mechanisms that were offered."""
        self._logins = logins
        self._channel = channel
        self._offered = offered
        self._mechanism = ""
        self._name: str | None = None
        self._scram: ScramServer | None = None
        self._user: User | None = None
        self.expires_at: float | None = None
        self.delay_s = 0.0

    async def step(self, mechanism: str, data: bytes) -> tuple[bytes, User | None]:
        """Takes what the client says. Returns the answer, and the user once the login is complete.

        Raises FailedError, and what reading the database raises. Any failure ends the connection.
        """
        try:
            if mechanism not in self._offered:
                raise _WrongError("mechanism")
            if self._mechanism and mechanism != self._mechanism:
                raise _WrongError("another_mechanism")
            self._mechanism = mechanism
            if mechanism == EXTERNAL:
                return b"", self._succeeded(await self._external(data))
            if mechanism == BEARER:
                return b"", self._succeeded(await self._bearer(data))
            if self._scram is None:
                return await self._challenge(data), None
            answer = self._prove(self._scram, data)
            return answer, self._succeeded(self._user)
        except _WrongError as error:
            raise self._refused(str(error)) from None

    # --- the mechanisms ------------------------------------------------------------------------

    async def _challenge(self, data: bytes) -> bytes:
        from scramp import ScramException, ScramMechanism

        plus = self._mechanism == SCRAM_PLUS
        text = _text(data)
        # To normalize some characters takes the library long, and nobody has shown who they are yet.
        if len(data) > _FIRST_MAX or not is_normalized("NFKC", text):
            raise _WrongError("not_normalized")
        if text.startswith("p=") != plus:
            raise _WrongError("binding")
        binding = self._channel.binding
        bound = None if binding is None else (BINDING, binding)
        names: list[str] = []
        made_up = _unknown(b"", "")

        def note_name(name: str) -> Verifier:
            names.append(name)
            return made_up

        method = ScramMechanism(self._mechanism)
        try:
            # Only to read the name, since the library asks for what it has to look up while it reads.
            method.make_server(note_name, channel_binding=bound).set_client_first(text)
            self._name = names[0]
            self._check_pause()
            self._user = await self._find(self._name)
            self._scram = method.make_server(lambda _: self._verifier(), channel_binding=bound)
            self._scram.set_client_first(text)
            answer: str = self._scram.get_server_first()
        except ScramException as error:
            raise _WrongError(_reason(error)) from None
        return answer.encode()

    def _verifier(self) -> Verifier:
        """The user's, or for one that does not exist, or has no password, one that looks the same."""
        verifier = read_verifier(self._user.verifier) if self._user is not None else None
        return verifier or _unknown(self._logins.users.secret, self._name or "")

    def _prove(self, scram: ScramServer, data: bytes) -> bytes:
        from scramp import ScramException

        # Many may have begun before the first of them failed.
        self._check_pause()
        try:
            scram.set_client_final(_text(data))
            answer: str = scram.get_server_final()
        except ScramException as error:
            reason = _reason(error)
            if self._user is None:
                reason = "unknown_user"
            elif self._user.verifier is None:
                reason = "no_password"
            raise _WrongError(reason) from None
        return answer.encode()

    async def _external(self, data: bytes) -> User | None:
        name = self._channel.certificate_user
        if name is None:
            raise _WrongError("certificate_without_name")
        self._name = name
        if data and _text(data) != name:
            raise _WrongError("other_name")
        self._check_pause()
        return await self._find(name)

    async def _bearer(self, data: bytes) -> User | None:
        tokens = self._logins.tokens
        assert tokens is not None
        self._check_pause()
        wanted, token = _read_bearer(_text(data))
        try:
            claims = tokens.check(token)
        except TokenError as error:
            raise _WrongError(f"token_{error}") from None
        self._name = claims.user
        if wanted and wanted != claims.user:
            raise _WrongError("other_name")
        self._check_pause()
        self.expires_at = claims.expires_at
        return await self._find(claims.user)

    async def _find(self, name: str) -> User | None:
        if len(name) > NAME_CHARACTERS_MAX or invisible_character(name):
            return None
        return await self._logins.users.find(name)

    # --- how it ends ---------------------------------------------------------------------------

    def _succeeded(self, user: User | None) -> User:
        if user is None:
            raise _WrongError("unknown_user")
        if not user.enabled:
            raise _WrongError("disabled")
        assert self._name is not None
        self._logins.limits.succeeded(self._channel.address, self._name)
        self._logins.audit.done(
            "logged_in", peer=self._channel.peer, user=user.name, mechanism=self._mechanism
        )
        return user

    def _check_pause(self) -> None:
        wait_s = self._logins.limits.wait_s(self._channel.address, self._name)
        if wait_s > 0:
            self._note("paused")
            details = "too many logins have failed from this address or for this user"
            retry_ms = max(1, round(wait_s * 1000))
            failure = Failure(ErrorCode.OVERLOADED, ErrorClass.RETRYABLE, details, retry_after_ms=retry_ms)
            raise FailedError(failure)

    def _refused(self, reason: str) -> FailedError:
        self._note(reason)
        self.delay_s = self._logins.limits.failed(self._channel.address, self._name)
        return FailedError(failure_of(ErrorCode.AUTHENTICATION_FAILED, FAILED))

    def _note(self, reason: str) -> None:
        self._logins.count_failure(reason)
        key = (self._channel.address, reason)
        fields = {
            "peer": self._channel.peer,
            "user": None if self._name is None else escaped(self._name),
            "mechanism": self._mechanism or "unknown",
            "reason": reason,
        }
        self._logins.events.warning("login_failed", key, **fields)
        self._logins.audit.refused("login_failed", key, **fields)


def escaped(name: str) -> str:
    """Returns what somebody says that they are called such that a log can hold it."""
    shown = name[:_SHOWN].encode("unicode_escape").decode("ascii")
    return shown if len(name) <= _SHOWN else f"{shown}..."


def read_verifier(text: str | None) -> Verifier | None:
    """Reads what PostgreSQL stores of a password; None for what is not that."""
    try:
        method, numbers, keys = (text or "").split("$")
        iterations, salt = numbers.split(":")
        stored_key, server_key = keys.split(":")
        verifier = Verifier(_base64(salt), _base64(stored_key), _base64(server_key), int(iterations))
    except ValueError:
        return None
    return verifier if method == SCRAM else None


def make_verifier(password: str) -> str:
    """Makes what is stored of a password, in PostgreSQL's format.

    Raises ValueError for a password that is empty or has characters that passwords must not have (RFC 4013).
    """
    from scramp import ScramException, ScramMechanism

    try:
        if not password:
            raise ValueError("the password is empty")
        made = ScramMechanism(SCRAM).make_auth_info(password, ITERATIONS, secrets.token_bytes(_SALT_BYTES))
    except ScramException as error:
        raise ValueError(f"the password has characters that passwords must not have: {error}") from None
    salt, stored_key, server_key, iterations = made
    salt, stored, server = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    return f"{SCRAM}${iterations}:{salt}${stored}:{server}"


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _unknown(secret: bytes, name: str) -> Verifier:
    """What is shown to whoever asks for a user that does not exist: always the same, on every middleware."""
    salt = hmac.digest(secret, b"salt of " + name.encode(), "sha256")[:_SALT_BYTES]
    keys = secrets.token_bytes(2 * _KEY_BYTES)
    return Verifier(salt, keys[:_KEY_BYTES], keys[_KEY_BYTES:], ITERATIONS)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _WrongError("malformed") from None


def _reason(error: Exception) -> str:
    """What the log calls an error of the library, whose text may hold what somebody has sent."""
    known = getattr(error, "server_error", None)
    reason = "malformed" if known is None else known.value.replace("-", "_")
    return "malformed" if reason == "other_error" else reason


def _read_bearer(text: str) -> tuple[str, str]:
    """Returns the name that is asked for, which may be empty, and the token."""
    header, _, rest = text.partition("\x01")
    if not rest.endswith("\x01\x01"):
        raise _WrongError("malformed")
    flag, _, wanted = header.removesuffix(",").partition(",")
    pairs = dict(pair.partition("=")[::2] for pair in rest[:-2].split("\x01"))
    scheme, _, token = pairs.get("auth", "").partition(" ")
    if flag not in ("n", "y") or not header.endswith(",") or scheme.lower() != "bearer" or not token:
        raise _WrongError("malformed")
    if wanted and not wanted.startswith("a="):
        raise _WrongError("malformed")
    return wanted[2:].replace("=2C", ",").replace("=3D", "="), token

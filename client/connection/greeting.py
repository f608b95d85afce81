"""What is at a port where no middleware answers Hello, as far as it can be told.

Servers of lines, such as HTTP and Redis, answer the line ends in Hello. PostgreSQL takes its head for a
version that it does not have, and says so. SSH, SMTP, MySQL and NATS speak first. Servers for TLS close the
connection without a byte, or send an alert.
"""

from __future__ import annotations

from telesto.client.errors import NoAnswerError, NotTelestoError
from telesto.client.url import Address
from telesto.protocol.packets import DEFAULT_PORT

#: Two line ends, as a number.
LINE_ENDS = 0x0D0A0D0A
#: How many of the first bytes are looked at.
LOOKED_AT = 256
#: How many of unknown ones an error shows.
_SHOWN = 40

_WEB = "HTTP, not Telesto; is that the port of the metrics, or a web server?"
_SPEAKS = (
    (b"HTTP/", _WEB),
    (b"<!DOCTYPE HTML", _WEB),
    (b"<HTML", _WEB),
    (b"\x15\x03", "TLS; with TLS a URL begins with telestos://."),
    (b"SSH-", "SSH, not Telesto."),
    (b"AMQP", "AMQP, not Telesto; is that RabbitMQ?"),
    (b"-ERR", "Redis's protocol, not Telesto."),
    (b"-NOAUTH", "Redis's protocol, not Telesto."),
    (b"-DENIED", "Redis's protocol, not Telesto."),
    (b"INFO {", "NATS, not Telesto."),
    (b"220 ", "SMTP or FTP, not Telesto."),
    (b"220-", "SMTP or FTP, not Telesto."),
    (b"ERROR\r\n", "memcached's protocol, not Telesto."),
)


def not_telesto(address: Address, first: bytes) -> NotTelestoError:
    """Makes the error for an answer that is not of Telesto's protocol; ``first`` is how it begins."""
    return NotTelestoError(f"{address} {_what_speaks(first)} {_where(address)}", address=str(address))


def _what_speaks(first: bytes) -> str:
    upper = first.upper()
    for beginning, protocol in _SPEAKS:
        if upper.startswith(beginning):
            return f"speaks {protocol}"
    if first[:1] == b"E" and b"FATAL" in first[5:24]:
        return "is PostgreSQL; clients connect to a middleware, see `telesto serve --database-url`."
    if first[3:5] in (b"\0\n", b"\0\xff"):
        return "speaks MySQL's protocol, not Telesto."
    shown = first[:_SHOWN]
    if all(0x20 <= byte < 0x7F or byte in b"\t\r\n" for byte in shown):
        return f"does not speak Telesto, but answers {shown.decode()!r}."
    return f"does not speak Telesto, but answers the bytes {shown[: _SHOWN // 2].hex(' ')}."


def _where(address: Address) -> str:
    if address.port == DEFAULT_PORT:
        return f"Is `telesto serve` running on another port, as {DEFAULT_PORT} was taken?"
    return f"Telesto listens on {DEFAULT_PORT} by default"


def silent(address: Address, seconds: float) -> NoAnswerError:
    """Makes the error for a connection on which nothing has come for so long."""
    return NoAnswerError(
        f"{address} accepts connections, but has sent no answer within {seconds:.2g} s. A middleware that is "
        "stopped or overloaded does that, and so does a server of another kind. "
        f"Telesto listens on {DEFAULT_PORT} by default",
        address=str(address),
    )


def closed(address: Address, reason: str) -> NoAnswerError:
    """Makes the error for a connection that ended before an answer."""
    return NoAnswerError(
        f"{address} accepts connections, but ends them without an answer ({reason}). Middlewares with TLS do "
        "that to clients whose URL does not begin with telestos://, and to those without a certificate that "
        "they trust (tls_certificate), if they ask for one; so do proxies that reach no middleware. "
        f"Telesto listens on {DEFAULT_PORT} by default",
        address=str(address),
    )

"""Service links: variables that Kubernetes sets in a pod for each service, which look like settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HOST = re.compile(r"(TELESTO(?:_[A-Z0-9_]+)?)_SERVICE_HOST")
_PROTOCOLS = ("TCP", "UDP", "SCTP")


def service_links(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the variables that are links to services called `telesto` or `telesto-...`.

    Kubernetes sets several for each service, among them TELESTO_SERVICE_HOST, TELESTO_SERVICE_PORT and
    TELESTO_PORT_7001_TCP, which combines the two. They count as links only if these three agree, so that no
    setting of a user is taken for a link. TELESTO_PORT is a link if its value is that of the third.
    """
    found: set[str] = set()
    for name, host in environment.items():
        if not (service := _HOST.fullmatch(name)):
            continue
        prefix = service[1]
        port = environment.get(f"{prefix}_SERVICE_PORT", "")
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for protocol in _PROTOCOLS:
            link = f"{protocol.lower()}://{address}"
            if environment.get(f"{prefix}_PORT_{port}_{protocol}") != link:
                continue
            others = re.compile(
                rf"{prefix}_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|"
                rf"PORT_[0-9]+_({'|'.join(_PROTOCOLS)})(_PROTO|_PORT|_ADDR)?)"
            )
            found.update(other for other in environment if others.fullmatch(other))
            if environment.get(f"{prefix}_PORT") == link:
                found.add(f"{prefix}_PORT")
    return frozenset(found)

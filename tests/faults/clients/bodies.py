"""Bodies that say who they are and whether they are whole."""

import hashlib


def make_body(key: str, size: int) -> bytes:
    """Makes a body of about ``size`` bytes that begins with the key."""
    head = f"{key} {size} ".encode()
    return head + filling(key, size)


def filling(key: str, size: int) -> bytes:
    """Returns ``size`` bytes that only this key has."""
    seed = hashlib.blake2b(key.encode(), digest_size=64).digest()
    return (seed * (size // len(seed) + 1))[:size]


def read_body(body: bytes) -> tuple[str, bool]:
    """Returns the key and whether the body is what was made under it."""
    try:
        key, size, rest = body.split(b" ", 2)
        return key.decode(), rest == filling(key.decode(), int(size))
    except ValueError:
        return body[:40].decode(errors="replace"), False

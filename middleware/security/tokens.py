"""Tokens (JWT) that say who somebody is, checked by the keys of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: How far the clock of who makes tokens may be from this one, in seconds.
LEEWAY_S = 10
#: A secret must be as long as the hash that it is for.
_SECRET_BYTES = 32
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)


class TokenKeyError(Exception):
    """The file of the keys cannot be used; it says why."""


class TokenError(Exception):
    """A token is not accepted. Its text is one word for the log."""


class Claims(NamedTuple):
    """What a token says."""

    user: str
    expires_at: float


class TokenKeys:
    """Checks tokens by the keys of a file, which is read again when it has changed.

    The file holds public keys in PEM form, several of them while one replaces another, or else a secret. The
    kind of the key decides on the algorithm, never the token: RS256 for RSA, ES256 for the curve P-256, EdDSA
    for Ed25519, HS256 for a secret.
    """

    def __init__(self, file: Path, audience: str | None, issuer: str | None) -> None:
        """Reads the file. Raises TokenKeyError.

        Args:
            file: the keys.
            audience: whom tokens must be for; None when they must not say.
            issuer: who must have made them; None for anybody who has the key.
        """
        self._file = file
        self._audience = audience
        self._issuer = issuer
        self._state = self._state_of_file()
        self._keys = self._read()

    def check(self, token: str) -> Claims:
        """Returns what a token says. Raises TokenError."""
        import jwt

        if (state := self._state_of_file()) != self._state:
            try:
                self._keys, self._state = self._read(), state
            except TokenKeyError:
                raise TokenError("key_file") from None
        wrong = TokenError("signature")
        for key, algorithm in self._keys:
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._audience,
                    issuer=self._issuer,
                    leeway=LEEWAY_S,
                    options={"require": ["exp", "sub", *(["iss"] if self._issuer else [])]},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
                continue
            except jwt.ExpiredSignatureError:
                raise TokenError("expired") from None
            except jwt.InvalidAudienceError:
                raise TokenError("audience") from None
            except jwt.InvalidIssuerError:
                raise TokenError("issuer") from None
            except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
                wrong = TokenError("invalid")
                continue
            return Claims(str(claims["sub"]), float(claims["exp"]))
        raise wrong

    def _state_of_file(self) -> tuple[int, int]:
        try:
            status = self._file.stat()
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino

    def _read(self) -> Sequence[tuple[Any, str]]:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            content = self._file.read_bytes()
        except OSError as error:
            raise TokenKeyError(f"cannot read {self._file}: {error.strerror}") from error
        if b"-----BEGIN" not in content:
            secret = content.rstrip(b"\r\n")
            if len(secret) < _SECRET_BYTES:
                raise TokenKeyError(
                    f"{self._file} holds no public key in PEM form, and is too short for a secret; "
                    f"that has at least {_SECRET_BYTES} bytes"
                )
            return [(secret, "HS256")]
        keys = []
        for block in _PEM.finditer(content):
            if b"PRIVATE" in block[1]:
                raise TokenKeyError(f"{self._file} holds a private key; a middleware needs the public one")
            try:
                key = load_pem_public_key(block[0])
            except (ValueError, TypeError) as error:
                raise TokenKeyError(f"{self._file} holds something else than public keys") from error
            keys.append((key, _algorithm(key, self._file)))
        if not keys:
            raise TokenKeyError(f"{self._file} holds no public key in PEM form")
        return keys


def _algorithm(key: object, file: Path) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if isinstance(key, RSAPublicKey) and key.key_size >= 2048:
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return "ES256"
    if isinstance(key, Ed25519PublicKey):
        return "EdDSA"
    raise TokenKeyError(
        f"{file} holds a key of another kind than RSA with 2,048 bits or more, the curve P-256 and Ed25519"
    )

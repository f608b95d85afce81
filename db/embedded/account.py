"""The operating system account that PostgreSQL runs as: the caller's own, or a replacement for root.

PostgreSQL refuses to run as root. A service started by root therefore runs it as the account that owns the
data, or for new data as the system account ``telesto``, which it creates if necessary.
"""

from __future__ import annotations

import logging
import os
import pwd
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from telesto.db.embedded.errors import EmbeddedServerError

SYSTEM_ACCOUNT = "telesto"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """An account by its numbers; the name may be missing for one that the system does not list."""

    uid: int
    gid: int


def account_for(owner_uid: int, owner_gid: int) -> Account:
    """Choose the account for data whose directory belongs to `owner_uid` and `owner_gid`."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    if owner_uid != 0:
        return Account(owner_uid, owner_gid)
    return _system_account()


def _system_account() -> Account:
    try:
        entry = pwd.getpwnam(SYSTEM_ACCOUNT)
    except KeyError:
        _create_system_account()
        entry = pwd.getpwnam(SYSTEM_ACCOUNT)
    return Account(entry.pw_uid, entry.pw_gid)


def _create_system_account() -> None:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    try:
        subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", SYSTEM_ACCOUNT],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        if _exists(SYSTEM_ACCOUNT):
            return
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root and the system account {SYSTEM_ACCOUNT!r} could not be "
            f"created ({str(reason).strip()}); create it, or start the service as an ordinary user"
        ) from error


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def give(path: Path, account: Account) -> None:
    """Make `account` the owner of a file or directory, if it is not yet."""
    found = path.stat()
    if (found.st_uid, found.st_gid) != (account.uid, account.gid):
        os.chown(path, account.uid, account.gid)


def let_pass(directory: Path, account: Account) -> None:
    """Let `account` pass through `directory` and its parents, by search permission where it is missing.

    Only root needs this: an ordinary user's PostgreSQL has the user's own rights.
    """
    if os.geteuid() != 0:
        return
    for step in (directory, *directory.parents):
        found = step.stat()
        if not _may_search(found, account):
            os.chmod(step, stat.S_IMODE(found.st_mode) | stat.S_IXOTH)
            _log.warning("gave others search permission on %s, because PostgreSQL must pass through it", step)


def _may_search(found: os.stat_result, account: Account) -> bool:
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)

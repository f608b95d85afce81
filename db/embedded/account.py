"""The operating system account that PostgreSQL runs as: the caller's own, or a replacement for root.

PostgreSQL refuses to run as root. Started by root, it therefore runs as the account that owns the data, or
for new data as the system account ``telesto``, which is created if necessary. A program of ours that root
starts becomes that account too, before it begins: see `DataDirectory.become_owner`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pwd
import stat
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from telesto.db.embedded.errors import EmbeddedServerError

SYSTEM_ACCOUNT = "telesto"
#: The home of an account that the system does not list.
NO_HOME = "/nonexistent"
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_DUMPABLE = 1, 2, 4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """An account by its numbers; the name may be missing for one that the system does not list."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        """Return its name, or its number if it has none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


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
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", NO_HOME]
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

    Only root needs this: what an ordinary user starts has the user's own rights.
    """
    if os.geteuid() != 0:
        return
    for step in (directory, *directory.parents):
        found = step.stat()
        if not _may_search(found, account):
            os.chmod(step, stat.S_IMODE(found.st_mode) | stat.S_IXOTH)
            _log.warning(
                "gave others search permission on %s, because the account %s must pass through it",
                step,
                account.name,
            )


def _may_search(found: os.stat_result, account: Account) -> bool:
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def become(account: Account) -> None:
    """Turn this process, which is root's, into one of `account` for good, with its groups and home.

    Its directory is / then: the account may be unable to enter the one that root was in.

    Raises EmbeddedServerError if the account may not read Python or Telesto itself.
    """
    roots = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    places = [*sorted(Path(root).resolve() for root in roots), Path(__file__).resolve().parents[2]]
    for place in places:
        let_pass(place, account)
    signal_of_parent = _signal_of_parent()
    try:
        entry = pwd.getpwuid(account.uid)
    except KeyError:
        os.setgroups([])
        name, home = str(account.uid), NO_HOME
    else:
        os.initgroups(entry.pw_name, account.gid)
        name, home = entry.pw_name, entry.pw_dir
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.chdir("/")
    os.environ.update(HOME=home, USER=name, LOGNAME=name)
    _restore(signal_of_parent)
    for place in places:
        if not os.access(place, os.R_OK | os.X_OK):
            raise EmbeddedServerError(
                f"started by root, the service runs as the account {name}, which owns the data but may not "
                f"read {place}; let it, or install Telesto where everybody may read it"
            )


def _signal_of_parent() -> int:
    """Return the signal that this process gets when its parent ends; 0 for none."""
    if sys.platform != "linux":
        return 0
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def _restore(signal_of_parent: int) -> None:
    """Undo two effects of the new identity: the kernel forgets the signal, and shuts /proc/self."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_of_parent, 0, 0, 0)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

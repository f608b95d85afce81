"""Gets what peers lack: Debian packages by apt-get, Python packages by pip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from telesto.benchmarks.comparison.catalog import CATALOG, Entry

#: Each Python module of a client, and the distribution that brings it.
DISTRIBUTIONS: Final = {"aio_pika": "aio-pika", "nats": "nats-py"}
EXIT_UNABLE: Final = 127

Execute = Callable[[list[str]], int]


def install(
    names: Iterable[str],
    progress: Callable[[str], None],
    execute: Execute | None = None,
    catalog: Mapping[str, Entry] = CATALOG,
) -> None:
    """Install what these peers lack, as far as that works: what stays missing is told when they are skipped.

    Servers that a package would start as a service are not started.
    """
    entries = [catalog[name] for name in names]
    without_files = [entry for entry in entries if entry.missing_files()]
    debian = {package for entry in without_files if not entry.python for package in entry.debian}
    distributions = {package for entry in without_files for package in entry.python}
    modules = {module for entry in entries for module in entry.missing_modules()}
    distributions |= {DISTRIBUTIONS.get(module, module) for module in modules}
    commands = []
    if debian:
        commands.append(["apt-get", "update", "-qq"])
        commands.append(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *sorted(debian)])
    if distributions:
        commands.append([sys.executable, "-m", "pip", "install", "--quiet", *sorted(distributions)])
    for command in commands:
        progress(" ".join(command))
        if code := (execute or _execute)(command):
            progress(f"{command[0]} failed with status {code}")


def _execute(command: list[str]) -> int:
    # With this run level the packages' scripts start no service.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_UNABLE

"""Asking before something that cannot be undone."""

from __future__ import annotations

import sys

import typer

from telesto.cli.terminal.failures import usage_error


def ask(yes: bool, question: str) -> None:
    """Ask on the terminal, unless `yes`; No ends the command. Raises CommandError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise usage_error("this command asks before it acts, but there is no terminal; add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(0)

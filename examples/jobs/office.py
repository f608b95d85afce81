"""Puts a reminder, for now or for later, and cancels one that nobody has yet."""

import argparse
from datetime import datetime, timedelta

from jobs import app, remind
from telesto import TelestoClient


def main() -> None:
    """Reads the command line and does what it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    put = commands.add_parser("remind")
    put.add_argument("customer")
    put.add_argument("text")
    put.add_argument("--delay", type=float, help="seconds from now")
    put.add_argument("--at", type=datetime.fromisoformat, help="a time with its zone: 2030-01-01T08:00+01:00")
    commands.add_parser("cancel").add_argument("message_id", type=int)
    arguments = parser.parse_args()

    if arguments.command == "cancel":
        with TelestoClient() as client:
            cancelled = client.queue(remind.queue).cancel(arguments.message_id)
        print("cancelled" if cancelled else "too late")
        return
    task = remind
    if arguments.at:
        task = remind.options(at=arguments.at)
    elif arguments.delay:
        task = remind.options(delay=timedelta(seconds=arguments.delay))
    print(task.put(arguments.customer, text=arguments.text))
    app.close()


if __name__ == "__main__":
    main()

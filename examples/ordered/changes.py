"""Put changes of customers' accounts: a line of the standard input is one, as in `anna open the account`."""

import sys
from collections.abc import Iterable

from telesto import NewMessage, TelestoClient


def changes(lines: Iterable[str]) -> Iterable[NewMessage]:
    """Make a message of each line, with its customer as the key."""
    for line in lines:
        customer, change = line.rstrip("\n").split(" ", 1)
        yield NewMessage(change.encode(), partition_key=customer)


def main() -> None:
    """Put what the standard input says."""
    # The order of a key is that of one client's puts: all changes of a customer come through this one.
    with TelestoClient(name="accounts") as client:
        results = client.declare_queue("changes").put_many(changes(sys.stdin))
    failed = [result.error for result in results if result.error is not None]
    if failed:
        sys.exit(f"{len(failed)} changes were not put: {failed[0]}")
    print(f"{len(results)} changes")


if __name__ == "__main__":
    main()

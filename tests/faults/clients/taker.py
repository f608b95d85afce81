"""A client that takes one message, says which, and waits to be killed before it confirms."""

import sys
import threading

from telesto.client import ClientOptions, TelestoClient

from ..service.processes import end_with_parent


def main() -> None:
    """Takes a message: url, name and queue are on the command line."""
    end_with_parent()
    url, name, queue_id = sys.argv[1:]
    client = TelestoClient(url, options=ClientOptions(auto_confirm=False), name=name)
    client.connect()
    print("connected", flush=True)
    message = client.retrieve_message(int(queue_id))
    assert message is not None
    print(message.text, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

"""Runs an embedded server as its owner in a process of its own, for tests that kill owners.

Prints one JSON line when the server is ready, then waits for its input to end and stops the server.
"""

import json
import sys

from telesto.db.embedded.server import EmbeddedServer


def main() -> None:
    with EmbeddedServer(sys.argv[1]) as server:
        print(json.dumps({"url": server.url, "postmaster": server.pid}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""A consumer that takes and acknowledges one message for each word that it reads, and says what it did.

It ends when nobody can tell it anything any more.
"""

import json
import sys
from collections import deque
from collections.abc import Mapping

from telesto.client import LeasedMessage, TelestoClient

TAKE_TIMEOUT_S = 60.0


def main() -> None:
    task = json.loads(sys.argv[1])
    client = TelestoClient(task["url"], name=task["name"])
    client.connect()
    held: deque[LeasedMessage] = deque()
    with client.queue(task["queue_id"]).consume(credit=task["credit"]) as consumer:
        _say({"joined": True})
        for word in sys.stdin:
            if word == "take\n":
                leased = consumer.get(TAKE_TIMEOUT_S)
                assert leased is not None
                held.append(leased)
                message = leased.message
                _say({"text": message.text, "attempt": message.attempt, "redelivered": message.redelivered})
            else:
                held.popleft().ack()
                _say({"acknowledged": True})


def _say(fields: Mapping[str, object]) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()

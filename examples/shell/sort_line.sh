#!/bin/bash
# Files one line of a log, "LEVEL text", under its level. `telesto consume` runs it for each message.
set -eu

read -r level text || true # the body has no newline at its end, so `read` returns 1
if ! grep -qx -- "$level" levels; then
    echo "message $TELESTO_MESSAGE_ID, attempt $TELESTO_ATTEMPT: no level $level" >&2
    exit 1 # the message comes again, and is a dead letter in the end
fi

# A file for each message, and put there whole: so a message that comes twice has its effect once.
mkdir -p "sorted/$level"
echo "$text" > "sorted/$level/.$TELESTO_MESSAGE_ID.$$"
mv "sorted/$level/.$TELESTO_MESSAGE_ID.$$" "sorted/$level/$TELESTO_MESSAGE_ID"

#!/bin/bash
# work.sh [N]: N workers (3) file the lines of the queue `lines`, in the current folder, until SIGTERM or Ctrl-C.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

telesto queue declare lines --max-attempts 2 --backoff 100ms

workers=()
trap 'kill "${workers[@]}"' TERM INT
for ((number = 0; number < ${1:-3}; number++)); do
    # "exec", or a second shell would stay in between for as long as the script runs.
    telesto consume lines --exec "exec '$here/sort_line.sh'" &
    workers+=($!)
done
echo "${#workers[@]} workers"

# A signal ends the first wait; in the second one the workers wait for the commands that run.
wait || wait

#!/usr/bin/env bash
# Without a GPU the script says so and ends with a status of its own.
set -euo pipefail

run=$1

fail() {
  echo "$*"
  exit 1
}

status=0
"$run" --nonsense >/dev/null 2>&1 || status=$?
((status == 2)) || fail "wrong usage: exit status $status, not 2"

[[ $("$run" --help) == *'3 no GPU'* ]] || fail "--help does not name the status"

status=0
said=$("$run" "$TEST_TMPDIR" 2>&1) || status=$?
if [[ -e /dev/nvidiactl ]]; then
  ((status == 2)) || fail "no bundle: exit status $status, not 2: $said"
else
  ((status == 3)) || fail "no GPU: exit status $status, not 3: $said"
  [[ $said == *'no GPU here'* ]] || fail "it said: $said"
fi

#!/usr/bin/env bash
# What the server says of its device, and how it ends where a GPU is lost.
# There need not be a GPU.
set -euo pipefail

server=$1
log=$TEST_TMPDIR/log
port_file=$TEST_TMPDIR/port

fail() {
  echo "$*; the server said:"
  cat "$log"
  exit 1
}

# expect TEXT
expect() { grep -qF -- "$1" "$log" || fail "no \"$1\""; }

# refused STATUS FLAG...: the server ends with this status.
refused() {
  local want=$1 status=0
  shift
  "$server" --listen=127.0.0.1:0 "$@" 2>"$log" || status=$?
  ((status == want)) || fail "exit status $status, not $want"
}

refused 1 --device=gpu
expect '--device: device is "gpu"; must be auto, cpu or cuda'
# No machine has so many.
refused 1 --device=cuda --cuda_device=1000
grep -qE 'built without CUDA|no CUDA device|CUDA device is 1000; must be' \
  "$log" || fail "no word of the device"

# The signal that the server sends itself.
"$server" --listen=127.0.0.1:0 --port_file="$port_file" 2>"$log" &
pid=$!
for ((i = 0; i < 600; ++i)); do
  [[ ! -s $port_file ]] || break
  kill -0 "$pid" 2>/dev/null || fail "it ended"
  sleep 0.1
done
kill -USR1 "$pid"
status=0
wait "$pid" || status=$?
((status == 1)) || fail "exit status $status, not 1"
expect 'event=device_chosen device="c'
expect 'event=stopped'
expect 'the GPU is lost; a new process must replace this one'

#!/usr/bin/env bash
# The programs for a GPU load their libraries and start. Without a GPU they say
# so; what they do with one is not tested here.
set -euo pipefail

attention=$1 comm=$2 shard=$3 bench=$4 worker=$5

fail() {
  echo "$*"
  exit 1
}

for program in "$attention" "$comm" "$shard"; do
  tests=$("$program" --gtest_list_tests) || fail "$program does not start"
  [[ $tests == *$'\n  '* ]] || fail "$program has no tests"
done

# A GPU, or its number, that is not there.
status=0
said=$("$worker" --session=none --device=cuda --cuda_device=1000 2>&1) ||
  status=$?
((status != 0)) || fail "the worker found device 1000"
grep -qE 'no CUDA device|CUDA device is 1000; must be' <<<"$said" ||
  fail "the worker said: $said"

[[ ! -e /dev/nvidiactl ]] || exit 0
status=0
said=$("$bench") || status=$?
((status == 3)) || fail "gpu_bench: exit status $status, not 3: $said"
grep -q 'no CUDA device' <<<"$said" || fail "gpu_bench said: $said"
status=0
said=$("$shard" --gtest_filter='GpuShardThreadsTest.*') || status=$?
((status == 1)) || fail "shard_test: exit status $status, not 1"
grep -q 'no CUDA device' <<<"$said" || fail "shard_test said: $said"

#!/usr/bin/env bash
# Runs what needs a GPU, on one GPU, in a few minutes. Builds nothing.
set -euo pipefail

usage() {
  cat <<'END'
Usage: run.sh [--no_bench] [DIR]

Runs the programs that tests/gpu/bundle packed into DIR (default: the folder of
this script) and prints a table and "N passed, N failed". LibTorch is that of
LIBTORCH_DIR (a folder with lib/libtorch_cuda.so), else that of python3's torch;
it must be 2.11 with CUDA 13.

  --no_bench  leaves the figures out

Exit status: 0 all passed, 1 something failed, 2 wrong usage or no bundle or no
LibTorch, 3 no GPU: nothing was run.
END
}

# A program takes so long at most.
readonly LIMIT=100
readonly TESTS=(shard_test attention_test comm_test)

die() {
  local status=$1
  shift
  echo "run.sh: $*" >&2
  exit "$status"
}

# The folder of LibTorch's libraries.
find_libtorch() {
  local dir=${LIBTORCH_DIR:-}
  [[ -n $dir ]] || dir=$(python3 -c '
import importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0])' \
    2>/dev/null) || true
  [[ -e $dir/lib/libtorch_cuda.so ]] ||
    die 2 "no LibTorch: set LIBTORCH_DIR, or install torch for python3"
  echo "$dir/lib"
}

# Folders of the bundle, LibTorch and the NVIDIA wheels beside it.
library_path() {
  local torch=$1 path=$dir/lib:$1 folder
  for folder in "$torch"/../../nvidia/*/lib; do
    [[ ! -d $folder ]] || path+=:$folder
  done
  echo "$path"
}

# run_tests NAME: adds a line to the table, and to the counts.
run_tests() {
  local name=$1 log=$work/$1.log begin=$SECONDS status=0 ok bad
  timeout "$LIMIT" "$dir/bin/$name" >"$log" 2>&1 || status=$?
  ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\.$/\1/p' "$log")
  bad=$(sed -n 's/^ *\([0-9]*\) FAILED TESTS*$/\1/p' "$log")
  ok=${ok:-0} bad=${bad:-0}
  # A crash and the time limit are failures of their own.
  if ((status != 0 && bad == 0)); then bad=1; fi
  passed=$((passed + ok)) failed=$((failed + bad))
  printf '%-16s %6d passed %6d failed %6d s\n' "$name" "$ok" "$bad" \
    $((SECONDS - begin))
  ((bad == 0)) || {
    grep -A8 -E 'Failure$|^\[  FAILED  \]' "$log" | head -n 60 || true
    ((status != 124)) || echo "$name: cut after $LIMIT s"
    tail -n 5 "$log"
  }
}

sanitize() {
  local tool
  tool=$(command -v compute-sanitizer) || {
    echo 'compute-sanitizer: not installed, left out'
    return 0
  }
  local log=$work/sanitizer.log status=0
  timeout "$LIMIT" "$tool" --error-exitcode 9 "$dir/bin/shard_test" \
    --gtest_filter='GpuRankSharderTest.*:*STRIPED*On3' >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    passed=$((passed + 1))
    echo 'compute-sanitizer clean'
  else
    failed=$((failed + 1))
    echo "compute-sanitizer: exit status $status"
    tail -n 20 "$log"
  fi
}

# figures NAME ARG...: a program that prints JSON lines.
figures() {
  local name=$1
  shift
  timeout "$LIMIT" "$dir/bin/$name" "$@" || {
    failed=$((failed + 1))
    echo "$name $* failed"
  }
}

main() {
  local bench=1
  dir=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
  while (($# > 0)); do
    case $1 in
      --no_bench) bench=0 ;;
      -h | --help)
        usage
        exit 0
        ;;
      -*)
        usage >&2
        exit 2
        ;;
      *) dir=$1 ;;
    esac
    shift
  done
  # The driver makes it; without a driver no program would find a GPU.
  if [[ ! -e /dev/nvidiactl ]]; then
    echo 'no GPU here (/dev/nvidiactl is not there): nothing was run'
    exit 3
  fi
  [[ -x $dir/bin/shard_test ]] ||
    die 2 "no bundle in $dir: make one with tests/gpu/bundle"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  local torch
  torch=$(find_libtorch)
  LD_LIBRARY_PATH=$(library_path "$torch")
  export LD_LIBRARY_PATH
  # Without it LibTorch refuses matrix products in deterministic mode.
  export CUBLAS_WORKSPACE_CONFIG=:4096:8
  nvidia-smi -L 2>/dev/null || true
  passed=0 failed=0
  local name
  for name in "${TESTS[@]}"; do run_tests "$name"; done
  sanitize
  if ((bench)); then
    figures gpu_bench
    # Loader to ranks through the whole service.
    figures pipeline_bench --rounds=1 --device=cpu
    figures pipeline_bench --rounds=1 --device=cuda
  fi
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

main "$@"

#!/bin/sh
# tools/fuzz.sh BUILD SECONDS [TARGET…]: runs the libFuzzer programs in BUILD/fuzz, all or those
# named, each for that long and as many at a time as there are cores. What they learn stays in
# BUILD/corpus; an input that fails is kept in BUILD/findings, and is a file of tests/fuzz/corpus once
# it is mended.
cd "$(dirname "$0")/.." || exit 1
build=$1
seconds=$2
shift 2
[ $# -gt 0 ] || set -- $(cd "$build/fuzz" && ls)
mkdir -p "$build/findings" "$build/log"

one() {
  mkdir -p "$build/corpus/$1"
  if env OMP_NUM_THREADS=1 "$build/fuzz/$1" -max_total_time="$seconds" -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=16384 -artifact_prefix="$build/findings/$1-" \
    "$build/corpus/$1" "tests/fuzz/corpus/$1" >"$build/log/$1" 2>&1; then
    printf '    %s: %s\n' "$1" "$(grep -a '^Done' "$build/log/$1")"
  else
    printf '    %s: FAILED, see %s and %s\n' "$1" "$build/log/$1" "$build/findings"
    return 1
  fi
}

if [ "$#" -eq 1 ]; then one "$1"; exit; fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} "tools/$(basename "$0")" "$build" "$seconds" {}

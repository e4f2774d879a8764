#!/bin/sh
# tools/step.sh "what is being done" command…: says so, does it, and says how long it took.
what=$1
shift
printf '==> %s\n' "$what"
begin=$(date +%s%N)
"$@"
status=$?
tenths=$((($(date +%s%N) - begin) / 100000000))
if [ "$status" -eq 0 ]; then ending="done"; else ending="FAILED (exit $status)"; fi
printf '    %s: %s, %d.%d s\n' "$ending" "$what" $((tenths / 10)) $((tenths % 10))
exit "$status"

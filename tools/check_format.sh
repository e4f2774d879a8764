#!/bin/sh
# Fails, naming the places, when clang-format would change a C++ file. `--fix` changes it.
set -e
cd "$(dirname "$0")/.."
if [ "$1" = --fix ]; then options="-i"; else options="--dry-run -Werror"; fi
find longspan apps benchmarks examples tests -name node_modules -prune -o \
  \( -name '*.h' -o -name '*.cc' \) -print0 | xargs -0 -r clang-format $options

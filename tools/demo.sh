#!/bin/sh
# tools/demo.sh path/to/longspan: trains a small model on the bundled text, evaluates it and lets
# it write, in about two minutes.
set -e
longspan=$1
out=${2:-build/demo}
rm -rf "$out"
"$longspan" train text --data data/demo.txt --out "$out" --steps 600
"$longspan" eval "$out"
"$longspan" generate "$out" --prompt "The "
echo "checkpoint: $out"

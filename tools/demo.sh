#!/bin/sh
# tools/demo.sh path/to/longspan [directory]: trains a small model on the bundled text, evaluates it
# and lets it write, in about a minute.
set -e
longspan=$1
out=${2:-build/demo}
"$longspan" list
echo
"$longspan" train text --data data/tinyshakespeare.txt --out "$out" --overwrite --steps 1000
"$longspan" eval "$out"
echo
"$longspan" generate "$out" --prompt "ROMEO:" --tokens 400
echo
echo "The trained model is in $out; go on with it:"
echo "  $longspan train text --out $out --resume --steps 2000"

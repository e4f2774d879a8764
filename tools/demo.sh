#!/bin/sh
# tools/demo.sh path/to/longspan [directory]: compares every attention on this machine for a minute,
# trains a small model on the bundled text and lets it write. Each part says how long it took.
set -e
longspan=$1
out=${2:-build/demo}
step=$(dirname "$0")/step.sh
mkdir -p "$out"

"$step" "demo: train a small model on the bundled text" \
  "$longspan" train text --data data/tinyshakespeare.txt --out "$out/model" --overwrite --steps 1000
"$step" "demo: evaluate it" "$longspan" eval "$out/model"
"$step" "demo: let it write" "$longspan" generate "$out/model" --prompt "ROMEO:" --tokens 400
echo
if "$longspan" calibrate --show >/dev/null 2>&1; then
  echo "==> demo: this machine is calibrated already"
else
  "$step" "demo: calibrate this machine, once" "$longspan" calibrate
fi
"$step" "demo: compare every attention for a minute" \
  "$longspan" compare --budget 1m --out "$out/compare.json" --overwrite
echo
echo "The page, for a browser:  $out/compare.html"
echo "Go on comparing:          $longspan compare --add $out/compare.json --budget 5m"
echo "Go on training:           $longspan train text --out $out/model --resume --steps 2000"

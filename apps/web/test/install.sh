#!/bin/sh
# install.sh SOURCE COPY: a copy of the sources of the page with the packages that the lock file
# names. They are fetched once, and again when the lock file changes.
set -e
source=$1
copy=$2
for program in node npm; do
  if ! command -v $program >/dev/null; then
    echo "$program is missing: run tools/install_packages.sh nodejs npm chromium" >&2
    exit 1
  fi
done
mkdir -p "$copy"
for item in package.json package-lock.json .npmrc tsconfig.json build.mjs src test; do
  rm -rf "${copy:?}/$item"
  cp -R "$source/$item" "$copy/"
done
cd "$copy"
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --prefer-offline --loglevel=error
  cp package-lock.json node_modules/.installed
fi

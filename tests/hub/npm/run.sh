#!/usr/bin/env bash
# run.sh FAKE_HUB PULL_TOOL FOLDER: installs the pinned package below FOLDER and lets it look at our cache.
# 77 = there is no node here.
set -eu
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
command -v node >/dev/null && command -v npm >/dev/null || { echo "node and npm are not installed"; exit 77; }
mkdir -p "$3"
cp "$here/package.json" "$here/package-lock.json" "$here/check.mjs" "$3"
cd "$3"
if [ ! -d node_modules/@huggingface/hub ] || ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; exit 1; }
  cp package-lock.json node_modules/.installed
fi
exec node check.mjs "$1" "$2"

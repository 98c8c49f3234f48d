#!/usr/bin/env bash
# get_proxies.sh FOLDER: nginx and HAProxy of this Debian or Ubuntu, unpacked into FOLDER unless they are there already.
# Nothing is installed, since an installed one would begin to listen on port 80. Prints their paths.
set -eu
folder=$1
if ! [ -e "$folder/complete" ]; then
  mkdir -p "$folder/packages"
  cd "$folder/packages"
  fetch() { apt-get download nginx haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1; }
  fetch >/dev/null 2>"$folder/log" || { apt-get -q update >/dev/null 2>&1 && fetch >/dev/null 2>"$folder/log"; } || {
    cat "$folder/log" >&2
    echo "nginx and haproxy could not be fetched with apt-get download" >&2
    exit 1
  }
  for package in *.deb; do dpkg -x "$package" "$folder"; done
  touch "$folder/complete"
fi
echo "$folder/usr/sbin/nginx $folder/usr/sbin/haproxy"

#!/usr/bin/env bash
# units_test.sh PROGRAM SOURCE FOLDER: systemd reads the units of packaging/ without a word, and finds a service well
# shut in: an exposure of 2.5 at most, with a GPU 4.
set -eu
program=$1 units=$2/packaging/systemd folder=$3
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is missing: install systemd"; exit 1; }
rm -rf "$folder" && mkdir -p "$folder"
for unit in slipstream.service slipstream@.service; do
  sed "s|/usr/bin/slipstream|$program|" "$units/$unit" >"$folder/$unit"
done
cp "$folder/slipstream@.service" "$folder/slipstream@8081.service"
for unit in slipstream.service slipstream@8081.service; do
  said=$(systemd-analyze verify "$folder/$unit" 2>&1) || { echo "$said"; exit 1; }
  if grep -q "$unit" <<<"$said"; then echo "$said"; exit 1; fi
  systemd-analyze security --no-pager --offline=yes --threshold=25 "$folder/$unit" >"$folder/security" || {
    cat "$folder/security"
    exit 1
  }
done
cat "$units/slipstream.service.d/cuda.conf" >>"$folder/slipstream.service"
systemd-analyze security --no-pager --offline=yes --threshold=40 "$folder/slipstream.service" | tail -1
# The options of serve.conf are options of serve.
sed 's/^# \([a-z-]* = \)/\1/' "$units/serve.conf" >"$folder/serve.conf"
said=$("$program" serve --config "$folder/serve.conf" --port 0 2>&1 </dev/null) || true
if grep -q "there is no option" <<<"$said"; then echo "$said"; exit 1; fi
echo passed

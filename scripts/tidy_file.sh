#!/usr/bin/env bash
# tidy_file.sh BUILD FILE: clang-tidy on one file; any warning is a failure. For scripts/checks.sh.
clang-tidy-14 -p "$1" --quiet --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option "$2" 2>/dev/null
status=$?
echo "looked at $2"
exit "$status"

# Sourced by .ci/run and .ci/long after setup.sh: steps that are timed and counted, formatting, clang-tidy.

step_lines=()
step_failures=0

# step NAME COMMAND...: runs it, remembers how it ended and how long it took.
step() {
  local name=$1 start=$SECONDS verdict=passed
  shift
  say "$name ..."
  "$@" </dev/null || { verdict=FAILED && step_failures=$((step_failures + 1)); }
  step_lines+=("$(printf '%-7s %5d s  %s' "$verdict" "$((SECONDS - start))" "$name")")
}

# report: the last lines; the exit code of a script that ends with it is 0 only if all steps passed.
report() {
  printf '%s\n' "${step_lines[@]}"
  [ "$step_failures" = 0 ]
}

check_formatting() {
  local folders=() folder sources
  for folder in src include examples tests bench tools; do
    [ -d "$ROOT/$folder" ] && folders+=("$ROOT/$folder")
  done
  mapfile -d '' -t sources < <(find "${folders[@]}" -name '*.h' -print0 -o -name '*.cpp' -print0 -o -name '*.cu' -print0)
  if ! clang-format-14 --dry-run -Werror "${sources[@]}"; then
    say "formatting differs; run 'clang-format-14 -i' on the files above."
    return 1
  fi
  say "formatting: ${#sources[@]} files are as .clang-format wants them"
}

# changed_sources [all]: files under src/ and tests/ that clang-tidy looks at: those that differ from the branch this
# one left, or, where that is unknown (on that branch itself, or in a shallow clone), the 50 changed last.
changed_sources() {
  local base name
  if [ "${1:-}" = all ]; then
    git ls-files 'src/*.cpp' 'tests/*.cpp'
    return
  fi
  for name in "${SLIP_BASE:-}" origin/main origin/master main master; do
    [ -n "$name" ] && base=$(git merge-base HEAD "$name" 2>/dev/null) && [ "$base" != "$(git rev-parse HEAD)" ] && break
    base=
  done
  if [ -n "$base" ]; then
    git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'tests/*.cpp'
  else
    git log -n 300 --name-only --diff-filter=d --format= -- 'src/*.cpp' 'tests/*.cpp' | awk '!seen[$0]++' |
      while read -r name; do [ -f "$name" ] && echo "$name"; done | head -n 50
  fi
}

# check_tidy SECONDS [all]: clang-tidy on those files, newest first, until the time is up. The CUDA executor is left
# out: its host code needs macros that only its own builds set.
check_tidy() {
  local seconds=$1 folder="$ROOT/build/tidy" files status=0 done
  mapfile -t files < <(changed_sources "${2:-}" | grep -v '/cuda/')
  if [ ${#files[@]} = 0 ]; then
    say "clang-tidy: no source file changed"
    return 0
  fi
  # A folder of its own: clang cannot read GCC's precompiled headers.
  quietly "$ROOT/build/tidy.log" "configuring for clang-tidy ..." cmake --preset debug -B "$folder" \
    -DSLIP_PRECOMPILE=OFF -DSLIP_CUDA=OFF || return 1
  cmake --build "$folder" --target slip_git_commit >/dev/null || return 1
  printf '%s\0' "${files[@]}" |
    timeout "$seconds" xargs -0 -n 1 -P "$(nproc)" "$ROOT/scripts/tidy_file.sh" "$folder" >"$ROOT/build/tidy.out" || status=$?
  done=$(grep -c '^looked at ' "$ROOT/build/tidy.out")
  grep -v '^looked at ' "$ROOT/build/tidy.out"
  say "clang-tidy: $done of ${#files[@]} files looked at"
  if [ "$status" = 124 ]; then
    status=0
    grep -q 'warning:\|error:' "$ROOT/build/tidy.out" && status=1
  fi
  return "$status"
}

# check_apart LABEL: tests that need what others do not, a registry or programs of the distribution.
check_apart() {
  ctest --test-dir "$ROOT/build/release" --output-on-failure --no-tests=error -C "$1" -L "$1"
}

# try_newest_clients: the newest versions of the clients from npm. What they find is told and fails nothing: a client that
# changed is news, and no mistake of the commit at hand.
try_newest_clients() {
  "$ROOT/tests/npm/run.sh" "$ROOT/build/npm-newest" "$ROOT/build/release/tests/scripted_server" newest ||
    say "the newest clients from npm see something else than those of tests/npm/package-lock.json; the lines above say what"
  return 0
}

# check_asan: the rooms that meet foreign bytes and threads, with AddressSanitizer and UndefinedBehaviorSanitizer. The
# whole tree under them is for .ci/long: it takes half an hour to build.
check_asan() {
  local folder="$ROOT/build/asan" rooms=(base kv sample text engine session)
  cmake --preset asan >"$ROOT/build/asan-configure.log" 2>&1 || { cat "$ROOT/build/asan-configure.log"; return 1; }
  cmake --build "$folder" --target "${rooms[@]/%/_tests}" >"$ROOT/build/asan-build.log" 2>&1 || {
    cat "$ROOT/build/asan-build.log"
    return 1
  }
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -R "^($(IFS='|'; echo "${rooms[*]}"))(_[0-9]+)?\$"
}

# advise_tidy SECONDS: clang-tidy's words, which fail nothing until the whole tree has been looked at.
advise_tidy() {
  check_tidy "$1" || say "clang-tidy: the lines above are advice for now; docs/testing.md says why"
  return 0
}

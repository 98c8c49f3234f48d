# Sourced by ./run, ./test and .ci/run (ROOT is set): finds the Debian packages the build needs, installs the missing
# ones after saying so, and configures and builds a preset. Everything it says goes to stderr, since the output of
# ./run belongs to slipstream. Names are those of Debian 12 and Ubuntu 24.04.

SLIP_PACKAGES=(
  g++ cmake ninja-build xz-utils
  libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  libcurl4-openssl-dev libssl-dev ca-certificates
)
SLIP_TEST_PACKAGES=(python3)  # the tests of tools/train

say() { printf 'slipstream: %s\n' "$*" >&2; }

# missing_packages NAME...: prints those that are not installed. One dpkg-query, some 20 ms.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

install_packages() {
  local root=() log
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "these packages are missing and only root may install them: run as root 'apt-get install $*', then try again."
      return 1
    fi
    root=(sudo)
  fi
  say "installing with apt-get: $*"
  log=$(mktemp)
  if "${root[@]}" apt-get update -q >"$log" 2>&1 &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >>"$log" 2>&1; then
    rm -f "$log"
    return 0
  fi
  cat "$log" >&2
  rm -f "$log"
  say "apt-get could not install them (its words are above); run 'apt-get install $*' by hand, then try again."
  return 1
}

# need_packages NAME...: returns once all are installed.
need_packages() {
  local missing
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # Another kind of Linux: the tools may be there under other names, so only their absence stops us.
    command -v cmake >/dev/null && command -v ninja >/dev/null && command -v c++ >/dev/null && return 0
    say "this system has no apt-get; install what Debian calls '$*' with its own package manager, then try again."
    return 1
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

# quietly LOG NOTE COMMAND...: runs the command; says NOTE when it takes longer than two seconds and shows what it
# printed only when it fails.
quietly() {
  local log=$1 note=$2 status=0 timer
  shift 2
  # The sleep outlives the kill below by up to two seconds: it must hold neither our streams nor the build lock.
  ( sleep 2 >/dev/null 2>&1 && say "$note" ) 9>&- &
  timer=$!
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$timer" 2>/dev/null
  wait "$timer" 2>/dev/null
  [ "$status" = 0 ] || cat "$log" >&2
  return "$status"
}

# build_preset PRESET TARGET: configures if need be and builds. A first build shows its progress, later ones are
# silent unless they take long or fail. One build at a time; the stamp says when its sources were last looked at.
build_preset() {
  local preset=$1 target=$2 folder="$ROOT/build/$1" first=no
  mkdir -p "$folder" || return 1
  (
    flock 9
    touch "$folder/.started"
    # A build folder that was copied or moved remembers another place; begin anew.
    if [ -f "$folder/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$folder/CMakeCache.txt"; then
      rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
    fi
    cd "$ROOT" || exit 1
    if [ ! -f "$folder/build.ninja" ] || [ ! -f "$folder/CMakeCache.txt" ]; then
      quietly "$folder/configure.log" "configuring ..." cmake --preset "$preset" || exit 1
    fi
    [ -f "$folder/.built-$target" ] || first=yes
    if [ "$first" = yes ] && [ -t 2 ]; then
      say "building for the first time (a few minutes); later starts are instant."
      cmake --build "$folder" --target "$target" >&2 || exit 1
    else
      quietly "$folder/build.log" "building $preset (a few minutes the first time) ..." cmake --build "$folder" --target "$target" || exit 1
    fi
    mv -f "$folder/.started" "$folder/.built-$target"
  ) 9>"$folder/.lock"
}

# up_to_date PRESET TARGET: true when nothing the build reads is newer than its stamp. Folders count too, so an added
# or removed file is seen; the reflog counts because the commit is part of `slipstream version`.
up_to_date() {
  local stamp="$ROOT/build/$1/.built-$2" newer
  [ -f "$stamp" ] || return 1
  newer=$(cd "$ROOT" && find src cmake CMakeLists.txt CMakePresets.json .git/logs/HEAD -newer "$stamp" -print -quit 2>/dev/null)
  [ -z "$newer" ]
}

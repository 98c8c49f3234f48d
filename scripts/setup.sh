# Sourced by ./run, ./test and .ci/run (ROOT is set): finds the Debian packages the build needs, installs the missing
# ones after saying so, and configures and builds a preset. Everything it says goes to stderr, since the output of
# ./run belongs to slipstream. Names are those of Debian 12 and Ubuntu 24.04.

# What the program needs, and what only tests need.
SLIP_PACKAGES=(
  g++ cmake ninja-build
  libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev libboost-dev prometheus-cpp-dev
)
SLIP_TEST_PACKAGES=(
  libgtest-dev
  python3  # the tests of tools/train
)

say() { printf 'slipstream: %s\n' "$*" >&2; }

# progress NOTE: reads lines 'DONE TOTAL' and shows how far it is, once it has taken two seconds: a bar on a terminal,
# elsewhere a line every 20 seconds.
progress() {
  local note=$1 done total start=$SECONDS said=$SECONDS bar='==============================' shown=no
  while read -r done total; do
    ((SECONDS - start >= 2 && total > 0)) || continue
    if [ -t 2 ]; then
      printf '\r\033[Kslipstream: %s [%-30s] %d of %d' "$note" "${bar:0:30*done/total}" "$done" "$total" >&2
      shown=yes
    elif ((SECONDS - said >= 20)) || [ "$shown" = no ]; then
      say "$note: $done of $total"
      said=$SECONDS shown=yes
    fi
  done
  if [ "$shown" = yes ] && [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

# command_of PACKAGE: the command it is installed for, empty for libraries.
command_of() {
  case "$1" in
    g++) echo c++ ;;
    ninja-build) echo ninja ;;
    lib* | *-dev) ;;
    *) echo "$1" ;;
  esac
}

# missing_packages NAME...: prints those that are not there. One dpkg-query, some 20 ms. A command counts wherever it
# comes from.
missing_packages() {
  local installed package command
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" && continue
    command=$(command_of "$package")
    [ -n "$command" ] && command -v "$command" >/dev/null && continue
    printf '%s\n' "$package"
  done
}

# may_install NAME...: asks before sudo is used on a terminal; root is not asked.
may_install() {
  local answer
  [ "$(id -u)" = 0 ] && return 0
  if ! command -v sudo >/dev/null; then
    say "these packages are missing and only root may install them: run as root 'apt-get install $*', then try again."
    return 1
  fi
  { [ -t 0 ] && [ -t 2 ]; } || return 0
  say "these packages are missing: $*"
  printf 'slipstream: install them with sudo apt-get? [Y/n] ' >&2
  read -r answer || answer=n
  case "$answer" in
    '' | [Yy]*) sudo -v ;;
    *) say "nothing was installed; run 'sudo apt-get install $*' by hand, then try again." && return 1 ;;
  esac
}

# apt_get ARGS...: the commands apt-get gets; its status lines become progress.
apt_get() {
  local log=$1 root=() kind rest percent
  shift
  [ "$(id -u)" = 0 ] || root=(sudo)
  if [ ${#root[@]} = 1 ] && ! [ -t 0 ]; then root+=(-n); fi  # never waits for a password nobody can type
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o APT::Status-Fd=1 "$@" 2>>"$log" </dev/null |
    tee -a "$log" |
    while IFS=: read -r kind rest percent rest; do
      [[ $kind =~ ^(dl|pm)status$ && $percent =~ ^[0-9]+ ]] || continue
      percent=$((BASH_REMATCH[0] / 2))
      [ "$kind" = dlstatus ] || percent=$((50 + percent))
      echo "$percent 100"
    done | progress "installing packages"
  return "${PIPESTATUS[0]}"
}

install_packages() {
  local log status=0
  may_install "$@" || return 1
  say "installing with apt-get: $*"
  log=$(mktemp)
  apt_get "$log" update && apt_get "$log" install -y --no-install-recommends "$@" || status=1
  if [ "$status" != 0 ]; then
    grep -v '^\(dl\|pm\)status:' "$log" >&2
    say "apt-get could not install them (its words are above); run 'apt-get install $*' by hand, then try again."
  fi
  rm -f "$log"
  return "$status"
}

# need_packages NAME...: returns once all are installed.
need_packages() {
  local missing
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # Another kind of Linux: the tools may be there under other names, so only their absence stops us.
    have_tools && return 0
    say "this system has no apt-get; install what Debian calls '$*' with its own package manager, then try again."
    return 1
  fi
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"
}

have_tools() { command -v cmake >/dev/null && command -v ninja >/dev/null && command -v c++ >/dev/null; }

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

# gpu_here: whether an NVIDIA driver is there; cmake/cuda.cmake looks at the same files.
gpu_here() { [ -e /dev/nvidiactl ] || [ -e /proc/driver/nvidia/version ] || [ -e /dev/dxg ]; }

# configured FOLDER TESTS: true when the folder was configured for this place, these tests, this GPU and $SLIP_CUDA.
configured() {
  local cache="$1/CMakeCache.txt" gpu=OFF
  [ -f "$1/build.ninja" ] && [ -f "$cache" ] || return 1
  grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$cache" || return 1
  [ "$2" = OFF ] || grep -qxF 'BUILD_TESTING:BOOL=ON' "$cache" || return 1
  [ -z "${SLIP_CUDA:-}" ] || grep -qxF "SLIP_CUDA:STRING=$SLIP_CUDA" "$cache" || return 1
  gpu_here && gpu=ON
  grep -qxF "SLIP_GPU_SEEN:INTERNAL=$gpu" "$cache"
}

# configure PRESET TESTS LOG: TESTS is ON or OFF; a folder that has tests keeps them.
configure() {
  local folder="$ROOT/build/$1" options=()
  # A build folder that was copied or moved remembers another place; begin anew.
  if [ -f "$folder/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$folder/CMakeCache.txt"; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  if [ "$2" = ON ] || [ ! -f "$folder/CMakeCache.txt" ]; then options+=("-DBUILD_TESTING=$2"); fi
  [ -z "${SLIP_CUDA:-}" ] || options+=("-DSLIP_CUDA=$SLIP_CUDA")
  cd "$ROOT" && cmake --preset "$1" "${options[@]}" >"$3" 2>&1 </dev/null
}

# prepare PRESET TESTS PACKAGE...: packages, then a configured folder. Where all tools are there, CMake is asked before
# anything is installed: a library may come from elsewhere.
prepare() {
  local preset=$1 tests=$2 folder="$ROOT/build/$1" skipped
  shift 2
  configured "$folder" "$tests" && return 0
  mkdir -p "$folder" || return 1
  if ! { have_tools && ( configure "$preset" "$tests" "$folder/configure.log" ); }; then
    need_packages "$@" || return 1
    if ! ( configure "$preset" "$tests" "$folder/configure.log" ); then
      cat "$folder/configure.log" >&2
      return 1
    fi
  fi
  skipped=$(sed -n 's/^-- \(CUDA executor: not built.*\)/\1/p' "$folder/configure.log")
  [ -z "$skipped" ] || say "$skipped"
}

# build_preset PRESET TARGET TESTS PACKAGE...: prepares and builds. One build at a time; the stamp says when its sources
# were last looked at.
build_preset() {
  local preset=$1 target=$2 folder="$ROOT/build/$1" status
  mkdir -p "$folder" || return 1
  (
    flock 9
    touch "$folder/.started"
    prepare "$preset" "${@:3}" || exit 1
    NINJA_STATUS='@%f %t@ ' cmake --build "$folder" --target "$target" 2>&1 </dev/null |
      tee "$folder/build.log" | sed -un 's/^@\([0-9]* [0-9]*\)@.*/\1/p' | progress "building $preset"
    status=${PIPESTATUS[0]}
    if [ "$status" != 0 ]; then
      sed '/^@[0-9]* [0-9]*@/d' "$folder/build.log" >&2
      exit 1
    fi
    mv -f "$folder/.started" "$folder/.built-$target"
  ) 9>"$folder/.lock"
}

# up_to_date PRESET TARGET: true when nothing the build reads is newer than its stamp. Folders count too, so an added
# or removed file is seen; the reflog counts because the commit is part of `slipstream version`.
up_to_date() {
  local folder="$ROOT/build/$1" newer
  local stamp="$folder/.built-$2"
  [ -f "$stamp" ] && configured "$folder" OFF || return 1
  newer=$(cd "$ROOT" && find src include cmake models CMakeLists.txt CMakePresets.json .git/logs/HEAD \
    -newer "$stamp" -print -quit 2>/dev/null)
  [ -z "$newer" ]
}

# What the scripts share. Sourced by them, with bash.
# shellcheck shell=bash
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
script=scripts/$(basename "$0")
build=$repository/build
# numpy and pytest are Debian's: another python3 in PATH may lack them.
python=/usr/bin/python3
[[ -x $python ]] || python=python3
cd "$repository"

# A heading with the time since the script began.
say() { printf '== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

fail() {
  printf '%s: error: %s\n' "$script" "$*" >&2
  exit 1
}

# usage TEXT ARGUMENT...: answers --help.
usage() {
  local text=$1 argument
  shift
  for argument; do
    case $argument in -h | --help)
      printf '%s\n' "$text"
      exit 0
      ;;
    esac
  done
}

# quietly LOG COMMAND...: shows the output only where the command fails.
quietly() {
  local log=$1 status=0
  shift
  "$@" >"$log" 2>&1 || status=$?
  [[ $status == 0 ]] || {
    tail -n 40 "$log" >&2
    printf '%s: error: exit code %d from: %s (all of its output: %s)\n' "$script" "$status" "$*" "$log" >&2
    return 1
  }
}

# write_file FILE: standard input, all of it or nothing.
write_file() {
  cat >"$1.part"
  mv "$1.part" "$1"
}

# Compilations at once: as many as cores, at 2 GB each.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 2000000)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# build PRESET FOLDER TARGET...: configures and builds.
build() {
  local preset=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  # Always, as it takes a second: what is installed may have changed.
  quietly "$folder/configure.log" cmake --preset "$preset"
  ninja -C "$folder" -j "$(jobs)" "$@"
}

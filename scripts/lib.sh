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
# Nobody waits until this machine is measured for a report's times.
export OPTIMUS_MACHINE_CACHE=none
# What scripts/setup --cuda installed.
if [[ -e .cache/cuda/environment ]]; then
  # shellcheck source=/dev/null
  source .cache/cuda/environment
fi

# A heading with the time since the script began.
say() { printf '== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

fail() {
  printf '%s: error: %s\n' "$script" "$*" >&2
  exit 1
}

# A signal ends what the script runs too: bash alone would wait for it, or leave
# it behind. Bash's own list has a command from its start; a variable would be
# set a moment later.
stop() {
  trap '' HUP INT TERM
  local group
  # `timeout` that has just started its command does not know it yet.
  for group in $(builtin jobs -p); do
    { kill -- "-$group" && wait "$group"; } 2>/dev/null || true
  done
  exit "$1"
}
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# run [--limit SECONDS] [--log FILE] COMMAND...: `timeout` passes signals on to
# all processes of the command. Only its output goes to FILE: not that of traps.
run() {
  local limit=0 log= status=0 child
  [[ $1 != --limit ]] || { limit=$2 && shift 2; }
  [[ $1 != --log ]] || { log=$2 && shift 2; }
  # With job control, or what runs in the background would ignore SIGINT.
  set -m
  if [[ -n $log ]]; then
    timeout "$limit" "$@" </dev/null >"$log" 2>&1 &
  else
    timeout "$limit" "$@" </dev/null &
  fi
  child=$!
  set +m
  wait "$child" || status=$?
  return "$status"
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
  run --log "$log" "$@" || status=$?
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
  local preset=$1 folder=$2 linker new=()
  shift 2
  mkdir -p "$folder"
  # A new folder compiles sources several at a time, in half of the time that one
  # by one take, and with Clang, in half of g++'s, and links by LLVM's linker, in a
  # quarter of binutils'; a developer's stays as it is.
  if [[ ! -e $folder/CMakeCache.txt ]]; then
    new=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16)
    if [[ $preset == release ]] && command -v clang++-22 >/dev/null; then
      new+=(-DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22)
      # g++, too, which links the device of processors: it knows no version of lld.
      ! linker=$(command -v ld.lld-22) ||
        new+=(-DCMAKE_{EXE,MODULE}_LINKER_FLAGS="-fuse-ld=lld -B$(dirname "$(readlink -f "$linker")")")
    fi
  fi
  # Always, as it takes a second: what is installed may have changed.
  quietly "$folder/configure.log" cmake --preset "$preset" "${new[@]}"
  run ninja -C "$folder" -j "$(jobs)" "$@"
}

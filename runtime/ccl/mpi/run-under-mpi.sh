#!/bin/sh
# Runs a program as N ranks: run-under-mpi.sh N PROGRAM [ARGUMENT...].
# Exit code 77, which ctest reports as skipped, without mpirun.
if ! command -v mpirun > /dev/null; then
  echo "skipped: mpirun is not installed (Debian: openmpi-bin)"
  exit 77
fi
ranks=$1
shift
# As root in a container, and with more ranks than cores.
exec mpirun --allow-run-as-root --oversubscribe --tag-output -n "$ranks" "$@"

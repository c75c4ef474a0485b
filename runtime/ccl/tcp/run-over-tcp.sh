#!/bin/sh
# Runs a program as N ranks of this host that meet over TCP:
# run-over-tcp.sh N PROGRAM [ARGUMENT...]. Fails if one of them does.
ranks=$1
shift
# One that Linux gives to nobody by itself.
OPTIMUS_RENDEZVOUS=127.0.0.1:$((61440 + $$ % 4096))
OPTIMUS_RANKS=$ranks
export OPTIMUS_RENDEZVOUS OPTIMUS_RANKS
# What ranks leave behind goes with it.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
children=
rank=0
while [ "$rank" -lt "$ranks" ]; do
  OPTIMUS_RANK=$rank "$@" &
  children="$children $!"
  rank=$((rank + 1))
done
status=0
for child in $children; do
  wait "$child" || status=1
done
exit $status

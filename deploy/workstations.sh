#!/bin/bash
# A Ray cluster of a few workstations that reach each other by ssh, and posattn on it:
#
#   deploy/workstations.sh start 192.168.1.10 192.168.1.11 192.168.1.12    the first one is this machine
#   posattn run ood-scale --preset paper --cluster 192.168.1.10:6379
#   deploy/workstations.sh stop  192.168.1.10 192.168.1.11 192.168.1.12
#
# Give private addresses: Ray has no password. RAY names its command where it is not on the path of every machine.
set -euo pipefail

PORT=6379
RAY=${RAY:-ray}
usage="usage: $0 start|stop HEAD_ADDRESS [ADDRESS …]"
what=${1:?$usage}
head=${2:?$usage}
shift 2

case $what in
  start)
    RAY_USAGE_STATS_ENABLED=0 "$RAY" start --head --node-ip-address="$head" --port="$PORT" --include-dashboard=false
    for address in "$@"; do
      ssh "$address" "RAY_USAGE_STATS_ENABLED=0 $RAY start --node-ip-address=$address --address=$head:$PORT"
    done
    ;;
  stop)
    for address in "$@"; do
      ssh "$address" "$RAY stop"
    done
    "$RAY" stop
    ;;
  *)
    echo "$usage" >&2
    exit 2
    ;;
esac

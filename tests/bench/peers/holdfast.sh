#!/usr/bin/env bash
# holdfast.sh - Holdfast, by its own bench: one client process, one connection, which packs the calls that are ready together.
# BENCH_BIN has the programs; the server that BENCH_SERVER names runs on the PostgreSQL that postgres.c uses.
#   cycle  acquire-release: audited, with a fencing token
#   renew, write, and renew-many: 500 leases a call, IN-FLIGHT being the calls; an operation is one lease renewed
#   once   record: the result of an operation kept under a new key
set -u
work=$1 in_flight=$2 seconds=$3
case "$work" in
cycle) kind=acquire-release ;;
renew | renew-many | write) kind=$work ;;
once) kind=record ;;
*)
    echo "holdfast: no work $work yet" >&2
    exit 2
    ;;
esac

# number NAME: that field of the result.
number() {
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$json"
}

checked=ok
json=$("$BENCH_BIN/holdfast" --server "$BENCH_SERVER" bench "$kind" --concurrency "$in_flight" --json \
    --duration "$(awk -v s="$seconds" 'BEGIN { printf "%dms", s * 1000 }')") || checked="exit status $?"
[ -n "$json" ] || exit 1
printf 'holdfast\t%s\t%s\t%.0f\t%s\t%s\t%s\n' "$work" "$in_flight" "$(number throughput)" "$(number p50_ms)" "$(number p99_ms)" "$checked"

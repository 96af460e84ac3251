#!/usr/bin/env bash
# holdfast.sh - Holdfast, by its own bench: one client process, one connection, which packs the calls that are ready together.
# BENCH_BIN has the programs; the server that BENCH_SERVER names runs on the PostgreSQL that postgres.c uses.
#   cycle  acquire-release: audited, with a fencing token
#   renew, write, and renew-many: 500 leases a call, IN-FLIGHT being the calls; an operation is one lease renewed
#   once   record: the result of an operation kept under a new key
#   begin  begin-complete; execute: an action that changes a row of a table beside Holdfast's schema
set -u
work=$1 in_flight=$2 seconds=$3
case "$work" in
cycle) kind=acquire-release ;;
renew | renew-many | write) kind=$work ;;
once) kind=record ;;
begin) kind=begin-complete ;;
execute) kind=execute ;;
*)
    echo "holdfast: no work $work yet" >&2
    exit 2
    ;;
esac

# An action like postgres.c's: each operation changes one of 16 rows for every operation in flight.
action=()
if [ "$work" = execute ]; then
    action=(--action count)
    psql -XAtq -v ON_ERROR_STOP=1 "$BENCH_HOLDFAST_DSN" >/dev/null <<SQL || exit 1
SET client_min_messages = error;
DROP SCHEMA IF EXISTS bench CASCADE;
DO \$\$ BEGIN CREATE ROLE counter NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END \$\$;
CREATE SCHEMA bench;
CREATE TABLE bench.data (key bigint PRIMARY KEY, fence bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO bench.data (key) SELECT g FROM generate_series(0, $in_flight * 16 - 1) g;
CREATE FUNCTION bench.count(key text, args jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = bench, pg_temp AS \$f\$
BEGIN
    UPDATE data d SET fence = d.fence + 1 WHERE d.key = (hashtext(count.key) & 2147483647) % ($in_flight * 16);
    RETURN '{}';
END \$f\$;
GRANT USAGE ON SCHEMA bench TO counter;
GRANT ALL ON bench.data TO counter;
ALTER FUNCTION bench.count OWNER TO counter;
SQL
    "$BENCH_BIN/holdfast" --server "$BENCH_SERVER" action register count bench.count >/dev/null || exit 1
fi

# number NAME: that field of the result.
number() {
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<<"$json"
}

checked=ok
json=$("$BENCH_BIN/holdfast" --server "$BENCH_SERVER" bench "$kind" "${action[@]}" --concurrency "$in_flight" --json \
    --duration "$(awk -v s="$seconds" 'BEGIN { printf "%dms", s * 1000 }')") || checked="exit status $?"
[ -n "$json" ] || exit 1
if [ "$work" = execute ]; then
    [ "$(psql -XAtq "$BENCH_HOLDFAST_DSN" -c "SELECT (SELECT sum(fence) FROM bench.data) = (SELECT count(*) FROM holdfast.operation
        WHERE result = '{}')")" = t ] || checked="not as many rows were changed as there are records"
    psql -XAtq "$BENCH_HOLDFAST_DSN" -c "DELETE FROM holdfast.operation WHERE result = '{}'"
fi
printf 'holdfast\t%s\t%s\t%.0f\t%s\t%s\t%s\n' "$work" "$in_flight" "$(number throughput)" "$(number p50_ms)" "$(number p99_ms)" "$checked"

# growth.sh - what growth measures with: a server with leases made by SQL, rows of crowd (crowd.h), and tables. Sourced by it, with
# lib.sh; uses its say(), give_up(), $build, $rate.

# compile: crowd and hold.
compile() {
    local contract="$build/proto/libhf_contract.a $build/proto/libhf_messages.a -lprotobuf-c"
    local flags="-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers -I. -Itests/bench -I$build/proto -Iclient/include"
    mkdir -p "$build/bench"
    # shellcheck disable=SC2086
    cc $flags tests/bench/crowd*.c client/cli/bench_hist.c $contract -o "$build/bench/crowd" &&
        cc $flags tests/bench/hold.c "$build/client/libhf_client.a" $contract -lnng -lpthread -o "$build/bench/hold" ||
        give_up "crowd cannot be built"
}

machine() {
    echo "$(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(pg_config --version | sed 's/ (.*//')"
}

calc() {
    awk "BEGIN { x = $1; printf x < 10 && x != int(x) ? \"%.2f\" : \"%.0f\", x }"
}

sql() {
    "$(pg_config --bindir)/psql" -XAtqc "$1" "${pg_dsn}holdfast"
}

stop() {
    end_snapshot
    end_servers
    [ -z "${scratch-}" ] || rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM

# fresh N: a new cluster, a server on it, and N leases. $max_clients: of the server.
fresh() {
    stop
    scratch=$(mktemp -d "$build/bench/run.XXXXXX") && chmod 755 "$scratch" || give_up "no folder in $build/bench"
    start_postgres
    [ -z "${max_clients-}" ] || export HOLDFASTD_MAX_CLIENTS=$max_clients
    start_holdfastd
    leases=0
    [ "$1" = 0 ] || make_leases "$1"
}

# make_leases N: there are N leases, each as Acquire makes it: fence row, lease row and audit row, for a day.
make_leases() {
    local fences audit from=$leases number="pg_catalog.generate_series($leases, $1 - 1) AS n"
    local name="'growth/' || pg_catalog.lpad(n::text, 8, '0')"
    [ "$1" -gt "$leases" ] || return 0
    [ $(($1 - from)) -lt 100000 ] || say "making $(($1 - from)) leases"
    sql "INSERT INTO holdfast.resource (namespace, name, fence, grant_token, request_id)
        SELECT 'default', $name, 1, 1, pg_catalog.lpad(pg_catalog.to_hex(n), 8, '0') || '-1122334455667788' FROM $number" &
    fences=$!
    sql "INSERT INTO holdfast.audit (namespace, resource, kind, token, actor, detail)
        SELECT 'default', $name, 'grant', 1, 'crowd:00000000', $name FROM $number" &
    audit=$!
    sql "INSERT INTO holdfast.lease (namespace, resource, token, deadline, granted_at, task, holder)
        SELECT 'default', $name, 1, holdfast.clock() + interval '1 day', holdfast.clock(), $name, 'crowd:00000000' FROM $number" &&
        wait $fences && wait $audit || give_up "the leases could not be made"
    leases=$1
    sql "VACUUM ANALYZE holdfast.resource" & sql "VACUUM ANALYZE holdfast.lease" && wait $!
}

# backends: the processes that serve holdfastd.
backends() {
    sql "SELECT pg_catalog.string_agg(pid::text, ',') FROM pg_stat_activity
        WHERE datname = 'holdfast' AND backend_type = 'client backend' AND application_name <> 'psql'"
}

# others: PostgreSQL's processes but those.
others() {
    local postmaster
    postmaster=$(head -n 1 "$scratch/pg/data/postmaster.pid")
    {
        echo "$postmaster"
        sql "SELECT pid FROM pg_stat_activity WHERE backend_type NOT IN ('client backend', 'autovacuum worker')"
    } | paste -sd,
}

# crowd …: with the tokens of this cluster's leases, and the CPU times of all who take part.
crowd() {
    "$build/bench/crowd" --tokens "$scratch/tokens" --cpu "$holdfastd_pid" --cpu "$(backends)" --cpu "$(others)" "$@" "${BENCH_SERVER##*:}"
}

before_row() {
    eval "${GROWTH_BEFORE-}"
}

after_row() {
    eval "${GROWTH_AFTER-}"
}

# measure …: one row of crowd, after a short one for plans and caches and a checkpoint. Sets ops_s, p50, p99, client_us, server_us,
# backends_us, others_us, and wal, the bytes of it for an operation.
measure() {
    local before line
    before_row
    "$build/bench/crowd" --tokens "$scratch/tokens" "$@" --seconds 0.5 "${BENCH_SERVER##*:}" >"$scratch/lines" || give_up "crowd failed: $*"
    checkpoint
    before=$(sql "SELECT pg_current_wal_insert_lsn()")
    line=$(crowd "$@") || give_up "crowd failed: $*"
    IFS=$'\t' read -r _ ops ops_s p50 p99 client_us server_us backends_us others_us <<<"$line"
    wal=$(calc "$(sql "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$before')") / $ops")
    after_row
}

# hold_snapshot SECONDS: a transaction sees what is there now, for so long.
hold_snapshot() {
    "$(pg_config --bindir)/psql" -XAtq "${pg_dsn}holdfast" >/dev/null 2>&1 <<<"SET application_name = 'snapshot';
        BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_catalog.count(*) FROM holdfast.namespace; SELECT pg_catalog.pg_sleep($1)"
}

end_snapshot() {
    [ -z "${pg_pid-}" ] || sql "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'snapshot'" >/dev/null 2>&1
}

# What the tables of leases take on disk, with their indexes; the audit's partitions too.
disk_bytes="(SELECT sum(pg_catalog.pg_total_relation_size(c.oid)) FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r' AND (c.relname IN ('resource', 'lease') OR c.relname LIKE 'audit%'))"

churn_heading="minutes | calls/s | p50 ms | p99 ms | holdfastd µs | backends µs | PostgreSQL's others µs"
churn_heading="$churn_heading | lease MB | its index MB | fence rows MB | values MB | audit MB | dead lease rows | snapshot"
churn_sizes="WITH mb AS (
        SELECT name, pg_catalog.round(pg_catalog.pg_table_size(oid) / 1e6, 1) AS rows, pg_catalog.round(pg_catalog.pg_indexes_size(oid) / 1e6, 1) AS index
        FROM pg_catalog.unnest('{lease,resource,resource_value}'::text[]) AS name, LATERAL (SELECT ('holdfast.' || name)::regclass AS oid) AS o)
    SELECT pg_catalog.concat_ws(' | ', (SELECT rows FROM mb WHERE name = 'lease'), (SELECT index FROM mb WHERE name = 'lease'),
        (SELECT rows FROM mb WHERE name = 'resource'), (SELECT rows FROM mb WHERE name = 'resource_value'),
        (SELECT pg_catalog.round(sum(pg_catalog.pg_total_relation_size(inhrelid)) / 1e6) FROM pg_catalog.pg_inherits
            WHERE inhparent = 'holdfast.audit'::regclass),
        (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'holdfast.lease'::regclass))"

# churn KEYS SECONDS EVERY: calls at a steady pace, and a row every so often; the last column tells of the row's beginning.
churn() {
    local at ops ops_s p50 p99 client server backends others was=no
    crowd --envelopes 2 --calls 32 --keys "$1" --rate "$rate" --seconds "$2" --every "$3" mix |
        while IFS=$'\t' read -r at ops ops_s p50 p99 client server backends others; do
            cells "$(calc "$at / 60")" "$ops_s" "$p50" "$p99" "$server" "$backends" "$others" "$(sql "$churn_sizes")" $was
            was=$(sql "SELECT CASE pg_catalog.count(*) WHEN 0 THEN 'no' ELSE 'held' END FROM pg_stat_activity WHERE application_name = 'snapshot'")
        done
}

# resident: bytes of the server's memory.
resident() {
    awk '/^VmRSS/ { print $2 * 1024 }' "/proc/$holdfastd_pid/status"
}

# many_connections KIND N: connections that stay, idle ones or with a caller that waits; sets each to the server's bytes for one.
many_connections() {
    local before how="--connections $2"
    [ "$1" != wait ] || how="--envelopes $2"
    fresh "$2"
    # One round before it is counted: what the server keeps for all is there.
    # shellcheck disable=SC2086
    "$build/bench/crowd" --keys "$2" --seconds 1 renew "${BENCH_SERVER##*:}" >/dev/null
    before=$(resident)
    # shellcheck disable=SC2086
    coproc CROWD { exec "$build/bench/crowd" --keys "$2" $how "$1" "${BENCH_SERVER##*:}"; }
    read -r _ <&"${CROWD[0]}" || give_up "crowd failed"
    [ "$1" != wait ] || sleep 3
    each=$(calc "($(resident) - $before) / $2")
    kill "$CROWD_PID"
    wait "$CROWD_PID" 2>/dev/null
}

# heading "A | B | …", cells A B …: lines of a table.
heading() {
    printf '\n| %s |\n|---|%s\n' "$1" "$(tr -cd '|' <<<"$1" | sed 's/|/---:|/g')"
}

cells() {
    local line="" cell
    for cell in "$@"; do
        line="$line| $cell "
    done
    printf '%s|\n' "$line"
}

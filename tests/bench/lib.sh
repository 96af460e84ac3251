# lib.sh - what compare (and other scripts here) stand on: building the peers, and a PostgreSQL with a holdfastd on it, all in one
# folder and ended with the script. Sourced; uses say() and give_up() of its user, $build and $scratch.

# peer_says FILE WHAT: what the head comment of a peer says behind "WHAT: ".
peer_says() {
    sed -n "/^#include/q; s/^ \*  *$2: //p" "$1"
}

# peer_program NAME: prints the path of the program of that peer, which is built if it is C.
peer_program() {
    local name=$1 source=tests/bench/peers/$1.c links=() word
    if [ ! -f "$source" ]; then
        [ -x "tests/bench/peers/$name.sh" ] && echo "tests/bench/peers/$name.sh"
        return
    fi
    for word in $(peer_says "$source" Links); do
        case "$word" in
        *.c) links+=("tests/bench/$word") ;;
        *) links+=("$word") ;;
        esac
    done
    mkdir -p "$build/bench"
    # shellcheck disable=SC2046
    cc -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers -I. -Itests/bench $(pkg-config --cflags libpq) \
        "$source" tests/bench/peer.c client/cli/bench_hist.c "${links[@]}" $(pkg-config --libs-only-L libpq) -o "$build/bench/$name" &&
        echo "$build/bench/$name"
}

# as_postgres COMMAND…: PostgreSQL refuses root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
    else
        "$@"
    fi
}

# start_postgres: a fresh cluster in $scratch/pg, on a unix socket only. Durable, as initdb leaves it; only sizes differ from what
# it chooses, and what $pg_options says. Sets pg_pid, and pg_dsn up to the name of the database.
start_postgres() {
    local bin=$(pg_config --bindir)
    mkdir -p "$scratch/pg"
    [ "$(id -u)" != 0 ] || chown postgres "$scratch/pg"
    as_postgres "$bin/initdb" -D "$scratch/pg/data" -U bench -A trust -E UTF8 --locale=C >"$scratch/pg.log" 2>&1 ||
        give_up "initdb failed: $(tail -n 3 "$scratch/pg.log")"
    # shellcheck disable=SC2086
    as_postgres "$bin/postgres" -D "$scratch/pg/data" -k "$scratch/pg" -h '' -c max_connections=400 -c shared_buffers=512MB \
        -c max_wal_size=4GB ${pg_options-} >>"$scratch/pg.log" 2>&1 &
    pg_pid=$!
    pg_dsn="host=$scratch/pg user=bench dbname="
    for _ in $(seq 150); do
        "$bin/psql" -XAtqc 'CREATE DATABASE holdfast' "${pg_dsn}postgres" >/dev/null 2>&1 && break
        kill -0 $pg_pid 2>/dev/null || give_up "PostgreSQL has ended: $(tail -n 3 "$scratch/pg.log")"
        sleep 0.2
    done
    "$bin/psql" -XAtqc 'CREATE DATABASE raw' "${pg_dsn}postgres" || give_up "PostgreSQL does not answer"
}

# checkpoint: what was written before costs nobody anything any more.
checkpoint() {
    "$(pg_config --bindir)/psql" -XAtqc CHECKPOINT "${pg_dsn}postgres"
}

# start_holdfastd: on that cluster, run by the command $holdfastd_wrapper if there is one. With an HTTP port
# if $holdfastd_http is its address. Sets holdfastd_pid, BENCH_SERVER, BENCH_HTTP.
start_holdfastd() {
    # shellcheck disable=SC2086
    ${holdfastd_wrapper-} "$BENCH_BIN/holdfastd" --dsn "${pg_dsn}holdfast" --listen tcp://127.0.0.1:0 --http "${holdfastd_http-off}" >"$scratch/holdfastd.out" 2>"$scratch/holdfastd.log" &
    holdfastd_pid=$!
    for _ in $(seq 150); do
        BENCH_SERVER=$(sed -n 's/^READY nng=\([^ ]*\).*/\1/p' "$scratch/holdfastd.out")
        [ -z "$BENCH_SERVER" ] || break
        kill -0 $holdfastd_pid 2>/dev/null || give_up "holdfastd has ended: $(tail -n 3 "$scratch/holdfastd.log")"
        sleep 0.2
    done
    [ -n "$BENCH_SERVER" ] || give_up "holdfastd does not serve"
    BENCH_HTTP=$(sed -n 's/^READY .*http=\([^ ]*\).*/\1/p' "$scratch/holdfastd.out")
    export BENCH_SERVER BENCH_HTTP
}

# end_servers: for a trap.
end_servers() {
    [ -z "${holdfastd_pid-}" ] || { kill "$holdfastd_pid" && wait "$holdfastd_pid"; } 2>/dev/null
    # $pg_pid is a shell that waits for it.
    [ -z "${pg_pid-}" ] || { kill -INT "$(head -n 1 "$scratch/pg/data/postmaster.pid")" && wait "$pg_pid"; } 2>/dev/null
    holdfastd_pid="" pg_pid=""
}

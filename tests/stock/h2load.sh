# h2load.sh - the flow of h2load_test.sh, beside its server.
. tests/stock/expect.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# load NAME METHOD REQUEST N OPTION…: N calls, each answered by 200, and by grpc-status 0 as the server's own count has it. REQUEST is
# an expression in Python, with checks as c.
load() {
    local name=$1 method=$2 request=$3 n=$4 before after out
    shift 4
    /usr/bin/python3 -c "
import struct, sys
import checks as c
from holdfast.v1 import *
message = ($request).SerializeToString()
sys.stdout.buffer.write(struct.pack('>BI', 0, len(message)) + message)" >"$scratch/body" || return
    before=$(ok_count "$method")
    out=$(h2load -n "$n" -d "$scratch/body" -H 'content-type: application/grpc' -H 'te: trailers' "$@" "http://$HOLDFAST_HTTP/holdfast.v1.$method" 2>&1)
    after=$(ok_count "$method")
    grep '^finished in' <<<"$out"
    has "$name: answers" "$out" "${n}total,${n}started,${n}done,${n}succeeded,0failed,0errored,0timeout" "statuscodes:${n}2xx"
    has "$name: calls that were well" "$((after - before))" "^$n\$"
}

ok_count() {
    /usr/bin/python3 -c '
import sys
from callers import Grpc
from holdfast.v1 import admin_pb2
methods = Grpc().call(admin_pb2.StatsRequest()).methods
print(next((m.ok for m in methods if m.method.endswith(sys.argv[1])), 0))' "$1"
}

/usr/bin/python3 -c 'import checks as c; from callers import Grpc; c.grant(Grpc(), "load")'
load "read" ResourceService/Read 'c.read("load")' 4000 -c 8 -m 32
load "renew" LeaseService/Renew 'c.renew("load", 1)' 800 -c 8 -m 32
load "held" LeaseService/Acquire 'c.acquire("load")' 500 -c 8 -m 32
load "one after the other" ResourceService/Read 'c.read("load")' 300 -c 1 -m 1
load "many connections" ResourceService/Read 'c.read("load")' 2000 -c 200 -m 10
exit $failed

# curl.sh - the flow of curl_test.sh, beside its server.
. tests/stock/expect.sh
url=http://$HOLDFAST_HTTP
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# get OPTION…: head and body of one answer, within 20 s.
get() {
    curl -sS -i -m 20 "$@" 2>&1
}

# ask VERSION METHOD REQUEST [OPTION…]
ask() {
    local version=$1 method=$2 request=$3
    shift 3
    get "$version" -H 'content-type: application/json' "$@" -d "$request" "$url/holdfast.v1.$method"
}

acquire() {
    printf '{"namespace": "default", "resources": ["%s"], "holder": "curl", "ttlMs": "60000", "waitMs": %s}' "$1" "${2:-0}"
}

# flow NAME VERSION: what a worker does; each answer is JSON with the status that Connect has for it.
flow() {
    local name=$1 v=$2 r=curl/$1 write token
    local ok='^HTTP/[0-9.]+200.*content-type:application/json'
    has "$name: acquire" "$(ask "$v" LeaseService/Acquire "$(acquire "$r")")" "$ok" '"granted":\{"grants":\[\{"resource":"[^"]*","token":"1"\}\]'
    has "$name: held" "$(ask "$v" LeaseService/Acquire "$(acquire "$r")")" "$ok" '"held":.*"holder":"curl"'
    has "$name: held after waiting" "$(ask "$v" LeaseService/Acquire "$(acquire "$r" 600000)" -H 'connect-timeout-ms: 500')" "$ok" '"held":'
    has "$name: renew" "$(ask "$v" LeaseService/Renew '{"namespace":"default","ttlMs":60000,"items":[{"resource":"'"$r"'","token":"1"}]}')" "$ok" '"renewed":\{"ttlMs":"[0-9]+"\}'
    write='{"namespace":"default","resource":"'"$r"'","token":1,"writeSeq":1,"value":"b25l"}'
    has "$name: write" "$(ask "$v" ResourceService/Write "$write")" "$ok" '"version":"1"'
    has "$name: write again" "$(ask "$v" ResourceService/Write "$write")" "$ok" '"replayed":true'
    has "$name: names as in the proto" "$(ask "$v" ResourceService/Write "${write/writeSeq/write_seq}")" "$ok" '"replayed":true'
    has "$name: release" "$(ask "$v" LeaseService/Release '{"namespace":"default","items":[{"resource":"'"$r"'","token":"1"}]}')" "$ok" '"wasHeld":true'
    ask "$v" LeaseService/Acquire "$(acquire "$r")" >/dev/null
    has "$name: stale token" "$(ask "$v" ResourceService/Write "${write/'"writeSeq":1'/'"writeSeq":2'}")" '^HTTP/[0-9.]+400' \
        'content-type:application/json' '"code":"failed_precondition"' '"message":"' '"type":"google.rpc.ErrorInfo","value":"[A-Za-z0-9+/]+"'
    has "$name: no such namespace" "$(ask "$v" ResourceService/Read '{"namespace":"none","resource":"x"}')" '^HTTP/[0-9.]+404' '"code":"not_found"'
    has "$name: outside a limit" "$(ask "$v" LeaseService/Acquire '{"namespace":"default","resources":["x"],"ttlMs":1}')" '^HTTP/[0-9.]+400' '"code":"invalid_argument"' 'google.rpc.BadRequest'
    has "$name: conflict" "$(
        for amount in 1 2; do
            ask "$v" OperationService/Record '{"namespace":"default","key":"'"$r"'","type":"t","canonicalJson":"{\"amount\":'$amount'}","result":"b25l"}'
        done | tail -n 12)" 'HTTP/[0-9.]+409' '"code":"already_exists"'
    has "$name: not yet" "$(ask "$v" OperationService/Claim '{"namespace":"default","types":["t"],"max":1,"holder":"h","ttlMs":1000}')" '^HTTP/[0-9.]+501' '"code":"unimplemented"'
    has "$name: no such method" "$(ask "$v" LeaseService/Nothing '{}')" '^HTTP/[0-9.]+(501|404)' '"code":"unimplemented"'
    for bad in '{' '[]' '{"namespace":' '{"namespace":1}' '{"ttlMs":"soon"}' '{"ttlMs":1e99}' '{"namespace":"a","namespace":"b"}' $'{"namespace":"\xff"}'; do
        has "$name: bad JSON $bad" "$(ask "$v" LeaseService/Acquire "$bad")" '^HTTP/[0-9.]+400' '"code":"invalid_argument"'
    done
    has "$name: wrong content type" "$(get "$v" -H 'content-type: text/plain' -d '{}' "$url/holdfast.v1.AdminService/Stats")" '^HTTP/[0-9.]+415' 'accept-post:.*application/json'
    has "$name: not a POST" "$(get "$v" "$url/holdfast.v1.LeaseService/Acquire")" '^HTTP/[0-9.]+405' 'allow:.*POST'
    has "$name: nothing there" "$(get "$v" "$url/nothing/there")" '^HTTP/[0-9.]+404'
    has "$name: healthz" "$(get "$v" "$url/healthz")" '^HTTP/[0-9.]+200'
    has "$name: readyz" "$(get "$v" "$url/readyz")" '^HTTP/[0-9.]+200'
    has "$name: metrics" "$(get "$v" "$url/metrics")" '^HTTP/[0-9.]+200' 'content-type:text/plain' 'holdfast_[a-z_]+'
    has "$name: head" "$(get "$v" -I "$url/healthz")" '^HTTP/[0-9.]+200'
    has "$name: a body in gzip" "$(gzip -c <<<"$(acquire "$r/gzip")" | get "$v" -H 'content-type: application/json' -H 'content-encoding: gzip' --data-binary @- "$url/holdfast.v1.LeaseService/Acquire")" "$ok" '"granted":'
    has "$name: an answer in gzip" "$(get "$v" --compressed -H 'content-type: application/json' -d '{}' "$url/holdfast.v1.AdminService/Stats")" "$ok" '"uptimeMs":'
}

# large NAME VERSION: a value of 1 MiB there and back. curl asks first whether it may send so much (Expect: 100-continue) over 1.1.
large() {
    local name=$1 v=$2 r=curl/large/$1 token
    token=$(token_in "$(ask "$v" LeaseService/Acquire "$(acquire "$r")")")
    head -c 1048576 /dev/urandom | base64 -w0 >"$scratch/value"
    {
        printf '{"namespace":"default","resource":"%s","token":%s,"value":"' "$r" "$token"
        cat "$scratch/value"
        printf '"}'
    } >"$scratch/write"
    has "$name: a large value" "$(get "$v" -H 'content-type: application/json' --data-binary "@$scratch/write" "$url/holdfast.v1.ResourceService/Write")" '"version":"1"'
    curl -sS -m 20 "$v" -H 'content-type: application/json' -d '{"namespace":"default","resource":"'"$r"'"}' "$url/holdfast.v1.ResourceService/Read" >"$scratch/read"
    if grep -qF -f "$scratch/value" "$scratch/read"; then
        echo "ok      $name: and back"
    else
        echo "FAILED  $name: the value came back otherwise"
        failed=1
    fi
}

flow http1.1 --http1.1
flow http2 --http2-prior-knowledge
large http1.1 --http1.1
large http2 --http2-prior-knowledge

has "chunked" "$(ask --http1.1 LeaseService/Acquire "$(acquire curl/chunked)" -H 'transfer-encoding: chunked')" '"granted":'
has "one connection for many" "$(curl -sS -m 20 --http1.1 -o /dev/null -o /dev/null -o /dev/null -w '%{num_connects}' "$url/healthz" "$url/healthz" "$url/healthz")" '^100$'
# An upgrade to HTTP/2 that is offered in HTTP/1.1 may be declined.
has "h2c upgrade" "$(get --http2 "$url/healthz")" 'HTTP/[0-9.]+200'
/usr/bin/python3 -c 'import checks, sys; sys.stdout.buffer.write(checks.acquire("curl/proto").SerializeToString())' >"$scratch/proto"
has "proto" "$(get --http1.1 -H 'content-type: application/proto' --data-binary "@$scratch/proto" "$url/holdfast.v1.LeaseService/Acquire" | tr -d '\0')" \
    '^HTTP/1.1200' 'content-type:application/proto' 'curl/proto'
exit $failed

# buf.sh - the flow of buf_test.sh, beside its server.
. tests/stock/expect.sh
url=http://$HOLDFAST_HTTP

# ask HOW METHOD REQUEST: stdout and stderr together; HOW is a protocol and options, in one word each.
ask() {
    local how=$1 method=$2 request=$3
    # shellcheck disable=SC2086
    buf curl $how -d "$request" "$url/holdfast.v1.$method" 2>&1
}

# details ERROR: what can be read in them, decoded.
details() {
    tr -d ' \n' <<<"$1" | sed -E 's/.*"value":"([^"]*)".*/\1==/' | base64 -d 2>/dev/null | tr -c '[:print:]' ' '
}

# flow NAME HOW: a resource's life.
flow() {
    local r=buf/$1 how=$2 got token next stale
    got=$(ask "$how" LeaseService/Acquire '{"namespace": "default", "resources": ["'"$r"'"], "holder": "buf", "ttlMs": 60000}')
    has "$1: acquire" "$got" '"granted":' '"token":"1"'
    token=$(token_in "$got")
    has "$1: write" "$(ask "$how" ResourceService/Write '{"namespace": "default", "resource": "'"$r"'", "token": '"$token"', "value": "b25l"}')" '"version":"1"'
    has "$1: read" "$(ask "$how" ResourceService/Read '{"namespace": "default", "resource": "'"$r"'"}')" '"exists":true' '"value":"b25l"'
    has "$1: release" "$(ask "$how" LeaseService/Release '{"namespace": "default", "items": [{"resource": "'"$r"'", "token": '"$token"'}]}')" '"wasHeld":true'
    next=$(ask "$how" LeaseService/Acquire '{"namespace": "default", "resources": ["'"$r"'"], "holder": "buf", "ttlMs": 60000}')
    has "$1: acquire again" "$next" '"token":"2"'
    stale=$(ask "$how" ResourceService/Write '{"namespace": "default", "resource": "'"$r"'", "token": '"$token"', "value": "b25l"}')
    has "$1: stale token" "$stale" \
        '"code":"failed_precondition"' 'google.rpc.ErrorInfo'
    has "$1: and why" "$(details "$stale")" STALE_TOKEN holdfast
}

flow grpc '--protocol grpc --http2-prior-knowledge --schema proto'
flow connect-2 '--protocol connect --http2-prior-knowledge --schema proto'
flow connect-1 '--protocol connect --schema proto'
flow grpc-reflected '--protocol grpc --http2-prior-knowledge --reflect-protocol grpc-v1'
flow connect-reflected '--protocol connect --http2-prior-knowledge --reflect-protocol grpc-v1alpha'
has "list" "$(buf curl --http2-prior-knowledge --list-services "$url" 2>&1)" holdfast.v1.LeaseService grpc.health.v1.Health
exit $failed

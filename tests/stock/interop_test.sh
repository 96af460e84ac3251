#!/usr/bin/env bash
# gRPC's interop tests by Ruby's client, and those that it lacks by interop.py, against the same transport code.
. tests/stock/stock.sh
. "$here/expect.sh"
python
client=$(ruby -e 'puts Gem::Specification.find_by_name("grpc").gem_dir')/src/ruby/pb/test/client.rb
"$build/bin/interop_server" >"$scratch/ready" 2>"$scratch/log" &
server=$!
for _ in $(seq 200); do
    grep -q '^READY' "$scratch/ready" && break
    sleep 0.1
done
address=$(sed -n 's/^READY http=//p' "$scratch/ready")

for case in empty_unary large_unary client_compressed_unary client_streaming client_compressed_streaming server_streaming ping_pong \
    empty_stream cancel_after_begin cancel_after_first_response timeout_on_sleeping_server status_code_and_message \
    unimplemented_method unimplemented_service; do
    if out=$(timeout -k 5 30 ruby "$client" --server_host "${address%:*}" --server_port "${address##*:}" --test_case $case 2>&1); then
        echo "ok      $case"
    else
        echo "FAILED  $case: $out"
        failed=1
    fi
done
HOLDFAST_HTTP=$address /usr/bin/python3 "$here/interop.py" || failed=1

kill "$server"
if ! wait "$server" || [ -s "$scratch/log" ]; then
    echo "FAILED  the server did not end well: $(cat "$scratch/log")"
    failed=1
fi
exit $failed

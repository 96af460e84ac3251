# docs.sh PAGE WORKER…: the programs of client/docs/PAGE.md do what the page says, beside a server; WORKER is how its worker is started.
# Used by docs_*_test.sh.
. tests/stock/expect.sh
page=$1
shift
worker=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$HOLDFAST_SOURCE" "$work/holdfast"
mkdir "$work/mine"
holdfast=$HOLDFAST_BUILD/bin/holdfast
stock_python=$PYTHONPATH
export HOLDFAST_URL=http://$HOLDFAST_HTTP
/usr/bin/python3 "$HOLDFAST_SOURCE/tests/stock/docs.py" "client/docs/$page.md" "$work/mine" || exit 1
cd "$work/mine" || exit 1
unset PYTHONPATH # the page makes what it needs
case $page in
python) # as Debian's, whatever else comes first in the PATH
    mkdir "$work/bin"
    ln -s /usr/bin/python3 "$work/bin/python3"
    export PATH=$work/bin:$PATH
    ;;
node) ln -s "$HOLDFAST_STOCK/node/node_modules" node_modules ;; # as after npm install
esac

if out=$(bash run.sh 2>&1); then
    echo "ok      $page: all commands"
else
    echo "FAILED  $page: the commands end with $?"
    failed=1
fi
has "$page: the worker" "$out" 'Iholdreports/dailywithtoken1' 'page3isversion3'
has "$page: once" "$(grep -c 'the money is sent' <<<"$out")" '^1$'
has "$page: and told" "$out" 'donebefore:receipt17'
has "$page: as it stands" "$("$holdfast" --json op get refund/8812)" SUCCEEDED
has "$page: released" "$("$holdfast" --json lease reports/daily)" RELEASED

# begin ADDRESS: a worker with much to do runs, as $pid, and has written twice.
begin() {
    rm -f worker.out worker.err
    HOLDFAST_HTTP=$1 HOLDFAST_URL=http://$1 "${worker[@]}" 100000 >worker.out 2>worker.err &
    pid=$!
    for _ in $(seq 200); do
        grep -q 'page 2 is' worker.out 2>/dev/null && return
        sleep 0.1
    done
    echo "FAILED  $page: the worker does not begin: $(cat worker.out worker.err)"
    exit 1
}

# stopped WHAT SECONDS: it ended by itself within so many seconds, said why, and nothing was written by it after that.
stopped() {
    local status=0
    for _ in $(seq $(($2 * 10))); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill -9 $pid 2>/dev/null && echo "FAILED  $page: $1: the worker goes on: $(tail -n 1 worker.out) $(cat worker.err)" && failed=1
    wait $pid || status=$?
    has "$page: $1: it stops" "$status $(cat worker.err)" '^1.*stopped:theleaseislost'
}

# over_tls KEY: the worker once more, to a server that speaks TLS.
over_tls() {
    HOLDFAST_HTTP=$HOLDFAST_TLS_HTTP HOLDFAST_URL=https://$HOLDFAST_TLS_HTTP HOLDFAST_TLS_CA=$CERTIFICATES/ca.pem \
        HOLDFAST_TLS_CERT=$CERTIFICATES/client.pem HOLDFAST_TLS_KEY=$CERTIFICATES/client.key HOLDFAST_KEY=$1 timeout 60 "${worker[@]}" 2>&1
}

if [ -z "${HOLDFAST_DOCS_CLEAR_ONLY:-}" ]; then # set for what has no TLS here
    has "$page: TLS and a key" "$(over_tls "$HOLDFAST_TLS_API_KEY")" 'page3isversion3'
    refused=$(over_tls hfk_nonsense && echo "it was served")
    has "$page: TLS and a wrong key" "$(grep -ciE 'not valid|unauthenticated' <<<"$refused") $(grep -c served <<<"$refused")" '^[1-9][0-9]*0$'
fi

begin "$HOLDFAST_HTTP"
"$holdfast" break reports/daily --token 2 --reason "a test" >/dev/null
stopped "broken" 20
has "$page: broken: the next one" "$("$holdfast" --json acquire reports/daily --ttl 1s)" '"granted":'

# The network goes dark while it works: it stops by its own clock, and somebody else can go on.
PYTHONPATH=$stock_python /usr/bin/python3 "$HOLDFAST_SOURCE/tests/stock/dark.py" "$work/dark" &
proxy=$!
for _ in $(seq 200); do
    [ -s "$work/dark" ] && break
    sleep 0.1
done
begin "$(cat "$work/dark")"
kill -USR1 $proxy
stopped "in the dark" 40
has "$page: in the dark: the next one" "$("$holdfast" --json acquire reports/daily --wait 30s)" '"granted":'
kill $proxy
wait $proxy 2>/dev/null
[ $failed = 0 ] || printf '%s\n' "$out"
exit $failed

#!/usr/bin/env bash
# The rooms include each other only as the table in law.sh allows, and every header compiles alone. First the check itself is
# checked: it must find violations that are put into a copy of the tree.
set -u
cd "$(dirname "$0")/../../.." || exit 1
build=${1:?the build folder}
. tests/unit/includes/law.sh
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failed=0

fail() {
    echo "FAILED: $*"
    failed=1
}

# finds FILE INCLUDE: the check must refuse this line in a new file of the copy.
finds() {
    mkdir -p "$copy/$(dirname "$1")"
    printf '#include %s\n' "$2" >"$copy/$1"
    check_includes "$copy" | grep -qF "$1: " || fail "the check doesn't see #include $2 in $1"
    rm "$copy/$1"
}

# lets FILE INCLUDE: and must not refuse this one.
lets() {
    mkdir -p "$copy/$(dirname "$1")"
    printf '#include %s\n' "$2" >"$copy/$1"
    check_includes "$copy" | grep -F "$1: " && fail "the check refuses #include $2 in $1"
    rm "$copy/$1"
}

mkdir -p "$copy"/{client,proto,schema,server,tests}
finds server/base/x.c '"core/queue.h"'
finds server/core/x.c '"store/store.h"'
finds server/core/x.h '<libpq-fe.h>'
finds server/store/x.c '"proto/c/err.h"'
finds server/store/x.c '"net/loop.h"'
finds server/net/x.c '"store/store.h"'
finds server/net/x.c '"service/service.h"'
finds server/net/x.c '<libpq-fe.h>'
finds server/service/x.c '"net/loop.h"'
finds server/service/x.c '<libpq-fe.h>'
finds server/service/x.c '"app/config.h"'
finds server/app/x.c '<libpq-fe.h>'
finds proto/c/x.c '"base/list.h"'
finds proto/c/x.c '<nng/nng.h>'
finds client/lib/x.c '<nng/nng.h>'
finds client/lib/x.c '"server/base/list.h"'
finds client/lib/x.c '"base/list.h"'
finds client/lib/x.c '"client/cli/args.h"'
finds client/cli/x.c '"base/list.h"'
finds client/cli/x.c '"store/store.h"'
finds client/examples/x.c '"client/lib/call.h"'
finds client/include/holdfast/x.h '"proto/c/err.h"'
finds server/net/x.c '"loop.h"'
finds server/net/x.c '"../store/store.h"'
finds server/attic/x.c '<stdio.h>'
lets server/store/x.c '"schema/schema.h"'
lets server/store/x.c '<libpq-fe.h>'
lets server/service/x.c '"holdfast/v1/lease.pb-c.h"'
lets server/app/x.c '"net/loop.h"'
lets server/base/x.c '<sys/random.h>'
lets client/lib/x.c '<holdfast/gate.h>'
lets client/include/holdfast/x.h '<holdfast/holdfast.h>'

printf '#ifndef HOLDFAST_X_H\n#define HOLDFAST_X_H\nsize_t x(void);\n#endif\n' >"$copy/server/x.h"
check_headers "$copy" "$build" 2>/dev/null | grep -qF 'server/x.h: does not compile alone' || fail "a header that needs another goes unseen"
printf 'typedef int x_t;\n' >"$copy/server/x.h"
check_headers "$copy" "$build" 2>/dev/null | grep -qF 'server/x.h: no include guard' || fail "a header without a guard goes unseen"

check_includes . || fail "an include against the law"
check_headers . "$build" || fail "a header that does not stand alone"
exit $failed

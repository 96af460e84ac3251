# stock.sh - what the tests of clients that others have made share. Sourced by them in the source folder, with the build folder as $1.
#
# What the clients need is made once in a build folder, in its folder `stock`, by whichever test comes first, and again when what it
# is made of has changed. Nothing is written to the source folder.
set -euo pipefail
build=$1
source=$PWD
here=$source/tests/stock
stock=$build/stock
mkdir -p "$stock"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOLDFAST_STOCK=$stock HOLDFAST_SOURCE=$source HOLDFAST_BUILD=$build

# once NAME SOURCE… -- COMMAND…: the folder $stock/NAME was made by COMMAND, which fills an empty $into. The SOURCEs (files and
# folders) and COMMAND's own text tell whether it has to be made again.
once() {
    local name=$1 sources=() stamp into
    shift
    while [ "$1" != -- ]; do
        sources+=("$1")
        shift
    done
    shift
    stamp=$({
        declare -f "$1" || true
        find "${sources[@]}" -type f -print0 | sort -z | xargs -0 cat
    } | sha256sum)
    (
        flock 9
        into=$stock/$name
        [ "$(cat "$into/.stamp" 2>/dev/null)" = "$stamp" ] && exit 0
        rm -rf "$into"
        mkdir -p "$into"
        "$@" || {
            echo "$name could not be made" >&2
            exit 1
        }
        echo "$stamp" >"$into/.stamp"
    ) 9>"$stock/$name.lock"
}

# The messages and stubs of Holdfast's protos for Python; those of gRPC's own protos come from Debian's grpc-proto, as modules of no
# package, for the package `grpc` is taken.
make_python() {
    local plain=$into/plain version
    mkdir "$plain"
    (cd proto && protoc -I . --python_out="$into" --grpc_python_out="$into" \
        --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" holdfast/v1/*.proto google/rpc/*.proto)
    cp /usr/share/grpc-proto/grpc/health/v1/health.proto "$plain"
    for version in v1 v1alpha; do
        cp /usr/share/grpc-proto/grpc/reflection/$version/reflection.proto "$plain/reflection_$version.proto"
    done
    cp "$here/interop.proto" "$plain"
    protoc -I "$plain" --python_out="$into" --grpc_python_out="$into" \
        --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" "$plain"/*.proto
}

python() {
    once python proto /usr/share/grpc-proto "$here/interop.proto" -- make_python
    export PYTHONPATH=$stock/python:$here PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
}

# grpc-js and buf, as the lock file names them. Their install scripts only look for binaries that are there already.
make_node() {
    cp "$here/package.json" "$here/package-lock.json" "$into"
    (cd "$into" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
}

node_modules() {
    once node "$here/package.json" "$here/package-lock.json" -- make_node
    export NODE_PATH=$stock/node/node_modules PATH=$stock/node/node_modules/.bin:$PATH
}

# with_server [ARGUMENT…] -- COMMAND…: COMMAND beside a server of its own; see with_server.c.
with_server() {
    "$build/bin/with_server" "$@"
}

# with_servers COMMAND…: COMMAND beside two, of which the other one speaks TLS and wants keys: its address is in HOLDFAST_TLS_HTTP, and an
# admin's key in HOLDFAST_TLS_API_KEY. The certificates are in $scratch.
with_servers() {
    certificates
    # shellcheck disable=SC2016
    with_server --tls-cert "$scratch/server.pem" --tls-key "$scratch/server.key" --tls-client-ca "$scratch/ca.pem" --auth keys -- \
        env CERTIFICATES="$scratch" bash -c 'export HOLDFAST_TLS_HTTP=$HOLDFAST_HTTP HOLDFAST_TLS_API_KEY=$HOLDFAST_KEY
            unset HOLDFAST_KEY
            exec "$0" -- "$@"' "$build/bin/with_server" "$@"
}

# certificates: in $scratch, as NAME.pem and NAME.key: a CA (ca), and of it two certificates of the server (server, next; localhost
# and 127.0.0.1) and one of a client (client); and a CA that signed nothing (other).
certificates() {
    local who new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    (
        cd "$scratch"
        for who in ca other; do
            openssl req -x509 $new -days 2 -subj "/CN=Holdfast test $who" -keyout $who.key -out $who.pem
        done
        for who in server next client; do
            openssl req $new -subj "/CN=$who" -keyout $who.key -out $who.csr
            openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $who.pem -extfile <(
                case $who in
                client) echo "subjectAltName=URI:spiffe://example.org/worker" ;;
                *) echo "subjectAltName=DNS:localhost,IP:127.0.0.1" ;;
                esac
            )
        done
    ) >"$scratch/openssl.log" 2>&1 || {
        cat "$scratch/openssl.log" >&2
        return 1
    }
}

# The messages and stubs of Holdfast's protos for C++ as a library, and all.h that includes their headers. Most of the time goes into
# gRPC's headers, so the stubs are one translation unit.
make_cpp() {
    local stubs
    (cd proto && protoc -I . --cpp_out="$into" --grpc_out="$into" --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" \
        holdfast/v1/{errors,lease,resource,operation}.proto google/rpc/*.proto)
    cd "$into"
    stubs=$(ls holdfast/v1/{lease,resource,operation}.grpc.pb.cc)
    find . -name '*.pb.h' -printf '#include "%P"\n' | sort >all.h
    printf '#include "%s"\n' $stubs >stubs.cc
    find . -name '*.cc' ! -name '*.grpc.pb.cc' -print0 |
        xargs -0 -P 2 -I{} sh -c 'g++ -std=c++17 -O0 -I. -c "$1" -o "$1.o"' - {}
    ar rc libholdfast.a $(find . -name '*.o')
}

cpp() {
    once cpp proto -- make_cpp
}

# compile_cpp SOURCE PROGRAM
compile_cpp() {
    g++ -std=c++17 -O0 -Wall -Wextra -isystem "$stock/cpp" -include all.h "$1" -o "$2" "$stock/cpp/libholdfast.a" \
        $(pkg-config --cflags --libs grpc++ protobuf)
}

make_cpp_client() {
    compile_cpp "$here/cpp_client.cc" "$into/client"
}

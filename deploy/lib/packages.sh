# packages.sh - installs what Holdfast is built with and tested with, from Debian's packages. Sourced by deploy/quickstart and
# tests/run; uses their say().

HOLDFAST_BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config libpq-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libnghttp2-dev libssl-dev zlib1g-dev libjansson-dev"
HOLDFAST_RUN_PACKAGES="postgresql"
HOLDFAST_TEST_PACKAGES="libcmocka-dev libnng-dev clang-format-14 make pgbouncer iproute2 clang-tidy-14 clang-14 libclang-rt-14-dev llvm-14 spin valgrind prometheus"
HOLDFAST_COVERAGE_PACKAGES="gcovr"

# The clients that others have made, for tests/stock. Node may be here from elsewhere, with npm, and then Debian's npm would not go with it.
HOLDFAST_STOCK_PACKAGES="python3-grpcio python3-protobuf protobuf-compiler protobuf-compiler-grpc g++ libgrpc++-dev libprotobuf-dev ruby-grpc grpc-proto nghttp2-client curl jq openssl libgrpc-java libprotobuf-java libnetty-java libperfmark-java libgoogle-gson-java libguava-java"
command -v node >/dev/null || HOLDFAST_STOCK_PACKAGES="$HOLDFAST_STOCK_PACKAGES nodejs"
command -v javac >/dev/null || HOLDFAST_STOCK_PACKAGES="$HOLDFAST_STOCK_PACKAGES openjdk-17-jdk-headless"
command -v npm >/dev/null || HOLDFAST_STOCK_PACKAGES="$HOLDFAST_STOCK_PACKAGES npm"

# as_root COMMAND…: runs it with root's rights.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# missing_packages NAME…: those that aren't installed, one a line.
missing_packages() {
    local name
    for name in "$@"; do
        case "$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null)" in
        *" installed") ;;
        *) printf '%s\n' "$name" ;;
        esac
    done
}

# install_packages NAME…: they are installed; apt-get is called only if one is missing.
install_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        say "this isn't Debian: assuming that these are installed under their own names: $*"
        return 0
    fi
    missing=$(missing_packages "$@" | tr '\n' ' ')
    if [ -z "$missing" ]; then
        say "packages: all installed"
        return 0
    fi
    if [ "$(id -u)" != 0 ] && { ! command -v sudo >/dev/null || ! sudo true; }; then
        say "these packages are missing, and $(id -un) has no sudo to install them with: $missing"
        say "run as root: apt-get update && apt-get install -y --no-install-recommends $missing"
        return 1
    fi
    say "packages: installing $missing"
    # shellcheck disable=SC2086
    apt_install $missing || {
        say "the packages could not be installed: $missing"
        return 1
    }
}

# apt_install NAME…: by apt-get, without starting what some packages bring: Debian's PostgreSQL would make a cluster of its own, and
# that, pgbouncer and prometheus would be started. Two files keep them from it and are taken away again, however this ends.
apt_install() (
    clusters=/etc/postgresql-common/createcluster.d/zz-holdfast.conf
    services=/usr/sbin/policy-rc.d
    [ -e "$services" ] && services=""
    trap 'as_root rm -f "$clusters" ${services:+"$services"}' EXIT
    trap 'exit 1' HUP INT TERM
    as_root mkdir -p "${clusters%/*}" || exit 1
    echo 'create_main_cluster = false' | as_root tee "$clusters" >/dev/null || exit 1
    if [ -n "$services" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$services" >/dev/null && as_root chmod +x "$services"
    fi
    as_root apt-get -q update || say "apt-get update failed; trying with the lists that are there"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends install "$@" </dev/null || exit 1
    local service
    for service in pgbouncer prometheus; do
        if [[ " $* " == *" $service "* ]] && command -v systemctl >/dev/null; then
            as_root systemctl --quiet disable "$service" || true
        fi
    done
)

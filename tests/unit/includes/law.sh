# law.sh - who may include whom. `check_includes ROOT` prints each violation as FILE: WHY and fails if there is one;
# `check_headers ROOT BUILD` does so for headers that don't compile alone or have no guard. Sourced by includes_test.sh.

# Headers of libc and the kernel.
libc='alloca|arpa/inet|assert|bits/.*|byteswap|ctype|dirent|dlfcn|endian|err|errno|execinfo|fcntl|fenv|float|fnmatch|ftw|getopt|glob|grp'
libc="$libc|ifaddrs|inttypes|iso646|langinfo|libgen|limits|linux/.*|locale|malloc|math|memory|net/if|netdb|netinet/.*|poll|pthread|pwd"
libc="$libc|regex|sched|search|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn"
libc="$libc|string|strings|sys/.*|syscall|syslog|termios|threads|time|uchar|ucontext|ulimit|unistd|utime|wchar|wctype|wordexp"

messages='"(holdfast/v1|google/(rpc|protobuf)|grpc/[a-z]+/[a-z0-9]+)/[a-z_]+\.pb-c\.h"'

# law FOLDER: the table. Prints extended regular expressions for what may stand behind #include there.
law() {
    case "$1" in
    client/include/holdfast) echo '<holdfast/[a-z]+\.h>' ;;
    client/examples) echo '<holdfast/[a-z]+\.h>' ;;
    client/lib) printf '%s\n' '<(nghttp2|openssl)/[a-z0-9]+\.h>' '"client/lib/.*"' '"proto/c/.*"' '<holdfast/[a-z]+\.h>' '<protobuf-c/.*>' "$messages" ;;
    client/cli) printf '%s\n' '"client/(cli|lib)/.*"' '"proto/c/.*"' '<holdfast/[a-z]+\.h>' '<protobuf-c/.*>' "$messages" ;;
    proto/c) printf '%s\n' '"proto/c/.*"' '<protobuf-c/.*>' "$messages" ;;
    proto) echo '"proto/c/.*"' ;; # a tool of the build
    schema) echo '"schema/.*"' ;;
    server/base) echo '"base/.*"' ;;
    server/core) echo '"(core|base)/.*"' ;;
    server/store) printf '%s\n' '"(store|core|base)/.*"' '"schema/schema\.h"' '<libpq-fe\.h>' ;;
    server/net) printf '%s\n' '<((nghttp2|openssl)/[a-z0-9_]+|zlib|jansson)\.h>' '"(net|base)/.*"' '"proto/c/.*"' '<protobuf-c/.*>' "$messages" ;;
    server/service) printf '%s\n' '"(service|store|core|base)/.*"' '"proto/c/.*"' '<protobuf-c/.*>' "$messages" ;;
    server/app) printf '%s\n' '"(app|service|net|store|core|base)/.*"' '"proto/c/.*"' '"schema/schema\.h"' "$messages" ;;
    *) return 1 ;;
    esac
}

check_includes() {
    local root=$1 folder allowed file include bad=0
    while read -r folder; do
        if ! allowed=$(law "$folder"); then
            find "$root/$folder" -maxdepth 1 -name '*.[ch]' -printf "$folder/%f: $folder is not a room of the table in tests/unit/includes/law.sh\n"
            bad=1
            continue
        fi
        allowed=$(printf '%s\n' "$allowed" "<($libc)\.h>" | sed '/^$/d' | paste -sd'|')
        while IFS=: read -r file include; do
            echo "$file: $folder may not include $include"
            bad=1
        done < <(cd "$root" && grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]*[>"]' "$folder"/*.[ch] |
            sed -E 's/:[[:space:]]*#[[:space:]]*include[[:space:]]*/:/' | grep -vE ":($allowed)\$")
    done < <(cd "$root" && find client proto schema server -name '*.[ch]' -printf '%h\n' | sort -u)
    return $bad
}

check_headers() {
    local root=$1 build=$2 header bad=0 flags
    flags="-I$root -I$root/server -I$root/client/include -I$root/tests -isystem $build/proto $(pkg-config --cflags libpq libprotobuf-c cmocka)"
    while read -r header; do
        if ! grep -qE '^#ifndef HOLDFAST_[A-Z0-9_]+_H$' "$root/$header"; then
            echo "$header: no include guard HOLDFAST_…_H"
            bad=1
        fi
        # shellcheck disable=SC2086
        if ! printf '#include "%s"\n' "$root/$header" | ${CC:-cc} -x c -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-missing-field-initializers -Werror -fsyntax-only $flags -; then
            echo "$header: does not compile alone"
            bad=1
        fi
    done < <(cd "$root" && find client proto schema server tests -name '*.h' | sort)
    return $bad
}

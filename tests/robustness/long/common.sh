# common.sh - for the scripts here: play a case at its full length. Sourced; the script then calls play.

set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# play TEST [BUILD-FOLDER]: tests/robustness/TEST_test.c is built there (default build/dev; it must have been configured) and run,
# with a PostgreSQL of its own unless HOLDFAST_TEST_PG names one.
play() {
    local build=${2:-build/dev}
    [ -f "$build/build.ninja" ] || cmake --preset "$(basename "$build")" >/dev/null
    cmake --build "$build" --target "test-robustness-$1" >/dev/null
    exec "$build/tests/robustness/$1_test"
}

# tools.sh - the steps of tests/run that are not suites: format, tidy, model, fuzz, guard, coverage. Sourced by it; uses its say(),
# give_up(), build(), $passed, $failed, $jobs and $log.

# tool NAME: prints the path of NAME of LLVM 14, as Debian calls it or without the number. Fails if there is none.
tool() {
    local path
    path=$(command -v "$1-14") || { path=$(command -v "$1") && "$path" --version | grep -q 'version 14\.'; } || return 1
    echo "$path"
}

# check_format: every C file is as clang-format 14 would write it. Counts as one test.
check_format() {
    local format
    format=$(tool clang-format) || give_up "there is no clang-format 14"
    say "format: checking with $("$format" --version)"
    if find client proto schema server tests \( -name '*.c' -o -name '*.h' \) -print0 | xargs -0 "$format" --dry-run -Werror; then
        passed=$((passed + 1))
    else
        say "format: the files named above differ from .clang-format; \"$format -i FILE\" puts them right"
        failed=$((failed + 1))
    fi
}

# tidy_one FILE: clang-tidy has nothing against it; what it has is printed. What passed is remembered by its content.
tidy_one() {
    local key out
    key=$(printf '%s\n' "$tidy_key" "$1" | cat - "$1" | sha256sum)
    key=$tidy_cache/${key%% *}
    [ -e "$key" ] && return 0
    if out=$("$tidy" -p build/dev --quiet "$1" 2>/dev/null); then
        : >"$key"
        return 0
    fi
    printf '%s\n' "$out"
    [ -n "$out" ] || echo "$1: clang-tidy failed"
    return 1
}

# run_tidy [FILE…]: clang-tidy 14 finds nothing in them; without one, in all our C files, but those of tests/bench, whose libraries
# need not be here. Generated code is not looked at. Counts
# as one test.
run_tidy() {
    local start=$SECONDS files
    tidy=$(tool clang-tidy) || give_up "there is no clang-tidy 14"
    tidy_cache=$PWD/build/dev/tidy
    say "tidy: checking ${*:-all C files} with clang-tidy 14"
    # It needs to know how files are compiled, and the generated headers.
    if ! { [ -f build/dev/build.ninja ] || cmake --preset dev --fresh; } >"$log" 2>&1 ||
        ! cmake --build --preset dev --target hf_messages hf_schema hf_interop >>"$log" 2>&1; then
        tail -n 100 "$log"
        give_up "tidy: dev could not be configured"
    fi
    mkdir -p "$tidy_cache"
    find "$tidy_cache" -type f -mtime +30 -delete
    tidy_key=$("$tidy" --version
        find . -path ./build -prune -o \( -name '*.h' -o -name '*.proto' -o -name .clang-tidy -o -name CMakeLists.txt \) -type f -print0 |
            sort -z | xargs -0 cat | sha256sum)
    export tidy tidy_cache tidy_key
    export -f tidy_one
    files=("$@")
    [ $# = 0 ] && mapfile -d '' files < <(find client proto/c schema server tests -path tests/bench -prune -o -name '*.c' -print0 | sort -z)
    if printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$jobs" bash -c 'tidy_one "$1" || exit 1' tidy; then
        passed=$((passed + 1))
    else
        say "tidy: put right what is told above, or say in place why it is wrong: NOLINT(check): reason"
        failed=$((failed + 1))
    fi
    say "tidy: ${#files[@]} files, $((SECONDS - start)) s"
}

# run_model [full] [NAME…]: the model of the lease protocol is searched through, and the planted faults are found. Each search and
# each fault counts as one test.
run_model() {
    local counts
    say "model: searching; what is built goes to build/model"
    tests/model/run "$@" </dev/null 2>&1 | tee "$log" | grep -v '^[0-9]* passed, '
    counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
    [ -n "$counts" ] || give_up "model: it did not come to its end"
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
}

# fuzz_one TARGET SECONDS: no input was found that makes it fail, in this time. New inputs stay in build/fuzz/corpus/TARGET.
fuzz_one() {
    local target=$1 seconds=$2 program=build/fuzz/bin/fuzz/$1 seeds=tests/fuzz/corpus/$1 own=build/fuzz/corpus/$1 found
    local from to runs log=build/fuzz/found/$target.log
    mkdir -p "$own" "$seeds" build/fuzz/found
    # The sanitizers look for llvm-symbolizer, by that name, in PATH.
    if PATH=/usr/lib/llvm-14/bin:$PATH ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        "$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$target-" "$own" "$seeds" </dev/null >"$log" 2>&1; then
        from=$(sed -n 's/^#[0-9]*[[:space:]]*INITED cov: \([0-9]*\) .*/\1/p' "$log")
        to=$(sed -n 's/^#[0-9]*[[:space:]]*DONE *cov: \([0-9]*\) .*/\1/p' "$log")
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        say "fuzz: $target: $runs runs in $seconds s, coverage ${from:-?} to ${to:-?}, $(find "$seeds" -type f | wc -l) seeds"
        return 0
    fi
    grep -vE '^#[0-9]|^INFO|NEW_FUNC' "$log" | head -n 60
    found=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    say "fuzz: $target FAILED${found:+ by $found}"
    if [ -n "$found" ]; then
        say "fuzz: in base64: $(base64 -w0 "$found" | head -c 8000)"
        say "fuzz: again: $program $found"
        say "fuzz: smaller: $program -minimize_crash=1 -max_total_time=60 $found"
        say "fuzz: put right, keep it: cp $found $seeds/WHAT-IT-IS; the test fuzz/$target runs it from then on"
    fi
    return 1
}

# run_fuzz [TARGET…]: each of them, or all, for HOLDFAST_FUZZ_SECONDS (10). Each counts as one test.
run_fuzz() {
    local start=$SECONDS seconds=${HOLDFAST_FUZZ_SECONDS:-10} target source
    local -a targets=("$@")
    if [ $# = 0 ]; then
        for source in tests/fuzz/*_fuzz.c; do
            source=${source##*/}
            targets+=("${source%_fuzz.c}")
        done
    fi
    build fuzz
    for target in "${targets[@]}"; do
        [ -x "build/fuzz/bin/fuzz/$target" ] || give_up "fuzz: there is no target $target"
    done
    # One a core.
    local -a pids
    local i pid
    for ((i = 0; i < ${#targets[@]}; i += $(nproc))); do
        pids=()
        for target in "${targets[@]:i:$(nproc)}"; do
            fuzz_one "$target" "$seconds" &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do
            if wait "$pid"; then
                passed=$((passed + 1))
            else
                failed=$((failed + 1))
            fi
        done
    done
    say "fuzz: ${#targets[@]} targets, $((SECONDS - start)) s"
}

# run_guard [--update] […]: an operation takes as many instructions, batches and SQL statements as tests/bench/guard.txt says. Counts
# as one test.
run_guard() {
    local start=$SECONDS
    build release holdfastd
    build release holdfast
    say "guard: counting what an operation takes"
    if tests/bench/guard "$@" </dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    say "guard: $((SECONDS - start)) s"
}

# run_coverage [NAME…]: runs those tests, or all, and prints how many lines of each room they ran. Servers that are killed don't
# tell what they ran, so that the truth is a little higher.
run_coverage() {
    # shellcheck disable=SC2086
    install_packages $HOLDFAST_COVERAGE_PACKAGES || give_up "packages are missing"
    build coverage
    find build/coverage -name '*.gcda' -delete
    suite coverage "$@"
    say "coverage: reading what was counted"
    if ! gcovr --root . --object-directory build/coverage --exclude 'build/' --exclude 'tests/' --exclude 'schema/embed.c' --gcov-ignore-parse-errors \
        --csv build/coverage/lines.csv --html-details build/coverage/lines.html build/coverage >"$log" 2>&1; then
        tail -n 20 "$log"
        give_up "coverage: gcovr failed"
    fi
    # filename,line_total,line_covered,…
    awk -F, 'NR > 1 {
            room = $1; sub("/[^/]*$", "", room); total[room] += $2; covered[room] += $3; all += $2; all_covered += $3
        }
        END {
            for (room in total) printf "%-24s %6d of %6d lines  %5.1f %%\n", room, covered[room], total[room], 100 * covered[room] / total[room] | "sort"
            close("sort")
            printf "%-24s %6d of %6d lines  %5.1f %%\n", "all", all_covered, all, 100 * all_covered / all
        }' build/coverage/lines.csv
    say "coverage: line by line in build/coverage/lines.html"
}

# expect.sh - what the scripts beside a server share: a step that failed is told, and the script ends with 1 if there was one.
failed=0

# has WHAT TEXT PART…: TEXT without blanks has all PARTs (extended regular expressions).
has() {
    local what=$1 text part
    text=$(tr -d ' \r\n' <<<"$2")
    shift 2
    for part in "$@"; do
        if ! grep -qE -- "$part" <<<"$text"; then
            echo "FAILED  $what: no $part in: ${text:0:2000}"
            failed=1
            return
        fi
    done
    echo "ok      $what"
}

# token_in ANSWER: the first token in it.
token_in() {
    tr -d ' \n' <<<"$1" | sed -E 's/.*"token":"?([0-9]+).*/\1/'
}

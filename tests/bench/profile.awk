# profile.awk - two answers of `stats --json`, and what profile measured between them, as text.

# The number of `field` in the object that begins behind `from` in `text`.
function field(text, from, name, at) {
    at = index(text, from)
    if (!at)
        return 0
    text = substr(text, at)
    if (!match(text, "\"" name "\":\"?[0-9]+"))
        return 0
    text = substr(text, RSTART, RLENGTH)
    sub(/.*[:"]/, "", text)
    return text + 0
}

function sizes(text, kind, at) {
    at = index(text, "\"kind\":\"" kind "\"")
    text = substr(text, at)
    match(text, /"sizes":\[[^]]*\]/)
    text = substr(text, RSTART + 9, RLENGTH - 10)
    gsub(/"/, "", text)
    return text
}

function show_batches(kind, items, batches, line, a, b, n, i) {
    batches = field(after, "\"kind\":\"" kind "\"", "batches") - field(before, "\"kind\":\"" kind "\"", "batches")
    items = field(after, "\"kind\":\"" kind "\"", "items") - field(before, "\"kind\":\"" kind "\"", "items")
    if (batches < 20)
        return
    split(sizes(before, kind), b, ",")
    n = split(sizes(after, kind), a, ",")
    for (i = 1; i <= n; i++)
        if (a[i] - b[i] > 0)
            line = line sprintf("  %d–%d: %d", 2 ^ (i - 1), 2 ^ i - 1, a[i] - b[i])
    printf "  batches of %-8s %6d with %.1f items each;%s\n", kind, batches, items / batches, line
}

FNR == NR { before = before $0; next }
{ after = after $0 }

END {
    split(h, H); split(p, P); split(o, O); split(client, C); split(d, D)
    match(json, /"seconds":[0-9.]*/); seconds = substr(json, RSTART + 10, RLENGTH - 10) + 0
    match(json, /"throughput":[0-9.]*/); rate = substr(json, RSTART + 13, RLENGTH - 13) + 0
    warm = seconds / 5 < 1 ? seconds / 5 : 1
    ops = rate * (seconds + warm) # what stands before and behind the window is small beside that
    printf "\n%s, %d in flight: %d/s; an operation takes, in microseconds of CPU and in waits:\n", kind, n, rate
    printf "  client      %6.1f us   (user %.1f, system %.1f)\n", (C[1] + C[2]) * 1e6 / ops, C[1] * 1e6 / ops, C[2] * 1e6 / ops
    printf "  holdfastd   %6.1f us   %.3f waits\n", (H[3] - H[1]) / 1e3 / ops, (H[4] - H[2]) / ops
    printf "  backends    %6.1f us   %.3f waits\n", (P[3] - P[1]) / 1e3 / ops, (P[4] - P[2]) / ops
    printf "  PostgreSQL's other processes %.1f us\n", (O[3] - O[1]) / 1e3 / ops
    printf "  commits %.4f, WAL bytes %.0f, WAL flushes %.4f\n", (D[4] - D[1]) / ops, (D[5] - D[2]) / ops, (D[6] - D[3]) / ops
    show_batches("acquire"); show_batches("release"); show_batches("renew"); show_batches("write"); show_batches("check")
}

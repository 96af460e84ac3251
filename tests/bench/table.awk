# table.awk - rows of peer, work, in flight, operations/s, p50, p99, check as Markdown tables: medians, and ratios to postgres.

function median(list, a, n, i, j, t) {
    n = split(list, a, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && a[j] + 0 < a[j - 1] + 0; j--) {
            t = a[j]; a[j] = a[j - 1]; a[j - 1] = t
        }
    return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
}

function thousands(number, text, out) {
    text = sprintf("%d", number)
    while (length(text) > 3) {
        out = "," substr(text, length(text) - 2) out
        text = substr(text, 1, length(text) - 3)
    }
    return text out
}

function best_raw_renewals(i, best) {
    for (i = 1; i <= n_counts; i++)
        if (median(rate["postgres", "renew", count[i]]) > best)
            best = median(rate["postgres", "renew", count[i]])
    return best
}

function cell(p, w, c, key, raw) {
    key = p SUBSEP w SUBSEP c
    if (!(key in rate))
        return "–"
    if (key in wrong)
        return "**" wrong[key] "**"
    raw = w == "renew-many" ? best_raw_renewals() : median(rate["postgres", w, c])
    return thousands(median(rate[key])) (p == "postgres" || !raw ? "" : sprintf(" (%.2f ×)", median(rate[key]) / raw))
}

function table(title, is_latency, w, c, p, line, i, j, k) {
    line = "\n| " title " | in flight |"
    for (k = 1; k <= n_peers; k++)
        line = line " " (peer[k] in named ? named[peer[k]] : peer[k]) " |"
    print line
    line = "|---|---:|"
    for (k = 1; k <= n_peers; k++)
        line = line "---:|"
    print line
    for (i = 1; i <= n_works; i++)
        for (j = 1; j <= n_counts; j++) {
            w = work[i]; c = count[j]
            if (!((w, c) in seen))
                continue
            line = "| " w " | " c " |"
            for (k = 1; k <= n_peers; k++) {
                p = peer[k]
                if (!is_latency)
                    line = line " " cell(p, w, c) " |"
                else if ((p, w, c) in p50)
                    line = line sprintf(" %.2f / %.2f |", median(p50[p, w, c]), median(p99[p, w, c]))
                else
                    line = line " – |"
            }
            print line
        }
}

BEGIN {
    FS = "\t"
    named["postgres"] = "hand-written SQL"; named["redis"] = "Redis"; named["holdfast"] = "Holdfast"; named["holdfast_grpc"] = "Holdfast, gRPC"
    n_peers = split(peers, peer, " ")
    n_works = split(works, work, " ")
    n_counts = split(counts, count, " ")
}

{
    seen[$2, $3] = 1
    rate[$1, $2, $3] = rate[$1, $2, $3] " " $4
    p50[$1, $2, $3] = p50[$1, $2, $3] " " $5
    p99[$1, $2, $3] = p99[$1, $2, $3] " " $6
    if ($7 != "ok")
        wrong[$1, $2, $3] = $7
}

END {
    printf "Medians of %d runs of %s s; %s, load generators included; load %s; commit %s. All durable, all results checked.\n", runs,
        seconds, machine, load, commit
    printf "Operations/s, × hand-written SQL%s\n", works ~ /renew-many/ ? " (renew-many: × its best renewals)" : ""
    table("operations/s", 0)
    print "\nMilliseconds, p50 / p99"
    table("latency", 1)
}

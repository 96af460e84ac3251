/*
 * store_principals_test.c - keys and certificates in the database: made, changed, revoked, listed; what a server is told of them,
 * in which order and after a fail-over; what is noted; SQL roles; and the first key, made on the console.
 */
#include "store/store_env.h"

#include "store/admin_key.h"

static const unsigned char hash[ST_HASH_BYTES] = {1, 2, 3};
static const struct st_grant admin[] = {{ST_ADMIN, "", "", ""}};
static const struct st_grant two[] = {{ST_WORKER, "default", "orders/", ""}, {ST_READER, "", "", "refund/"}};

static char seen[4000];
static int64_t version_seen;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    size_t len = strlen(seen);
    va_list args;
    va_start(args, format);
    vsnprintf(seen + len, sizeof(seen) - len, format, args);
    va_end(args);
}

static void add_grants(const struct st_grant *grants, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(" %d:%s:%s:%s", grants[i].role, grants[i].ns, grants[i].resources, grants[i].operations);
}

static void look(struct st_item *item)
{
    const struct st_principals_told *told = &item->out.principals;
    seen[0] = 0;
    for (size_t i = 0; i < told->n; i++) {
        const struct st_principal_row *row = &told->rows[i];
        add("%s%s|%s|%s|%s|%s|%d|%d|%lld/%lld|", i ? " " : "", row->id, row->name, row->certificate, row->created_by,
            row->revoked_by, row->expires_unix_ms > 0, row->revoked_unix_ms > 0, (long long)row->rate_per_s,
            (long long)row->rate_burst);
        add_grants(row->grants, row->n_grants);
        version_seen = row->version;
    }
    if (told->more)
        add(" …");
}

static struct st_principals *prepare_principal(struct work *w, enum st_kind kind, const char *id)
{
    prepare(w, kind, "")->ns = "";
    w->item.resource = NULL;
    w->look = look;
    struct st_principals *in = &w->item.in.principals;
    *in =
        (struct st_principals){.id = id, .actor = "me", .expires_in_ms = ST_UNSET, .rate_per_s = ST_UNSET, .rate_burst = ST_UNSET};
    return in;
}

static enum st_outcome create(const char *id, const char *name, const char *certificate, const struct st_grant *grants, size_t n)
{
    struct work w;
    struct st_principals *in = prepare_principal(&w, ST_CREATE_PRINCIPAL, id);
    in->name = name;
    in->certificate = certificate;
    if (!certificate)
        in->secret_hash = (struct st_bytes){hash, sizeof(hash)};
    in->grants = grants;
    in->n_grants = n;
    in->expires_in_ms = in->rate_per_s = in->rate_burst = 0;
    return call(&w);
}

static enum st_outcome revoke_it(const char *id, int64_t version)
{
    struct work w;
    prepare_principal(&w, ST_REVOKE_PRINCIPAL, id)->version = version;
    w.item.in.principals.reason = "lost";
    return call(&w);
}

static void they_are_made_changed_and_revoked(void **state)
{
    struct work w;
    (void)state;
    assert_int_equal(create("k1", "one", NULL, two, 2), ST_FOUND);
    assert_string_equal(seen, "k1|one||me||0|0|0/0| 2:default:orders/: 1:::refund/");
    assert_int_equal(create("k1", "one", NULL, two, 2), ST_FOUND); /* sent again */
    assert_int_equal(create("k1", "other", NULL, two, 2), ST_AUTH_TAKEN);
    assert_int_equal(create("k2", "one", NULL, two, 2), ST_AUTH_TAKEN);
    assert_int_equal(create("c1", "cert", "CN=x", admin, 1), ST_FOUND);
    assert_string_equal(seen, "c1|cert|CN=x|me||0|0|0/0| 4:::");
    assert_int_equal(create("c2", "cert 2", "CN=x", admin, 1), ST_AUTH_TAKEN);

    struct st_principals *in = prepare_principal(&w, ST_SET_PRINCIPAL, "k1");
    in->rate_per_s = 5;
    in->rate_burst = 9;
    in->expires_in_ms = 60000;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(seen, "k1|one||me||1|0|5/9| 2:default:orders/: 1:::refund/");
    int64_t version = version_seen;
    in = prepare_principal(&w, ST_SET_PRINCIPAL, "k1");
    in->version = version - 1;
    in->grants = admin;
    in->n_grants = 1;
    assert_int_equal(call(&w), ST_OP_REVISION);
    in = prepare_principal(&w, ST_SET_PRINCIPAL, "k1");
    in->version = version;
    in->grants = admin;
    in->n_grants = 1;
    in->expires_in_ms = 0;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(seen, "k1|one||me||0|0|5/9| 4:::");
    prepare_principal(&w, ST_SET_PRINCIPAL, "none");
    assert_int_equal(call(&w), ST_AUTH_NONE);

    assert_int_equal(revoke_it("k1", version), ST_OP_REVISION);
    assert_int_equal(revoke_it("none", 0), ST_AUTH_NONE);
    assert_int_equal(revoke_it("k1", 0), ST_FOUND);
    assert_string_equal(seen, "k1|one||me|me|0|1|5/9| 4:::");
    assert_int_equal(revoke_it("k1", version), ST_FOUND); /* again */
    prepare_principal(&w, ST_SET_PRINCIPAL, "k1");
    assert_int_equal(call(&w), ST_AUTH_NONE);
    assert_int_equal(create("k2", "one", NULL, admin, 1), ST_FOUND); /* the name is free again */
}

static char *audited(void)
{
    return t_sql(sql, "SELECT string_agg(namespace || ' ' || split_part(detail, ',', 1), '; ' ORDER BY id) FROM holdfast.audit "
                      "WHERE kind = 'key'");
}

static void the_audit_tells_what_was_done_in_each_namespace(void **state)
{
    static const struct st_grant payments[] = {{ST_ADMIN, "payments", "", ""}, {ST_READER, "default", "a", ""}};
    struct work w;
    (void)state;
    assert_int_equal(create("k1", "one", NULL, payments, 2), ST_FOUND);
    struct st_principals *in = prepare_principal(&w, ST_SET_PRINCIPAL, "k1");
    in->grants = payments;
    in->n_grants = 1;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(revoke_it("k1", 0), ST_FOUND);
    const char *text = audited();
    assert_non_null(strstr(text, "payments created k1 \"one\": admin;"));
    assert_non_null(
        strstr(text, "default created k1 \"one\": reader on resources \"a\";")); /* what it may do elsewhere isn't told */
    assert_non_null(strstr(text, "default changed k1 \"one\": nothing;"));
    assert_non_null(strstr(text, "payments changed k1 \"one\": admin;"));
    assert_non_null(strstr(text, "payments revoked k1 \"one\": lost"));
    assert_null(strstr(text, "default revoked")); /* it did not reach there any more */
}

static void they_are_listed_by_pages(void **state)
{
    struct work w;
    (void)state;
    create("b", "b", NULL, admin, 1);
    create("a", "a", NULL, two, 2);
    create("c", "c", NULL, admin, 1);
    revoke_it("b", 0);
    struct st_principals *in = prepare_principal(&w, ST_LIST_PRINCIPALS, NULL);
    in->max = 1;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(seen, "a|a||me||0|0|0/0| 2:default:orders/: 1:::refund/ …");
    in = prepare_principal(&w, ST_LIST_PRINCIPALS, NULL);
    in->max = 1;
    in->after = "a";
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(seen, "c|c||me||0|0|0/0| 4:::");
    in = prepare_principal(&w, ST_LIST_PRINCIPALS, NULL);
    in->max = 5;
    in->after = "a";
    in->revoked = true;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(seen, "b|b||me|me|0|1|0/0| 4::: c|c||me||0|0|0/0| 4:::");
}

/* ---- what servers are told ---- */

static char epoch[64];
static int64_t known;
static bool restarted, more;

static void look_changes(struct st_item *item)
{
    const struct st_auth_told *told = &item->out.auth;
    seen[0] = 0;
    snprintf(epoch, sizeof(epoch), "%s", told->epoch);
    known = told->known;
    restarted = told->restarted;
    more = told->more;
    assert_true(told->now_unix_ms > INT64_C(1600000000000));
    for (size_t i = 0; i < told->n; i++) {
        const struct st_auth_row *row = &told->rows[i];
        add("%s%s %s%s%s", i ? ", " : "", row->principal.id, row->live ? "live" : "over", row->secret_hash.len ? " key" : "",
            row->principal.certificate[0] ? " certificate" : "");
        add_grants(row->principal.grants, row->principal.n_grants);
    }
}

static const char *changes(const char *of, int64_t after, int64_t max)
{
    struct work w;
    prepare(&w, ST_AUTH_CHANGES, "")->ns = "";
    w.item.resource = NULL;
    w.item.in.auth_ask = (struct st_auth_ask){of, after, max};
    w.look = look_changes;
    assert_int_equal(call(&w), ST_FOUND);
    return seen;
}

static void servers_are_told_what_changed(void **state)
{
    char was[64];
    (void)state;
    assert_string_equal(changes("", 0, 10), "");
    assert_true(restarted);
    snprintf(was, sizeof(was), "%s", epoch);
    create("k1", "1", NULL, admin, 1);
    create("k2", "2", "CN=2", two, 2);
    create("k3", "3", NULL, admin, 1);
    assert_string_equal(changes(was, 0, 2), "k1 live key 4:::, k2 live certificate 2:default:orders/: 1:::refund/");
    assert_false(restarted);
    assert_true(more);
    assert_string_equal(changes(was, known, 2), "k3 live key 4:::");
    assert_false(more);
    assert_string_equal(changes(was, known, 2), "");
    revoke_it("k1", 0);
    assert_string_equal(changes(was, known, 2), "k1 over key 4:::");
    int64_t last = known;
    /* From the start, those that are over are left out. */
    assert_string_equal(changes("", 0, 10), "k2 live certificate 2:default:orders/: 1:::refund/, k3 live key 4:::");
    assert_int_equal(known, last);

    /* The same versions may have been given twice after a fail-over: everything is told anew. */
    t_sql(sql, "UPDATE holdfast.identity SET timeline = 'FFFFFFFF'");
    t_sql(sql, "SELECT holdfast.attach()");
    changes(was, last, 10);
    assert_true(restarted);
    assert_string_not_equal(epoch, was);
    assert_string_equal(seen, "k2 live certificate 2:default:orders/: 1:::refund/, k3 live key 4:::");
    /* And if it counts less than is known, likewise. */
    t_sql(sql, "UPDATE holdfast.auth_state SET version = version - 1");
    changes(epoch, known, 10);
    assert_true(restarted);
}

/* It has met the other one's lock. */
static bool is_slow(void)
{
    struct st_kind_stats stats = stats_of(ST_CREATE_PRINCIPAL);
    return stats.batches + stats.retries + stats.busy > 0;
}

/* Two who change principals at once: whoever has seen a version has seen all before it. */
static void versions_are_in_the_order_of_commits(void **state)
{
    struct work w;
    (void)state;
    changes("", 0, 10);
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN");
    t_sql(other,
          "SELECT * FROM holdfast.create_principal('first', 'first', sha256('x'), NULL, 0, 0, 0, ARRAY['4','','',''], 'me')");
    struct st_principals *in = prepare_principal(&w, ST_CREATE_PRINCIPAL, "second");
    in->name = "second";
    in->secret_hash = (struct st_bytes){hash, sizeof(hash)};
    in->grants = admin;
    in->n_grants = 1;
    in->expires_in_ms = in->rate_per_s = in->rate_burst = 0;
    submit(&w); /* waits for the other one */
    char was[64];
    int64_t before = known;
    snprintf(was, sizeof(was), "%s", epoch);
    run_until(is_slow, LONG_MS);
    struct work ask;
    prepare(&ask, ST_AUTH_CHANGES, "")->ns = "";
    ask.item.resource = NULL;
    ask.item.in.auth_ask = (struct st_auth_ask){was, before, 10};
    ask.look = look_changes;
    submit(&ask);
    wait_for(&ask);
    assert_string_equal(seen, ""); /* neither of them: nothing was passed over */
    assert_int_equal(w.done, 0);
    t_sql(other, "COMMIT");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_FOUND);
    assert_string_equal(changes(was, before, 10), "first live key 4:::, second live key 4:::");
    PQfinish(other);
}

/* ---- what is noted ---- */

static void look_denials(struct st_item *item)
{
    seen[0] = 0;
    for (size_t i = 0; i < item->out.denials.n; i++) {
        const struct st_denial_row *row = &item->out.denials.rows[i];
        add("%s%s/%s %s %s ×%lld", i ? ", " : "", row->principal, row->name, row->method, row->reason, (long long)row->count);
        version_seen = row->id;
    }
    if (item->out.denials.more)
        add(" …");
}

static void list_denials(int64_t after, int64_t max)
{
    struct work w;
    prepare(&w, ST_LIST_DENIALS, "")->ns = "";
    w.item.resource = NULL;
    w.item.in.denials.after_id = after;
    w.item.in.denials.max = max;
    w.look = look_denials;
    assert_int_equal(call(&w), ST_FOUND);
}

static void note(const char *const *used, const int64_t *ago, size_t n_used, const struct st_denial *denials, size_t n_denials)
{
    struct work w;
    prepare(&w, ST_AUTH_NOTE, "")->ns = "";
    w.item.resource = NULL;
    w.item.in.auth_note = (struct st_auth_note){used, ago, n_used, denials, n_denials};
    assert_int_equal(call(&w), ST_FOUND);
}

static void use_and_denials_are_noted(void **state)
{
    static const char *const used[] = {"k1", "none"};
    static const int64_t ago[] = {60000, 5}, now[] = {0, 0};
    static const struct st_denial denials[] = {{"k1", "/m", "SCOPE", 3}, {"", "/m", "BAD_KEY", 1}, {"k1", "/m", "SCOPE", 2}};
    (void)state;
    create("k1", "one", NULL, admin, 1);
    note(NULL, NULL, 0, NULL, 0);
    assert_string_equal(t_sql(sql, "SELECT last_used_at IS NULL FROM holdfast.principal"), "t");
    note(used, now, 2, denials, 3);
    note(used, ago, 1, NULL, 0); /* another server, behind */
    assert_string_equal(t_sql(sql, "SELECT clock_timestamp() - last_used_at < '30 s' FROM holdfast.principal"), "t");
    list_denials(0, 10);
    assert_string_equal(seen, "k1/one /m SCOPE ×5, / /m BAD_KEY ×1");
    list_denials(0, 1);
    assert_string_equal(seen, "k1/one /m SCOPE ×5 …");
    list_denials(version_seen, 1);
    assert_string_equal(seen, "/ /m BAD_KEY ×1");
    /* In the same minute it is the same row. */
    t_sql(sql, "UPDATE holdfast.denial SET minute = date_trunc('minute', clock_timestamp())");
    note(NULL, NULL, 0, denials, 1);
    assert_string_equal(t_sql(sql, "SELECT sum(denials) FROM holdfast.denial WHERE reason = 'SCOPE'"), "8");
    /* They go when nobody has to keep them any more. */
    t_sql(sql, "UPDATE holdfast.denial SET minute = minute - interval '31 days'");
    t_sql(sql, "SELECT holdfast.sweep(1000)");
    list_denials(0, 10);
    assert_string_equal(seen, "");
}

/* A row that is being changed is passed over, not waited for. */
static void noting_waits_for_nobody(void **state)
{
    static const char *const used[] = {"k1", "k2"};
    static const int64_t ago[] = {0, 0};
    (void)state;
    create("k1", "1", NULL, admin, 1);
    create("k2", "2", NULL, admin, 1);
    PGconn *other = t_connect(dsn);
    t_sql(other, "BEGIN");
    t_sql(other, "SELECT FROM holdfast.principal WHERE id = 'k1' FOR UPDATE");
    note(used, ago, 2, NULL, 0);
    PQfinish(other);
    assert_string_equal(t_sql(sql, "SELECT string_agg(id, '') FROM holdfast.principal WHERE last_used_at IS NOT NULL"), "k2");
}

/* ---- SQL roles ---- */

static void look_roles(struct st_item *item)
{
    const struct st_sql_roles_told *told = &item->out.sql_roles;
    seen[0] = 0;
    for (size_t i = 0; i < told->n; i++)
        add("%s ", told->rows[i]);
    if (told->more)
        add("…");
    if (told->was_mapped)
        add("was mapped");
    if (told->message)
        add("%s", told->message);
}

static enum st_outcome sql_role(enum st_kind kind, const char *ns, const char *name)
{
    struct work w;
    prepare(&w, kind, "")->ns = ns;
    w.item.resource = NULL;
    w.item.in.sql_roles = (struct st_sql_roles){.role = name, .actor = "me", .max = 10};
    w.look = look_roles;
    return call(&w);
}

static void sql_roles_are_mapped(void **state)
{
    (void)state;
    const char *name = t_sql(sql, "SELECT 'map_' || substr(md5(current_database()), 1, 12)");
    t_sql(sql, "CREATE ROLE %s NOLOGIN", name);
    assert_int_equal(sql_role(ST_MAP_ROLE, "nowhere", name), ST_NO_SUCH_NAMESPACE);
    assert_int_equal(sql_role(ST_MAP_ROLE, "default", "there_is_none"), ST_OP_BAD_ACTION);
    assert_string_equal(seen, "an SQL role that exists");
    assert_int_equal(sql_role(ST_MAP_ROLE, "default", name), ST_FOUND);
    assert_int_equal(sql_role(ST_MAP_ROLE, "default", name), ST_FOUND);
    assert_int_equal(sql_role(ST_LIST_ROLES, "default", NULL), ST_FOUND);
    assert_string_equal(seen, t_printf("%s ", name));
    assert_string_equal(t_sql(sql, "SELECT pg_has_role('%s', 'holdfast_user', 'MEMBER')", name), "t");
    assert_int_equal(sql_role(ST_UNMAP_ROLE, "default", name), ST_FOUND);
    assert_string_equal(seen, "was mapped");
    assert_int_equal(sql_role(ST_UNMAP_ROLE, "default", name), ST_FOUND);
    assert_string_equal(seen, "");
    assert_int_equal(sql_role(ST_LIST_ROLES, "nowhere", NULL), ST_NO_SUCH_NAMESPACE);
    assert_string_equal(t_sql(sql, "SELECT string_agg(detail, ', ' ORDER BY id) FROM holdfast.audit WHERE kind = 'role'"),
                        t_printf("mapped SQL role \"%s\", unmapped SQL role \"%s\"", name, name));
    t_sql(sql, "DROP ROLE %s", name);
}

/* ---- the console ---- */

static void the_first_key_is_made_on_the_console(void **state)
{
    struct st_problem problem;
    struct st_bytes secret = {hash, sizeof(hash)};
    (void)state;
    assert_true(st_create_admin_key(dsn, "id1", "root", secret, &problem));
    assert_string_equal(changes("", 0, 10), "id1 live key 4:::");
    assert_string_equal(t_sql(sql, "SELECT secret_hash = '\\x010203' || decode(repeat('00', 29), 'hex') FROM holdfast.principal"),
                        "t");
    assert_false(st_create_admin_key(dsn, "id2", "root", secret, &problem));
    assert_non_null(strstr(problem.text, "there is a key named \"root\" already"));
    assert_false(st_create_admin_key("host=/nowhere", "id3", "x", secret, &problem));
    assert_string_not_equal(problem.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(they_are_made_changed_and_revoked),
        STORE_TEST(the_audit_tells_what_was_done_in_each_namespace),
        STORE_TEST(they_are_listed_by_pages),
        STORE_TEST(servers_are_told_what_changed),
        STORE_TEST(versions_are_in_the_order_of_commits),
        STORE_TEST(use_and_denials_are_noted),
        STORE_TEST(noting_waits_for_nobody),
        STORE_TEST(sql_roles_are_mapped),
        STORE_TEST(the_first_key_is_made_on_the_console),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

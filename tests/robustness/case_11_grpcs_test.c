/*
 * case_11_grpcs_test.c - replies lost, requests late (case_11_repeats_test.c), over gRPC and TLS, where the network knows bytes
 * only.
 *
 * The library lives through each fault at each of Acquire, Write, Renew, Release and Break, by its own repeats on the next
 * connection: the request is lost, wholly or half-way; it comes after the calls that followed, the next holder's included; the
 * reply is lost; either comes so late that the call was repeated meanwhile. Wanted: the same token, one step of the version a
 * write, a later one never undone, the next holder's lease untouched. What went wrong with a connection never looks like an answer.
 */
#include "harness/served.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "harness/certs.h"
#include "robustness/bytes.h"
#include "robustness/need.h"
#include "robustness/oracle.h"

enum {
    TTL_MS = 60000,
    LATER_MS = 3000, /* a server that says nothing for 2.5 s is given up, and the call repeated (mux.h) */
    STRIKES = 5
};

static const char *ca;

static int setup(void **state)
{
    const char *dir = t_tmpdir();
    (void)state;
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "IP:127.0.0.1"});
    ca = t_printf("%s/ca.pem", dir);
    server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", "--tls-cert", t_printf("%s/server.pem", dir),
                            "--tls-key", t_printf("%s/server.key", dir), NULL);
    conn = t_connect(server->dsn);
    oracle_audit_writes(conn, "default");
    t_keep();
    return 0;
}

struct life {
    const char *name;
    enum bytes_way way;
    enum bytes_fault fault;
    int ms;
    pthread_t thread;
    struct bytes *net;
    hf_client *client, *direct;
    char trouble[512];
};

static void strike(struct life *life)
{
    bytes_strike(life->net, life->way, life->fault, life->ms);
}

static void *live(void *arg)
{
    struct life *life = arg;
    const hf_acquire_options options = {.resource = life->name, .ttl_ms = TTL_MS};
    hf_lease *lease = NULL, *second = NULL;
    hf_error error = {0};
    hf_write_result written;
    hf_break_result broken;
    hf_value value = {0};
    int64_t token = 0;

    NEED(life->trouble, error, hf_read(life->client, life->name, &value, &error) == HF_NOT_FOUND); /* it is connected */
    strike(life);
    NEED(life->trouble, error, hf_acquire(life->client, &options, &lease, NULL, &error) == HF_OK);
    token = hf_lease_token(lease);
    /* More than 1 if the server heard that the caller was gone: a grant that nobody knows of is given back. */
    NEED(life->trouble, error, token >= 1);
    bytes_release(life->net); /* what is late: the lease lives, and is the same */
    strike(life);
    NEED(life->trouble, error, hf_write(lease, NULL, "one", 3, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 1);
    NEED(life->trouble, error, hf_write(lease, NULL, "two", 3, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 2);
    bytes_release(life->net); /* late: behind the second write */
    strike(life);
    NEED(life->trouble, error, hf_renew_now(lease, &error) == HF_OK);
    strike(life);
    NEED(life->trouble, error, hf_release(lease, &error) == HF_OK);
    NEED(life->trouble, error, hf_acquire(life->direct, &options, &second, NULL, &error) == HF_OK);
    NEED(life->trouble, error, hf_lease_token(second) > token);
    token = hf_lease_token(second);
    bytes_release(life->net); /* late: the next holder has it */
    NEED(life->trouble, error, hf_renew_now(second, &error) == HF_OK);
    NEED(life->trouble, error, hf_write(second, NULL, "three", 5, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 3);
    strike(life);
    NEED(life->trouble, error, hf_break(life->client, life->name, token, NULL, "test", &broken, &error) == HF_OK);
    NEED(life->trouble, error, broken.outcome == HF_BREAK_DONE && broken.fence == token + 1);
    NEED(life->trouble, error, hf_renew_now(second, &error) == HF_LOST);
    bytes_release(life->net);
    NEED(life->trouble, error, hf_read(life->client, life->name, &value, &error) == HF_OK);
    NEED(life->trouble, error, value.version == 3 && !strcmp(value.data, "three"));
    NEED(life->trouble, error, bytes_struck(life->net) == STRIKES);
out:
    hf_value_release(&value);
    hf_lease_free(lease);
    hf_lease_free(second);
    return NULL;
}

static void the_library_lives_through_all_of_it(void **state)
{
    struct life lives[] = {{"request cut", BYTES_UP, BYTES_CUT, 0},   {"request half", BYTES_UP, BYTES_HALF, 0},
                           {"request late", BYTES_UP, BYTES_LATE, 0}, {"request delayed", BYTES_UP, BYTES_DELAY, LATER_MS},
                           {"reply cut", BYTES_DOWN, BYTES_CUT, 300}, {"reply cut at once", BYTES_DOWN, BYTES_CUT, 0},
                           {"reply half", BYTES_DOWN, BYTES_HALF, 0}, {"reply delayed", BYTES_DOWN, BYTES_DELAY, LATER_MS}};
    const size_t n = sizeof(lives) / sizeof(lives[0]);
    const hf_client_options direct_options = {.servers = t_printf("grpcs://%s", server->http), .tls_ca_file = ca};
    hf_client *direct = NULL;
    hf_error error;
    (void)state;
    assert_int_equal(hf_client_new(&direct_options, &direct, &error), HF_OK); /* the next holder's */
    for (size_t i = 0; i < n; i++) {
        struct life *life = &lives[i];
        life->net = bytes_start(server->http);
        life->direct = direct;
        const hf_client_options options = {.servers = t_printf("grpcs://%s", bytes_address(life->net)), .tls_ca_file = ca};
        assert_int_equal(hf_client_new(&options, &life->client, &error), HF_OK);
        assert_int_equal(pthread_create(&life->thread, NULL, live, life), 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(lives[i].thread, NULL);
        hf_client_free(lives[i].client);
        bytes_stop(lives[i].net);
    }
    hf_client_free(direct);
    for (size_t i = 0; i < n; i++) {
        if (lives[i].trouble[0])
            fail_msg("%s: %s", lives[i].name, lives[i].trouble);
        assert_int_equal(t_sql_int(conn, "SELECT version FROM holdfast.resource_value WHERE resource = '%s'", lives[i].name), 3);
    }
    assert_true(oracle_check(conn, "default", NULL) >= 7 * n); /* grants, writes, release, break */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_lives_through_all_of_it),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}

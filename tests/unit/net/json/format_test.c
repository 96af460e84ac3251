/*
 * format_test.c - JSON against Python's google.protobuf.json_format, both ways: json_format.py makes random messages of all types
 * that the services take and give; what it writes is read here and what is read here is written again, and it compares both with
 * what they were.
 *
 * HOLDFAST_JSON_MESSAGES=N makes N messages instead of 5,000.
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "google/rpc/error_details.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"
#include "net/json_read.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"

static const ProtobufCServiceDescriptor *const services[] = {
    &holdfast__v1__lease_service__descriptor,
    &holdfast__v1__resource_service__descriptor,
    &holdfast__v1__operation_service__descriptor,
    &holdfast__v1__admin_service__descriptor,
    &grpc__health__v1__health__descriptor,
    &grpc__reflection__v1__server_reflection__descriptor,
    &grpc__reflection__v1alpha__server_reflection__descriptor,
};
static const ProtobufCMessageDescriptor *const more[] = {
    &google__rpc__error_info__descriptor,
    &google__rpc__retry_info__descriptor,
    &google__rpc__bad_request__descriptor,
};

static const ProtobufCMessageDescriptor *type_named(const char *name)
{
    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        for (unsigned m = 0; m < services[s]->n_methods; m++) {
            if (!strcmp(services[s]->methods[m].input->name, name))
                return services[s]->methods[m].input;
            if (!strcmp(services[s]->methods[m].output->name, name))
                return services[s]->methods[m].output;
        }
    }
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        if (!strcmp(more[i]->name, name))
            return more[i];
    fail_msg("no type %s", name);
    return NULL;
}

static void convert(const ProtobufCMessageDescriptor *type, const char *text, FILE *out)
{
    struct hp_buf wire = HP_BUF_INIT, again = HP_BUF_INIT;
    struct hp_arena *arena = hp_arena_new(16 << 20);
    struct hp_status status;
    if (!net_json_read(type, text, strlen(text), &wire, &status))
        fail_msg("%s: %s\n%s", type->name, text, status.message);
    const ProtobufCMessage *message = hp_unpack(arena, type, wire.data, wire.len, &status);
    if (!message)
        fail_msg("%s: %s\n%s", type->name, text, status.message);
    hp_json_write(&again, message, wire.len % 2 ? HP_JSON_DEFAULTS : 0);
    assert_false(again.failed);
    for (size_t i = 0; i < wire.len; i++)
        fprintf(out, "%02x", wire.data[i]);
    fprintf(out, "\t%s\n", (const char *)again.data);
    hp_buf_release(&wire);
    hp_buf_release(&again);
    hp_arena_free(arena);
}

static void python(const char *const *args)
{
    const char *argv[8] = {"/usr/bin/python3", T_SOURCE_DIR "/tests/unit/net/json/json_format.py"};
    for (size_t i = 0; args[i]; i++)
        argv[2 + i] = args[i];
    /* Not what may have been installed beside Debian's. */
    const char *const env[] = {"PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE=1", "LD_PRELOAD", NULL};
    struct t_result result = t_run(argv, &(struct t_spawn_opts){.env = env}, 3 * T_PATIENCE_MS);
    if (result.status != 0)
        fail_msg("%s\n%s%s", args[0], result.out, result.err);
    printf("%s", result.out);
}

static void json_is_that_of_json_format(void **state)
{
    const char *count = getenv("HOLDFAST_JSON_MESSAGES"), *descriptors = T_BUILD_DIR "/proto/descriptors.pb";
    const char *dir = t_tmpdir(), *made = t_printf("%s/made", dir), *back = t_printf("%s/back", dir);
    char *line = NULL;
    size_t size = 0, n = 0;
    (void)state;
    python((const char *const[]){"make", descriptors, t_printf("%" PRIu64, t_seed()), count ? count : "5000", made, NULL});
    FILE *in = fopen(made, "r"), *out = fopen(back, "w");
    assert_true(in && out);
    for (; getline(&line, &size, in) > 0; n++) {
        char *wire = strchr(line, '\t'), *text = wire ? strchr(wire + 1, '\t') : NULL;
        assert_non_null(text);
        *wire = '\0';
        text[strlen(text) - 1] = '\0';
        convert(type_named(line), text + 1, out);
    }
    assert_int_equal(n, atoi(count ? count : "5000"));
    free(line);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    python((const char *const[]){"check", descriptors, made, back, NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(json_is_that_of_json_format, t_teardown),
    };
    return cmocka_run_group_tests_name("net/json/format", tests, NULL, NULL);
}

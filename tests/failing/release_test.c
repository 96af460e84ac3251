/*
 * release_test.c - everything fails once in turn, for a Release. See drive.h.
 */
#include "failing/drive.h"

static void send(struct rooms_call *call, const char *resource)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items = &item;
    item.resource = DRIVE_STR(resource);
    item.token = 1;
    request.namespace_ = DRIVE_STR("default");
    request.n_items = 1;
    request.items = &items;
    rooms_send(call, DRIVE_LEASE "Release", &request);
}

static const Holdfast__V1__ItemError *error(const void *response)
{
    const Holdfast__V1__ReleaseResponse *it = response;
    assert_int_equal(it->n_items, 1);
    return it->items[0]->error;
}

static bool is_done(const char *resource)
{
    return t_sql_int(rooms_sql,
                     "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND token = 1 AND ended = 3 AND deadline = "
                     "'-infinity'",
                     resource) == 1;
}

/* However often it was sent: it was held until then, and released once. */
static void check(const char *resource, const void *response)
{
    const Holdfast__V1__ReleaseResponse *it = response;
    assert_true(it->items[0]->was_held);
    assert_true(is_done(resource));
    assert_int_equal(
        t_sql_int(rooms_sql, "SELECT count(*) FROM holdfast.audit WHERE resource = '%s' AND kind = 'release'", resource), 1);
}

static const struct drive release = {.name = "release",
                                     .response = &holdfast__v1__release_response__descriptor,
                                     .prepare = drive_prepare_mine,
                                     .send = send,
                                     .error = error,
                                     .check = check,
                                     .is_done = is_done};

DRIVE_MAIN(release)

/*
 * renew_test.c - everything fails once in turn, for a Renew. See drive.h.
 */
#include "failing/drive.h"

enum { TTL_MS = 120000 }; /* drive_lease gives half of it */

static void send(struct rooms_call *call, const char *resource)
{
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items = &item;
    item.resource = DRIVE_STR(resource);
    item.token = 1;
    request.namespace_ = DRIVE_STR("default");
    request.n_items = 1;
    request.items = &items;
    request.ttl_ms = TTL_MS;
    rooms_send(call, DRIVE_LEASE "Renew", &request);
}

static const Holdfast__V1__ItemError *error(const void *response)
{
    const Holdfast__V1__RenewResponse *it = response;
    assert_int_equal(it->n_items, 1);
    return it->items[0]->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR ? it->items[0]->error : NULL;
}

static bool is_done(const char *resource)
{
    return t_sql_int(rooms_sql,
                     "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND token = 1 AND holder = 'me' AND deadline > "
                     "clock_timestamp() + interval '90 s'",
                     resource) == 1;
}

static void check(const char *resource, const void *response)
{
    const Holdfast__V1__RenewResponse *it = response;
    assert_int_equal(it->items[0]->outcome_case, HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED);
    assert_in_range(it->items[0]->renewed->ttl_ms, TTL_MS / 2, TTL_MS);
    assert_true(is_done(resource));
}

static const struct drive renew = {.name = "renew",
                                   .response = &holdfast__v1__renew_response__descriptor,
                                   .prepare = drive_prepare_mine,
                                   .send = send,
                                   .error = error,
                                   .check = check,
                                   .is_done = is_done};

DRIVE_MAIN(renew)

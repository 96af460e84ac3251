/*
 * calls.h - the methods of holdfast.v1 as functions, for tests that talk to a server by rpc.h. Namespace `default`, holder
 * `h`, unless a request says otherwise.
 *
 * `status` NULL: the call must succeed, or the test fails; otherwise NULL is returned with the error in it.
 */
#ifndef HOLDFAST_TESTS_CALLS_H
#define HOLDFAST_TESTS_CALLS_H

#include "harness/rpc.h"

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"

#define C_LEASE     "/holdfast.v1.LeaseService/"
#define C_RESOURCE  "/holdfast.v1.ResourceService/"
#define C_OPERATION "/holdfast.v1.OperationService/"
#define C_ADMIN     "/holdfast.v1.AdminService/"

/* A string literal or argument as a message's field. */
#define C_STR(text) ((char *)(uintptr_t)(text))

typedef struct hp_status c_status;

/* Any request of a method; the response's type is void here. */
void *c_call(struct t_rpc *rpc, const char *method, const void *request, c_status *status);

Holdfast__V1__AcquireResponse *c_acquire_with(struct t_rpc *rpc, const Holdfast__V1__AcquireRequest *request, c_status *status);
/* One resource, 60 s unless ttl_ms is given; request_id may be NULL. */
Holdfast__V1__AcquireResponse *c_acquire(struct t_rpc *rpc, const char *resource, int64_t ttl_ms, const char *request_id);
/* The token of a grant that must be given. */
int64_t c_grant(struct t_rpc *rpc, const char *resource, int64_t ttl_ms);

/* Many items: resources and tokens, n of each. */
Holdfast__V1__RenewResponse *c_renew(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                     int64_t ttl_ms, c_status *status);
Holdfast__V1__ReleaseResponse *c_release(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                         c_status *status);
Holdfast__V1__CheckResponse *c_check(struct t_rpc *rpc, const char *const *resources, const int64_t *tokens, size_t n,
                                     c_status *status);
/* One item. */
Holdfast__V1__RenewResult *c_renew_one(struct t_rpc *rpc, const char *resource, int64_t token, int64_t ttl_ms);
bool c_release_one(struct t_rpc *rpc, const char *resource, int64_t token);
Holdfast__V1__CheckResult *c_check_one(struct t_rpc *rpc, const char *resource, int64_t token);
/* The reason for which a renewal finds the lease lost; 0 if it was renewed. */
int c_lost(struct t_rpc *rpc, const char *resource, int64_t token);

Holdfast__V1__Lease *c_get(struct t_rpc *rpc, const char *resource, c_status *status);
Holdfast__V1__BreakResponse *c_break(struct t_rpc *rpc, const char *resource, int64_t token, c_status *status);

/* `expected` < 0: none. */
Holdfast__V1__WriteResponse *c_write(struct t_rpc *rpc, const char *resource, int64_t token, int64_t seq, const char *value,
                                     int64_t expected, c_status *status);
Holdfast__V1__DeleteResponse *c_delete(struct t_rpc *rpc, const char *resource, int64_t token, int64_t seq, int64_t expected,
                                       c_status *status);
Holdfast__V1__ReadResponse *c_read(struct t_rpc *rpc, const char *resource, c_status *status);
/* The value that a resource has, as text; "(none)" if none. */
const char *c_value(struct t_rpc *rpc, const char *resource);

Holdfast__V1__StatsResponse *c_stats(struct t_rpc *rpc);

/* The status is this code and reason, or the test fails and says what it was. */
void c_assert_status(const c_status *status, enum hp_code code, enum hp_reason reason, const char *what);

#endif

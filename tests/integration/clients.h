/*
 * clients.h - clients and leases of the library, for tests in which having them goes without saying.
 */
#ifndef HOLDFAST_TESTS_INTEGRATION_CLIENTS_H
#define HOLDFAST_TESTS_INTEGRATION_CLIENTS_H

#include <holdfast/holdfast.h>

/* Each fails the test if it is refused. */
hf_client *cl_new(const hf_client_options *options);
hf_lease *cl_acquire(hf_client *client, const char *resource, int64_t ttl_ms);

#endif

/*
 * clients.c - see clients.h.
 */
#include "integration/clients.h"

#include "harness/harness.h"

hf_client *cl_new(const hf_client_options *options)
{
    hf_client *client = NULL;
    hf_error error;
    if (hf_client_new(options, &client, &error) != HF_OK)
        fail_msg("%s", error.message);
    return client;
}

hf_lease *cl_acquire(hf_client *client, const char *resource, int64_t ttl_ms)
{
    const hf_acquire_options options = {.resource = resource, .ttl_ms = ttl_ms};
    hf_lease *lease = NULL;
    hf_error error;
    if (hf_acquire(client, &options, &lease, NULL, &error) != HF_OK)
        fail_msg("acquire %s: %s %s", resource, error.reason, error.message);
    return lease;
}

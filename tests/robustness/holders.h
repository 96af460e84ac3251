/*
 * holders.h - very many leases of one client, acquired side by side.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_HOLDERS_H
#define HOLDFAST_TESTS_ROBUSTNESS_HOLDERS_H

#include <holdfast/holdfast.h>
#include <stddef.h>

/* "PREFIX/NUMBER" in `name`. */
void holders_name(char name[64], const char *prefix, size_t number);
/* leases[i] is the lease of PREFIX/(first + i), for all n, with these options but for the resource: acquired by 64 threads, each
 * trying once. NULL if that failed; returns how many are not. `why` tells the last failure. May be called in any process that is
 * no child of one with a client. */
size_t holders_acquire(hf_client *client, const char *prefix, size_t first, size_t n, const hf_acquire_options *options,
                       hf_lease **leases, char why[512]);

#endif

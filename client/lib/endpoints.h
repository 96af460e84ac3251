/*
 * endpoints.h - which of several servers is asked.
 *
 * All goes to one of them until it fails. An endpoint that failed (no connection, a broken one, no answer, or the word that it
 * cannot serve) is bad for a time, which doubles with each failure up to 15 s; the next one that isn't bad takes its place and
 * keeps it. So a dead endpoint costs one try, and none while another serves. If all are bad, the one whose time is up first is
 * asked: nothing ever waits because endpoints are bad. Pure: time comes in as an argument. The caller holds the client's lock.
 */
#ifndef HOLDFAST_CLIENT_ENDPOINTS_H
#define HOLDFAST_CLIENT_ENDPOINTS_H

#include "client/lib/ports.h"

enum { HFI_BAD_MIN_MS = 500, HFI_BAD_MAX_MS = 15000 };

struct hfi_endpoint {
    int64_t heard_ms;     /* when anything came from there last */
    int64_t bad_until_ms; /* not chosen before, if another will do */
    unsigned failures;    /* in a row */
};

struct hfi_endpoints {
    unsigned present; /* the one that was chosen last */
    struct hfi_endpoint all[HFI_ENDPOINTS_MAX];
};

/* It did not serve well: it is bad for a while. What fails while it is bad belongs to the same accident. */
void hfi_endpoint_failed(struct hfi_endpoints *endpoints, unsigned endpoint, int64_t now_ms);
/* Something came from there: it isn't bad. */
void hfi_endpoint_heard(struct hfi_endpoints *endpoints, unsigned endpoint, int64_t now_ms);
/* Of the first `n`: the present one, or the next in turn that isn't bad, or the one whose bad time is up first. */
unsigned hfi_endpoint_choose(struct hfi_endpoints *endpoints, unsigned n, int64_t now_ms);

#endif

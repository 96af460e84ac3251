/* endpoints.c - see endpoints.h. */
#include "client/lib/endpoints.h"

void hfi_endpoint_failed(struct hfi_endpoints *endpoints, unsigned endpoint, int64_t now_ms)
{
    struct hfi_endpoint *e = &endpoints->all[endpoint];
    int64_t bad_ms = HFI_BAD_MIN_MS;

    if (e->bad_until_ms > now_ms)
        return;
    for (unsigned i = 0; i < e->failures && bad_ms < HFI_BAD_MAX_MS; i++)
        bad_ms *= 2;
    e->failures++;
    e->bad_until_ms = now_ms + (bad_ms < HFI_BAD_MAX_MS ? bad_ms : HFI_BAD_MAX_MS);
}

void hfi_endpoint_heard(struct hfi_endpoints *endpoints, unsigned endpoint, int64_t now_ms)
{
    struct hfi_endpoint *e = &endpoints->all[endpoint];

    e->heard_ms = now_ms;
    e->bad_until_ms = 0;
    e->failures = 0;
}

unsigned hfi_endpoint_choose(struct hfi_endpoints *endpoints, unsigned n, int64_t now_ms)
{
    const struct hfi_endpoint *all = endpoints->all;
    unsigned best = (endpoints->present + 1) % n;

    for (unsigned i = 0; i < n; i++) {
        const unsigned e = (endpoints->present + i) % n;
        if (all[e].bad_until_ms <= now_ms) {
            best = e;
            break;
        }
        if (all[e].bad_until_ms < all[best].bad_until_ms)
            best = e;
    }
    endpoints->present = best;
    return best;
}

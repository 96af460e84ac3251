/*
 * random.c - see random.h.
 */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* splitmix64: spreads a small seed over the whole state, which must not be all zero. */
static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void hb_random_seed(struct hb_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->s[i] = splitmix(&seed);
}

bool hb_random_bytes(void *out, size_t len)
{
    unsigned char *at = out;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

void hb_random_seed_os(struct hb_random *random)
{
    uint64_t seed;
    if (!hb_random_bytes(&seed, sizeof(seed))) {
        /* Only jitter depends on it: the clock and the pid differ between processes well enough. */
        struct timespec ts = {0};
        clock_gettime(CLOCK_MONOTONIC, &ts);
        seed = (uint64_t)ts.tv_nsec ^ ((uint64_t)ts.tv_sec << 32) ^ ((uint64_t)getpid() << 16);
    }
    hb_random_seed(random, seed);
}

uint64_t hb_random_u64(struct hb_random *random)
{
    uint64_t *s = random->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t hb_random_below(struct hb_random *random, uint64_t bound)
{
    if (bound == 0)
        return 0;
    /* Values under `floor` would make small results likelier; they are drawn again (about never). */
    uint64_t floor = -bound % bound, x;
    do {
        x = hb_random_u64(random);
    } while (x < floor);
    return x % bound;
}

int64_t hb_jitter_ms(struct hb_random *random, int64_t base_ms, int64_t cap_ms, unsigned attempt)
{
    int64_t most = base_ms;
    for (unsigned i = 0; i < attempt && most < cap_ms; i++)
        most = most > cap_ms / 2 ? cap_ms : most * 2;
    if (most > cap_ms)
        most = cap_ms;
    if (most <= 0)
        return 0;
    return (int64_t)hb_random_below(random, (uint64_t)most + 1);
}

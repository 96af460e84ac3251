/*
 * http_attack.c - see http_attack.h: sieges. The attacks are http_attacks1.c's and http_attacks2.c's.
 */
#include "robustness/http_attack.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const struct attack *find(const struct attack *attacks, const char *name)
{
    for (; attacks->name; attacks++)
        if (!strcmp(attacks->name, name))
            return attacks;
    return NULL;
}

const struct attack *attack_named(const char *name)
{
    const struct attack *attack = find(attacks_http1, name);
    return attack ? attack : find(attacks_http2, name);
}

bool siege_over(struct siege *siege)
{
    return atomic_load(&siege->over);
}

void siege_hold(struct siege *siege)
{
    while (!siege_over(siege))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static bool is_right(const struct attack *attack, const struct raw_said *said)
{
    switch (attack->end) {
    case ATTACK_GOAWAY:
        return said->goaway == attack->code;
    case ATTACK_STATUS:
        return said->status == attack->code;
    case ATTACK_RST:
        return said->rst && said->rst_code == attack->code;
    case ATTACK_CLOSED:
        return said->closed;
    default:
        return true;
    }
}

static void tell_wrong(struct siege *siege, const char *what, const struct raw_said *said)
{
    pthread_mutex_lock(&siege->mutex);
    if (!siege->wrong[0])
        snprintf(siege->wrong, sizeof(siege->wrong), "%s: status %d, GOAWAY %d, %d x RST_STREAM %d%s%s, %lld bytes", what,
                 said->status, said->goaway, said->rst, said->rst_code, said->closed ? ", closed" : "",
                 said->reset ? " by a reset" : "", (long long)said->bytes);
    pthread_mutex_unlock(&siege->mutex);
}

static void play(struct siege *siege, struct raw_said *said)
{
    memset(said, 0, sizeof(*said));
    said->goaway = -1;
    enum round round = siege->attack->round(siege, said);
    atomic_fetch_add(&siege->rounds, 1);
    if (round == ROUND_FAILED)
        tell_wrong(siege, "not played", said);
    else if (round == ROUND_PLAYED && is_right(siege->attack, said))
        atomic_fetch_add(&siege->right, 1);
    else if (round == ROUND_CUT || said->reset)
        atomic_fetch_add(&siege->broken, 1);
    else
        tell_wrong(siege, "ended otherwise", said);
}

static cpu_set_t their_core;
static bool apart;

void attack_from_afar(void)
{
    cpu_set_t all;
    int last = CPU_SETSIZE - 1;
    if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
        return;
    while (!CPU_ISSET(last, &all))
        last--;
    CPU_ZERO(&their_core);
    CPU_SET(last, &their_core);
    CPU_CLR(last, &all);
    apart = !sched_setaffinity(0, sizeof(all), &all);
}

static void *attacker(void *arg)
{
    struct siege *siege = arg;
    struct raw_said *said = malloc(sizeof(*said));
    if (apart)
        sched_setaffinity(0, sizeof(their_core), &their_core);
    else
        setpriority(PRIO_PROCESS, (id_t)gettid(), 19); /* of this thread, on Linux */
    do
        play(siege, said);
    while (!siege_over(siege));
    free(said);
    return NULL;
}

void siege_start(struct siege *siege, const struct attack *attack, int port)
{
    memset(siege, 0, sizeof(*siege));
    siege->attack = attack;
    siege->port = port;
    pthread_mutex_init(&siege->mutex, NULL);
    for (int i = 0; i < SIEGE_THREADS; i++)
        if (pthread_create(&siege->threads[i], NULL, attacker, siege))
            abort();
}

void siege_stop(struct siege *siege)
{
    atomic_store(&siege->over, true);
    for (int i = 0; i < SIEGE_THREADS; i++)
        pthread_join(siege->threads[i], NULL);
}

/*
 * hold.c - a client of libholdfast that holds many leases, for the memory that they take in it and in the server.
 *
 *   hold SERVER LEASES
 *
 * Prints "bytes a lease: N" of its own resident memory, and stays until its standard input ends.
 */
#include <holdfast/holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 32, TTL_MS = 3600 * 1000 };

static hf_client *client;
static hf_lease **leases;
static size_t n_leases;
static atomic_size_t next;

static long resident_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

static void *acquire(void *arg)
{
    size_t i;

    (void)arg;
    while ((i = atomic_fetch_add(&next, 1)) < n_leases) {
        char name[32];
        hf_error error;
        const hf_acquire_options options = {.resource = name, .ttl_ms = TTL_MS};
        snprintf(name, sizeof(name), "hold/%08zu", i);
        if (hf_acquire(client, &options, &leases[i], NULL, &error) != HF_OK) {
            fprintf(stderr, "hold: %s: %s\n", name, error.message);
            exit(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    hf_client_options options = {0};
    hf_error error;
    long before;

    if (argc != 3)
        return 2;
    options.servers = argv[1];
    n_leases = strtoul(argv[2], NULL, 10) + THREADS;
    leases = calloc(n_leases, sizeof(*leases));
    if (!leases || hf_client_new(&options, &client, &error) != HF_OK)
        return 1;
    /* One each before it is counted: threads have been made, and have their memory. */
    for (int round = 0; round < 2; round++) {
        const size_t all = n_leases;
        n_leases = round ? all : THREADS;
        before = round ? resident_kib() : 0;
        atomic_store(&next, round ? THREADS : 0);
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, acquire, NULL) != 0)
                return 1;
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        n_leases = all;
    }
    printf("bytes a lease: %ld\n", (resident_kib() - before) * 1024 / (long)(n_leases - THREADS));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

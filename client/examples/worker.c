/*
 * worker.c - a first worker: work that must be done by one process at a time, and whose result must not be overwritten by one
 * that was paused and replaced.
 *
 *     worker RESOURCE [STEPS]        (environment: HOLDFAST_SERVER, HOLDFAST_NAMESPACE, HOLDFAST_KEY,
 *                                 HOLDFAST_TLS_CA)
 *
 * It takes the lease of RESOURCE, does STEPS small steps (3 unless told), and after each one stores the count as the
 * resource's value, under the lease's token. The library renews the lease in the background. When the lease is lost the worker
 * stops: somebody else may be at it already.
 *
 * Exit: 0 done; 1 somebody else has it, or the lease was lost; 2 anything else.
 */
#include <holdfast/holdfast.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_bool stop;

/* Runs in a thread of the library's: only tell the worker. */
static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)arg;
    fprintf(stderr, "lease of %s lost: %s\n", hf_lease_resource(lease, 0), reason);
    atomic_store(&stop, true);
}

static void do_one_step(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static int work(hf_client *client, hf_lease *lease, long steps)
{
    hf_error error;
    hf_value value;
    long done = 0;

    /* What the worker before us left. */
    if (hf_read(client, hf_lease_resource(lease, 0), &value, &error) != HF_OK) {
        fprintf(stderr, "read: %s\n", error.message);
        return 2;
    }
    if (value.exists)
        done = strtol(value.data, NULL, 10);
    hf_value_release(&value);

    for (long i = 0; i < steps && !atomic_load(&stop); i++) {
        char text[32];
        hf_write_result result;
        do_one_step();
        int len = snprintf(text, sizeof(text), "%ld", ++done);
        switch (hf_write(lease, NULL, text, (size_t)len, &result, &error)) {
        case HF_OK:
            printf("wrote %s as version %lld\n", text, (long long)result.version);
            break;
        case HF_LOST: /* nothing was written, and nothing will be */
            fprintf(stderr, "write refused: %s\n", error.message);
            return 1;
        case HF_UNKNOWN: /* whoever comes next reads what became of it */
        default:
            fprintf(stderr, "write: %s\n", error.message);
            return 2;
        }
    }
    return atomic_load(&stop) ? 1 : 0;
}

int main(int argc, char **argv)
{
    const hf_client_options client_options = {.servers = getenv("HOLDFAST_SERVER"),
                                              .name_space = getenv("HOLDFAST_NAMESPACE"),
                                              .key = getenv("HOLDFAST_KEY"),
                                              .tls_ca_file = getenv("HOLDFAST_TLS_CA"),
                                              .on_loss = on_loss};
    hf_acquire_options options = {.ttl_ms = 5000, .wait_ms = 10000};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    int status;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: worker RESOURCE [STEPS]\n");
        return 2;
    }
    options.resource = argv[1];
    if (hf_client_new(&client_options, &client, &error) != HF_OK) {
        fprintf(stderr, "client: %s\n", error.message);
        return 2;
    }
    switch (hf_acquire(client, &options, &lease, NULL, &error)) {
    case HF_OK:
        printf("holding %s with token %lld\n", argv[1], (long long)hf_lease_token(lease));
        status = work(client, lease, argc == 3 ? strtol(argv[2], NULL, 10) : 3);
        if (status == 0 && hf_release(lease, &error) == HF_OK)
            printf("released\n");
        hf_lease_free(lease);
        break;
    case HF_HELD:
        fprintf(stderr, "%s\n", error.message);
        status = 1;
        break;
    default:
        fprintf(stderr, "acquire: %s\n", error.message);
        status = 2;
    }
    hf_client_free(client);
    return status;
}

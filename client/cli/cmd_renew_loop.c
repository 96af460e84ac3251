/*
 * cmd_renew_loop.c - renew --loop: keeps a lease that somebody else acquired, such as a script, until it is lost or a signal comes.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/cli/items.h"
#include "client/cli/signals.h"
#include "holdfast/v1/lease.pb-c.h"

enum { TICK_MIN_MS = 10, TICK_MAX_MS = 1000 };

struct loop {
    struct cli *cli;
    hf_adopt_options options;
    hf_lease *lease;
    hf_result result; /* of hf_adopt */
    hf_error error;
    int adopted_fd, loss_fd; /* eventfds */
    _Atomic(const char *) loss;
    int64_t told_ms; /* the deadline of the last renewal that was printed */
};

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    struct loop *loop = arg;
    (void)lease;

    atomic_store(&loop->loss, reason);
    eventfd_write(loop->loss_fd, 1);
}

static void *adopt(void *arg)
{
    struct loop *loop = arg;

    loop->result = hf_adopt(loop->cli->client, &loop->options, &loop->lease, &loop->error);
    eventfd_write(loop->adopted_fd, 1);
    return NULL;
}

static void print_json(Holdfast__V1__RenewResult *item)
{
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;

    response.n_items = 1;
    response.items = &item;
    cli_print_json(&response);
    fflush(stdout);
}

/* With --json: a line for each renewal, as from `renew`. */
static void tell_renewed(struct loop *loop)
{
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT;
    Holdfast__V1__Renewed renewed = HOLDFAST__V1__RENEWED__INIT;
    const int64_t deadline_ms = hf_lease_deadline_ms(loop->lease);

    if (!loop->cli->json || deadline_ms == loop->told_ms || !hf_lease_valid(loop->lease))
        return;
    loop->told_ms = deadline_ms;
    renewed.ttl_ms = hf_lease_remaining_ms(loop->lease);
    item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
    item.renewed = &renewed;
    print_json(&item);
}

static int lost(const struct loop *loop, const char *reason)
{
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(&holdfast__v1__lost__reason__descriptor, reason);
    Holdfast__V1__RenewResult item = HOLDFAST__V1__RENEW_RESULT__INIT;
    Holdfast__V1__Lost why = HOLDFAST__V1__LOST__INIT;

    if (loop->cli->json) {
        why.reason =
            value ? (Holdfast__V1__Lost__Reason)value->value : HOLDFAST__V1__LOST__REASON__UNSPECIFIED; /* DEADLINE is ours */
        item.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
        item.lost = &why;
        print_json(&item);
    }
    fprintf(stderr, "holdfast: lease lost: %s\n", reason);
    return CLI_REFUSED;
}

static int tick_ms(const struct loop *loop)
{
    const int64_t ms = loop->options.ttl_ms / 20;

    if (!loop->cli->json)
        return -1;
    return (int)(ms > TICK_MAX_MS ? TICK_MAX_MS : ms < TICK_MIN_MS ? TICK_MIN_MS : ms);
}

static int attend(struct loop *loop, int signal_fd)
{
    for (;;) {
        const char *loss = atomic_load(&loop->loss);
        if (loss)
            return lost(loop, loss);
        tell_renewed(loop);
        if (signals_wait(signal_fd, loop->loss_fd, tick_ms(loop)))
            return CLI_OK;
    }
}

/* The lease is ours to renew, or the program ends: 0 by a signal. */
static int begin(struct loop *loop, int signal_fd)
{
    struct pollfd adopted = {.fd = loop->adopted_fd, .events = POLLIN};
    pthread_t thread;

    errno = pthread_create(&thread, NULL, adopt, loop);
    if (errno)
        return cli_system_error(loop->cli, "renew --loop");
    do {
        if (signals_wait(signal_fd, loop->adopted_fd, -1)) {
            fflush(NULL);
            _exit(CLI_OK); /* the thread may still be asking */
        }
    } while (poll(&adopted, 1, 0) != 1);
    pthread_join(thread, NULL);
    if (loop->result == HF_LOST)
        return lost(loop, loop->error.reason);
    return loop->result == HF_OK ? CLI_OK : cli_hf_error(loop->cli, &loop->error);
}

int cli_renew_loop(struct cli *cli)
{
    struct loop loop = {.cli = cli};
    const int signal_fd = signals_take(); /* before the client makes threads */

    if (!cli_token(cli, 1, &loop.options.token))
        return CLI_USAGE;
    loop.options.resource = cli_word(cli, 0);
    loop.options.ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    if (!loop.options.ttl_ms)
        return cli_usage_error(cli, "--ttl %s: a lease needs some time", cli_text(cli, CLI_TTL));
    loop.options.on_loss = on_loss;
    loop.options.on_loss_arg = &loop;
    loop.adopted_fd = eventfd(0, EFD_CLOEXEC);
    loop.loss_fd = eventfd(0, EFD_CLOEXEC);
    if (signal_fd < 0 || loop.adopted_fd < 0 || loop.loss_fd < 0)
        return cli_system_error(cli, "renew --loop");
    int result = cli_client(cli);
    if (!result)
        result = begin(&loop, signal_fd);
    if (!result)
        result = attend(&loop, signal_fd);
    hf_lease_free(loop.lease);
    return result;
}

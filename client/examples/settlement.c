/*
 * settlement.c - a settlement of a day that pays out once, however often and by whomever it is started.
 *
 *     settlement FOLDER DAY [scheduled|retry|manual]        (environment: HOLDFAST_SERVER, HOLDFAST_NAMESPACE,
 *                                                            HOLDFAST_KEY, HOLDFAST_TLS_CA)
 *
 * It adds up the amounts in FOLDER/DAY, a number of cents a line, and pays the sum out: a line at the end of FOLDER/payouts, which
 * stands for a bank that knows nothing of Holdfast. A scheduler runs it at night, runs it again when it failed, and somebody runs
 * it by hand because the report is missing; all of them at the same time if it must be. The operation "settlement/DAY" makes that
 * one payout and one result.
 *
 * Exit: 0 settled, now or before; 1 not yet: try again; 2 anything else, or a person has to look.
 */
#include <errno.h>
#include <fcntl.h>
#include <holdfast/operation.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETTLED = 0, NOT_YET = 1, TROUBLE = 2 };

static const char *folder, *day;

/* Runs in a thread of the library's. The work finds out by itself before its effect, so there is nothing to do but to tell. */
static void on_loss(hf_operation *operation, const char *reason, void *arg)
{
    (void)arg;
    fprintf(stderr, "attempt %" PRId64 " of %s lost: %s\n", hf_operation_attempt(operation), hf_operation_key(operation), reason);
}

/* The sum, or false: the day's amounts are not there. Nothing outside is touched, so this may be done as often as one likes. */
static bool add_up(int64_t *cents)
{
    char path[1024], line[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, day);
    file = fopen(path, "r");
    if (!file)
        return false;
    *cents = 0;
    while (fgets(line, sizeof(line), file))
        *cents += strtoll(line, NULL, 10);
    fclose(file);
    return true;
}

/* True if it is paid for sure, false if it may or may not be. */
static bool pay_out(hf_operation *operation, int64_t cents)
{
    char path[1024], line[256];
    int fd, len;
    bool paid;

    snprintf(path, sizeof(path), "%s/payouts", folder);
    /* The bank is told who asks, for the day when somebody has to find out. */
    len = snprintf(line, sizeof(line), "%s %" PRId64 " %s\n", day, cents, hf_operation_execution_id(operation));
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    paid = write(fd, line, (size_t)len) == len && fsync(fd) == 0;
    return close(fd) == 0 && paid;
}

static int fail(hf_operation *operation, const char *why)
{
    const hf_failure failure = {.error_class = HF_CLASS_TRANSIENT, .message = why};
    hf_finished finished;
    hf_error error;

    if (hf_operation_fail(operation, &failure, &finished, &error) != HF_OK) {
        fprintf(stderr, "fail: %s\n", error.message);
        return TROUBLE;
    }
    if (finished.state != HF_OPERATION_PENDING) {
        fprintf(stderr, "%s; the retries are used up, a person has to look\n", why);
        return TROUBLE;
    }
    fprintf(stderr, "%s; to be tried again in %" PRId64 " ms\n", why, finished.due_ms);
    return NOT_YET;
}

static int work(hf_operation *operation)
{
    char result[128];
    int64_t cents;
    hf_error error;
    int len;

    if (!add_up(&cents))
        return fail(operation, "the amounts are not there yet");

    /* From here on a lost attempt is not repeated by anybody: the money may have gone out. */
    if (hf_operation_sending(operation, &error) != HF_OK) {
        fprintf(stderr, "nothing was paid: %s\n", error.message);
        return NOT_YET;
    }
    if (!pay_out(operation, cents)) {
        if (hf_operation_unknown(operation, strerror(errno), NULL, &error) != HF_OK)
            fprintf(stderr, "unknown: %s\n", error.message);
        fprintf(stderr, "it may have been paid, or not: a person has to look\n");
        return TROUBLE;
    }
    len = snprintf(result, sizeof(result), "{\"cents\":%" PRId64 ",\"execution\":\"%s\"}", cents,
                   hf_operation_execution_id(operation));
    if (hf_operation_complete(operation, result, (size_t)len, NULL, NULL, &error) != HF_OK) {
        fprintf(stderr, "paid, but not on record: %s\n", error.message); /* it is UNKNOWN when the lease has ended */
        return TROUBLE;
    }
    printf("settled now, by attempt %" PRId64 ": %s\n", hf_operation_attempt(operation), result);
    return SETTLED;
}

/* What to do about a settlement that is not ours to make. */
static int tell(const hf_outcome *outcome)
{
    switch (outcome->kind) {
    case HF_OUTCOME_REPLAYED:
        if (outcome->failed) {
            fprintf(stderr, "will not be settled: %s\n", outcome->message);
            return TROUBLE;
        }
        printf("settled before, by attempt %" PRId64 ": %s\n", outcome->attempt, (const char *)outcome->result);
        return SETTLED;
    case HF_OUTCOME_IN_PROGRESS:
        fprintf(stderr, "%s is at it, or it is not due yet\n", outcome->holder[0] ? outcome->holder : "nobody");
        return NOT_YET;
    default:
        fprintf(stderr, "a person has to look: %s\n", outcome->message);
        return TROUBLE;
    }
}

static int settle(hf_client *client, hf_trigger trigger)
{
    char key[256], parameters[256];
    const hf_begin_options options = {.key = key,
                                      .type = "settlement",
                                      .parameters_json = parameters,
                                      .ttl_ms = 10000,
                                      .wait_ms = 30000, /* for whoever is at it, and for a retry's due time */
                                      .trigger = trigger,
                                      .on_loss = on_loss};
    hf_operation *operation;
    hf_outcome *outcome;
    hf_error error;
    int status;

    snprintf(key, sizeof(key), "settlement/%s", day);
    snprintf(parameters, sizeof(parameters), "{\"day\": \"%s\"}", day);
    if (hf_operation_begin(client, &options, &operation, &outcome, &error) != HF_OK) {
        fprintf(stderr, "begin: %s\n", error.message);
        return TROUBLE;
    }
    status = operation ? work(operation) : tell(outcome);
    hf_operation_free(operation);
    hf_outcome_free(outcome);
    return status;
}

int main(int argc, char **argv)
{
    const hf_client_options options = {.servers = getenv("HOLDFAST_SERVER"),
                                       .name_space = getenv("HOLDFAST_NAMESPACE"),
                                       .key = getenv("HOLDFAST_KEY"),
                                       .tls_ca_file = getenv("HOLDFAST_TLS_CA")};
    const char *how = argc == 4 ? argv[3] : "manual";
    hf_trigger trigger = HF_TRIGGER_MANUAL;
    hf_client *client = NULL;
    hf_error error;
    int status;

    if (argc < 3 || argc > 4 || strspn(argv[2], "0123456789-") != strlen(argv[2])) {
        fprintf(stderr, "usage: settlement FOLDER DAY [scheduled|retry|manual]\n");
        return TROUBLE;
    }
    folder = argv[1];
    day = argv[2];
    if (strcmp(how, "scheduled") == 0)
        trigger = HF_TRIGGER_SCHEDULED;
    else if (strcmp(how, "retry") == 0)
        trigger = HF_TRIGGER_RETRY;
    if (hf_client_new(&options, &client, &error) != HF_OK) {
        fprintf(stderr, "client: %s\n", error.message);
        return TROUBLE;
    }
    status = settle(client, trigger);
    hf_client_free(client);
    return status;
}

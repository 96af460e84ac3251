/* wait.c - see wait.h. */
#include "client/lib/wait.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"

int hfi_wait_begin(struct hf_client *client, struct hfi_wait *wait)
{
    const int rc = hfi_cond_init(&wait->cond);

    if (rc)
        return rc;
    pthread_mutex_lock(&client->mutex);
    wait->end_ms = hfi_now(client) + wait->wait_ms;
    wait->given_up = client->ending;
    wait->next = client->waits;
    wait->prev = &client->waits;
    if (wait->next)
        wait->next->prev = &wait->next;
    client->waits = wait;
    pthread_mutex_unlock(&client->mutex);
    return 0;
}

void hfi_wait_end(struct hf_client *client, struct hfi_wait *wait)
{
    pthread_mutex_lock(&client->mutex);
    *wait->prev = wait->next;
    if (wait->next)
        wait->next->prev = wait->prev;
    if (!client->waits)
        pthread_cond_broadcast(&client->waits_gone);
    pthread_mutex_unlock(&client->mutex);
    pthread_cond_destroy(&wait->cond);
}

size_t hfi_wait_give_up(struct hf_client *client, const char *request_id, bool with_plain)
{
    size_t n = 0;

    for (struct hfi_wait *wait = client->waits; wait; wait = wait->next) {
        if ((wait->plain && !with_plain) || (request_id && strcmp(wait->request_id, request_id) != 0))
            continue;
        wait->given_up = true;
        pthread_cond_broadcast(&wait->cond);
        n++;
    }
    return n;
}

bool hfi_wait_is_given_up(struct hf_client *client, const struct hfi_wait *wait)
{
    bool given_up;

    pthread_mutex_lock(&client->mutex);
    given_up = wait->given_up;
    pthread_mutex_unlock(&client->mutex);
    return given_up;
}

int64_t hfi_wait_left(const struct hfi_wait *wait, int64_t now_ms)
{
    return now_ms < wait->end_ms ? wait->end_ms - now_ms : 0;
}

bool hfi_wait_pause(struct hf_client *client, struct hfi_wait *wait, int64_t until_ms)
{
    bool go_on;

    pthread_mutex_lock(&client->mutex);
    while (!wait->given_up && hfi_now(client) < until_ms)
        client->ports.clock->wait(client->ports.clock, &wait->cond, &client->mutex, until_ms);
    go_on = !wait->given_up;
    pthread_mutex_unlock(&client->mutex);
    return go_on;
}

/* Of a reminder, or a CancelWait. */
static void side_done(struct hfi_try *self)
{
    struct hfi_wait *wait = self->arg;

    pthread_cond_broadcast(&wait->cond);
}

/* Up to a quarter more, so that the reminders of a herd don't come at once. */
static void remind_after(struct hf_client *client, struct hfi_wait *wait, int64_t ms)
{
    struct hfi_random *random = client->ports.random;

    wait->remind_ms = ms < HFI_REMIND_MAX_MS ? ms : HFI_REMIND_MAX_MS;
    wait->remind_at_ms =
        hfi_now(client) + wait->remind_ms + hfi_jitter(0, wait->remind_ms / 4, wait->remind_ms / 4, random->next(random));
}

void hfi_wait_remind_begin(struct hf_client *client, struct hfi_wait *wait)
{
    wait->reminded = false;
    remind_after(client, wait, HFI_REMIND_MIN_MS);
}

void hfi_wait_remind_end(struct hf_client *client, struct hfi_wait *wait)
{
    hfi_mux_cancel(&client->mux, &wait->reminder);
    free(wait->reminder.reply);
    free(wait->reminder_payload);
    wait->reminder_payload = NULL;
    memset(&wait->reminder, 0, sizeof(wait->reminder));
}

static void send_reminder(struct hf_client *client, struct hfi_wait *wait, const ProtobufCMessage *request,
                          const struct hfi_try *acquire)
{
    const int64_t now = hfi_now(client);

    hfi_wait_remind_end(client, wait);
    remind_after(client, wait, wait->remind_ms * 2);
    wait->set_left(wait, hfi_wait_left(wait, now));
    wait->reminder = *acquire;
    wait->reminder.timeout_ms = acquire->sent_ms + acquire->timeout_ms - now;
    wait->reminder.payload_len = protobuf_c_message_get_packed_size(request);
    wait->reminder.payload = wait->reminder_payload = malloc(wait->reminder.payload_len);
    wait->reminder.pinned = true;
    wait->reminder.done = side_done;
    wait->reminder.arg = wait;
    wait->reminder.state = HFI_TRY_IDLE;
    if (!wait->reminder_payload || wait->reminder.timeout_ms <= 0)
        return;
    protobuf_c_message_pack(request, wait->reminder_payload);
    hfi_mux_submit(&client->mux, &wait->reminder);
}

int64_t hfi_wait_remind(struct hf_client *client, struct hfi_wait *wait, const ProtobufCMessage *request, struct hfi_try *acquire)
{
    struct hfi_try *reminder = &wait->reminder;

    if (hfi_now(client) >= wait->remind_at_ms)
        send_reminder(client, wait, request, acquire);
    /* What it says only counts if it is an answer: the try itself may still have a better one than an error. */
    if (acquire->state == HFI_TRY_FLYING && reminder->state == HFI_TRY_DONE && reminder->fate == HFI_ANSWERED &&
        reminder->status.code == HP_OK) {
        hfi_mux_cancel(&client->mux, acquire);
        acquire->state = HFI_TRY_DONE;
        acquire->fate = HFI_ANSWERED;
        acquire->status = reminder->status;
        acquire->reply = reminder->reply;
        acquire->reply_len = reminder->reply_len;
        reminder->reply = NULL;
        wait->reminded = true;
    }
    return wait->remind_at_ms;
}

static void *pack_cancel(const struct hf_client *client, const struct hfi_wait *wait, size_t *len)
{
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;
    void *data;

    request.namespace_ = client->name_space;
    request.request_id = (char *)(uintptr_t)wait->request_id;
    *len = holdfast__v1__cancel_wait_request__get_packed_size(&request);
    data = malloc(*len);
    if (data)
        holdfast__v1__cancel_wait_request__pack(&request, data);
    return data;
}

static bool says_it_waited(const struct hfi_try *cancel)
{
    const Holdfast__V1__CancelWaitResponse *response;
    struct hp_arena *arena;
    struct hp_status status;
    bool waited = false;

    if (cancel->fate != HFI_ANSWERED || cancel->status.code != HP_OK)
        return false;
    arena = hp_arena_new(4096);
    if (arena) {
        response = (const Holdfast__V1__CancelWaitResponse *)hp_unpack_within(
            &hp_wire_reply, arena, &holdfast__v1__cancel_wait_response__descriptor, cancel->reply, cancel->reply_len, &status);
        waited = response && response->was_waiting;
    }
    hp_arena_free(arena);
    return waited;
}

/* One CancelWait, until `until_ms`. It may overtake its acquire, which then has not begun to wait: hence the pause before another.
 */
static void cancel_once(struct hf_client *client, struct hfi_wait *wait, const struct hfi_try *acquire, const void *payload,
                        size_t len, int64_t until_ms)
{
    struct hfi_clock *clock = client->ports.clock;
    const int64_t start = hfi_now(client), again = start + HFI_WITHDRAW_AGAIN_MS;
    struct hfi_try cancel = {.method = HFI_CANCEL_WAIT,
                             .payload = payload,
                             .payload_len = len,
                             .timeout_ms = until_ms - start,
                             .alone = true,
                             .pinned = true,
                             .endpoint = acquire->endpoint,
                             .done = side_done,
                             .arg = wait};

    hfi_mux_submit(&client->mux, &cancel);
    while (acquire->state == HFI_TRY_FLYING && hfi_now(client) < until_ms) {
        if (cancel.state == HFI_TRY_DONE && (says_it_waited(&cancel) || hfi_now(client) >= again))
            break;
        clock->wait(clock, &wait->cond, &client->mutex, cancel.state == HFI_TRY_DONE && again < until_ms ? again : until_ms);
    }
    if (cancel.state == HFI_TRY_DONE)
        wait->withdrawn = says_it_waited(&cancel);
    else
        hfi_mux_cancel(&client->mux, &cancel);
    free(cancel.reply);
}

void hfi_wait_withdraw(struct hf_client *client, struct hfi_wait *wait, struct hfi_try *acquire)
{
    struct hfi_clock *clock = client->ports.clock;
    const int64_t until = hfi_now(client) + HFI_WITHDRAW_MS;
    size_t len = 0;
    void *payload;

    if (wait->plain)
        return;
    payload = pack_cancel(client, wait, &len);
    while (payload && !wait->withdrawn && acquire->state == HFI_TRY_FLYING && hfi_now(client) < until)
        cancel_once(client, wait, acquire, payload, len, until);
    free(payload); /* what was sent has been copied */
    while (acquire->state == HFI_TRY_FLYING && hfi_now(client) < until)
        clock->wait(clock, &wait->cond, &client->mutex, until);
}

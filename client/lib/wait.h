/*
 * wait.h - an acquire, or another call, that waits at the server: how long it still may, and how it is given up before.
 *
 * One hfi_wait lives on the stack of the thread that acquires, and is registered with the client while hf_acquire runs, so that
 * another thread can find it by its request_id and give it up. Giving up is a mark and a signal; the acquiring thread itself
 * then takes the waiter away from the server (CancelWait) and waits, at most HFI_WITHDRAW_MS, to hear what became of its acquire: a
 * grant may have been quicker. All under the client's mutex.
 *
 * A message may be lost although its connection and its server live, and the silence of a wait doesn't tell. So while a try is in
 * flight it is sent once more after some 10 s, 20 s, 40 s and so on (to the server that is the same waiter), and the first answer
 * counts.
 */
#ifndef HOLDFAST_CLIENT_WAIT_H
#define HOLDFAST_CLIENT_WAIT_H

#include "client/lib/client.h"

enum { HFI_WITHDRAW_MS = 1000, HFI_WITHDRAW_AGAIN_MS = 100, HFI_REMIND_MIN_MS = 10000, HFI_REMIND_MAX_MS = 300000 };

struct hfi_wait {
    /* in */
    const char *request_id;
    int64_t wait_ms;
    /* Puts what is left of the wait into the request, before each try: 0 = try once. */
    void (*set_left)(struct hfi_wait *wait, int64_t left_ms);
    void *arg;

    bool plain; /* CancelWait knows nothing of it: it is only given up when the client goes, and at once */

    bool here; /* the pauses are made here: the server tries once (it cannot wait, for this request or at all) */

    bool given_up;
    bool withdrawn; /* by the server's word it waited, and waits no more: it had no effect */
    struct hfi_try reminder;
    uint8_t *reminder_payload;
    int64_t remind_ms, remind_at_ms;
    bool reminded; /* the present try's answer is that of its reminder */

    int64_t end_ms;
    pthread_cond_t cond; /* also the call's: its answers, and giving up, signal it */
    struct hfi_wait *next, **prev;
};

/* It can be found, and `end_ms` is counted from now. 0, or an errno. */
int hfi_wait_begin(struct hf_client *client, struct hfi_wait *wait) __attribute__((warn_unused_result));
/* It cannot be found any more. The last thing that is done with the client. */
void hfi_wait_end(struct hf_client *client, struct hfi_wait *wait);

/* Marks those with this request_id (NULL: all); the plain ones only if they are `with_plain`. How many there were. Lock held. */
size_t hfi_wait_give_up(struct hf_client *client, const char *request_id, bool with_plain);
bool hfi_wait_is_given_up(struct hf_client *client, const struct hfi_wait *wait); /* takes the lock */
/* What is left of it. */
int64_t hfi_wait_left(const struct hfi_wait *wait, int64_t now_ms);
/* Pauses until then. False: given up. Takes the lock. */
bool hfi_wait_pause(struct hf_client *client, struct hfi_wait *wait, int64_t until_ms);
/* A new try is about to be sent. Lock held, here and below. */
void hfi_wait_remind_begin(struct hf_client *client, struct hfi_wait *wait);
/* Sends a reminder of the try in flight if it is time; gives its answer to the try. Returns when to come again. */
int64_t hfi_wait_remind(struct hf_client *client, struct hfi_wait *wait, const ProtobufCMessage *request, struct hfi_try *acquire);
/* No reminder is in flight any more. */
void hfi_wait_remind_end(struct hf_client *client, struct hfi_wait *wait);
/* The wait was given up while this try of its acquire is in flight: see above. The lock is released while waiting. */
void hfi_wait_withdraw(struct hf_client *client, struct hfi_wait *wait, struct hfi_try *acquire);

#endif

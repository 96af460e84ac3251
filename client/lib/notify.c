/*
 * notify.c - telling losses. Each lost lease is queued once (its rule leaves `held` once) and its callback is called by one thread
 * that does nothing else, so that a slow callback delays no renewal.
 */
#include "client/lib/client.h"

void hfi_notify_queue(struct hf_lease *lease)
{
    struct hf_client *client = lease->client;

    if (!lease->prev)
        return; /* never handed out, or freed already */
    lease->loss_queued = true;
    lease->next_loss = NULL;
    *client->losses_end = lease;
    client->losses_end = &lease->next_loss;
    pthread_cond_signal(&client->loss_news);
}

bool hfi_notify_step(struct hf_client *client)
{
    struct hf_lease *lease = client->losses;
    const char *reason;
    hf_loss_fn tell;

    if (!lease)
        return false;
    client->losses = lease->next_loss;
    if (!client->losses)
        client->losses_end = &client->losses;
    lease->loss_queued = false;
    lease->refs++;
    client->telling = lease;
    client->teller = pthread_self();
    tell = lease->on_loss ? lease->on_loss : client->on_loss;
    reason = lease->rule.lost;
    pthread_mutex_unlock(&client->mutex);
    hfi_log(client, HF_LOG_WARN, "%s lost: %s=%s token=%lld reason=%s", lease->kind->word, lease->kind->named,
            lease->items[0].resource, (long long)lease->items[0].token, reason);
    if (tell)
        tell(lease, reason, lease->on_loss ? lease->on_loss_arg : client->on_loss_arg);
    pthread_mutex_lock(&client->mutex);
    client->telling = NULL;
    hfi_lease_unref(lease);
    pthread_cond_broadcast(&client->told);
    return true;
}

void hfi_notify_forget(struct hf_lease *lease)
{
    struct hf_client *client = lease->client;

    if (lease->loss_queued) {
        struct hf_lease **link = &client->losses;
        while (*link != lease)
            link = &(*link)->next_loss;
        *link = lease->next_loss;
        if (client->losses_end == &lease->next_loss)
            client->losses_end = link;
        lease->loss_queued = false;
    }
    while (client->telling == lease && !pthread_equal(client->teller, pthread_self()))
        client->ports.clock->wait(client->ports.clock, &client->told, &client->mutex, HFI_NEVER);
}

void *hfi_notify_main(void *arg)
{
    struct hf_client *client = arg;

    pthread_mutex_lock(&client->mutex);
    while (!client->closing) {
        if (!hfi_notify_step(client) && !client->closing)
            pthread_cond_wait(&client->loss_news, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

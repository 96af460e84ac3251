/*
 * mailbox.c - see mailbox.h. The loop's thread takes the whole queue at once, so that it holds the lock for two stores
 * only and a flood of posts cannot keep it in one turn for ever.
 */
#include "net/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"

static struct net_letter *take_all(struct net_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    struct net_letter *first = box->first;
    box->first = NULL;
    box->last = &box->first;
    box->count = 0;
    pthread_mutex_unlock(&box->lock);
    return first;
}

static void on_wake(struct io_watch *watch, unsigned events)
{
    struct net_mailbox *box = list_entry(watch, struct net_mailbox, watch);
    uint64_t n;
    (void)events;
    /* Read before taking: a post after the take writes again, a post between the two only wakes once too often. */
    while (read(watch->fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
    struct net_letter *letter = take_all(box);
    while (letter) {
        struct net_letter *next = letter->next;
        letter->next = NULL;
        box->deliver(box, letter);
        letter = next;
    }
}

int net_mailbox_init(struct net_mailbox *box, struct io *io, void (*deliver)(struct net_mailbox *box, struct net_letter *letter))
{
    *box = (struct net_mailbox){.io = io, .deliver = deliver};
    box->last = &box->first;
    box->watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->watch.fd < 0)
        return -errno;
    box->watch.want = IO_READ;
    box->watch.ready = on_wake;
    int rc = io->watch(io, &box->watch);
    if (rc) {
        close(box->watch.fd);
        box->watch.fd = -1;
        return rc;
    }
    pthread_mutex_init(&box->lock, NULL);
    return 0;
}

size_t net_mailbox_post(struct net_mailbox *box, struct net_letter *letter)
{
    letter->next = NULL;
    pthread_mutex_lock(&box->lock);
    bool wake = !box->first;
    *box->last = letter;
    box->last = &letter->next;
    size_t count = ++box->count;
    /* Written under the lock: otherwise the loop could take this letter, find its owner done and close the eventfd. */
    if (wake) {
        uint64_t one = 1;
        while (write(box->watch.fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
    }
    pthread_mutex_unlock(&box->lock);
    return count;
}

void net_mailbox_release(struct net_mailbox *box, void (*drop)(struct net_letter *letter))
{
    struct net_letter *letter = take_all(box);
    box->io->unwatch(box->io, &box->watch);
    close(box->watch.fd);
    pthread_mutex_destroy(&box->lock);
    while (letter) {
        struct net_letter *next = letter->next;
        if (drop)
            drop(letter);
        letter = next;
    }
}

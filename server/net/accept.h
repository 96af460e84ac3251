/*
 * accept.h - connections that there is no file descriptor for are accepted and closed, without nng's knowledge.
 *
 * nng 1.5 may never accept again once accept(2) has told it that descriptors have run out: it waits a moment before the next
 * try, and that wait may never end (nng's issue 1486; seen with its ipc:// after a dozen such moments). It knows of no bound
 * before a connection has greeted, either, for which it has 10 s. So the program has an accept of its own, which nng finds
 * before libc's: with no descriptor left it takes one of those kept back (base/files.h), closes the connection, and goes on.
 */
#ifndef HOLDFAST_NET_ACCEPT_H
#define HOLDFAST_NET_ACCEPT_H

/* How many connections were closed so, since the program began. From any thread. Whoever calls it has that accept linked. */
long net_accept_turned_away(void);

#endif

/*
 * accept.c - see accept.h. Thread: nng's.
 */
#include "net/accept.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"

static atomic_long turned_away;

static int accept_directly(int fd, struct sockaddr *addr, socklen_t *len)
{
    return (int)syscall(SYS_accept4, fd, addr, len, 0);
}

/* The next connection is closed. False: there is none, or not even a descriptor that was kept back (errno). */
static bool turn_away(int fd)
{
    hb_files_spare_begin();
    int gone = accept_directly(fd, NULL, NULL), error = errno;
    hb_files_spare_end();
    if (gone < 0) {
        errno = error;
        return false;
    }
    close(gone);
    atomic_fetch_add(&turned_away, 1);
    return true;
}

/* libc's, as libnng sees it: hence the visibility. As accept(2) says, but for EMFILE and ENFILE. */
__attribute__((visibility("default"))) int accept(int fd, struct sockaddr *addr, socklen_t *restrict len)
{
    for (;;) {
        int got = accept_directly(fd, addr, len);
        if (got >= 0 || (errno != EMFILE && errno != ENFILE) || !turn_away(fd))
            return got;
    }
}

long net_accept_turned_away(void)
{
    return atomic_load(&turned_away);
}

/* gate_lock.c - see gate_lock.h. */
#include "client/lib/gate_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/backoff.h"
#include "client/lib/call.h"
#include "client/lib/ports.h"

_Static_assert(sizeof(off_t) == sizeof(int64_t), "a token is a byte's place in a file");

enum { PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 50 };

static int lock_bytes(int fd, int command, short type, int64_t first, int64_t len, struct flock *found)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = len};
    const int rc = fcntl(fd, command, &lock);

    if (found)
        *found = lock;
    return rc;
}

bool hfi_gate_pause(unsigned n, int64_t until_ms)
{
    const int64_t left = until_ms - hfi_boot_ms();
    int64_t ms =
        hfi_jitter(n, PAUSE_MIN_MS, PAUSE_MAX_MS - PAUSE_MIN_MS, hfi_system_random.next(&hfi_system_random)) + PAUSE_MIN_MS;
    struct timespec ts;

    if (left <= 0)
        return false;
    if (ms > left)
        ms = left;
    ts = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
    return true;
}

hf_result hfi_gate_lock_mark(struct hfi_gate_file *file, short type, int64_t until_ms, hf_error *error)
{
    for (unsigned n = 0; lock_bytes(file->fd, F_OFD_SETLK, type, 0, 1, NULL) < 0; n++) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return hfi_gate_disk_error(file, "lock", error);
        if (!hfi_gate_pause(n, until_ms))
            return hfi_error_set(error, HF_UNAVAILABLE, "BUSY", "somebody else is writing the mark of %s", file->resource);
    }
    return HF_OK;
}

void hfi_gate_unlock_mark(struct hfi_gate_file *file)
{
    lock_bytes(file->fd, F_OFD_SETLK, F_UNLCK, 0, 1, NULL);
}

hf_result hfi_gate_lock_inside(struct hfi_gate_file *file, int64_t token, hf_error *error)
{
    struct flock found = {.l_type = F_UNLCK};

    if (token > 1 && lock_bytes(file->fd, F_OFD_GETLK, F_WRLCK, 1, token - 1, &found) < 0)
        return hfi_gate_disk_error(file, "lock", error);
    if (found.l_type != F_UNLCK)
        return hfi_error_set(error, HF_UNAVAILABLE, "BUSY", "token %lld is still inside %s", (long long)found.l_start,
                             file->resource);
    if (lock_bytes(file->fd, F_OFD_SETLK, F_RDLCK, token, 1, NULL) < 0)
        return hfi_gate_disk_error(file, "lock", error);
    return HF_OK;
}

void hfi_gate_unlock_inside(int fd, int64_t token)
{
    lock_bytes(fd, F_OFD_SETLK, F_UNLCK, token, 1, NULL);
}

hf_result hfi_gate_lock_folder(const struct hfi_gate_file *file, int64_t until_ms, int *fd, hf_error *error)
{
    *fd = openat(file->gate->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return hfi_gate_disk_error(file, "open its folder", error);
    for (unsigned n = 0; flock(*fd, LOCK_EX | LOCK_NB) < 0; n++) {
        hf_result result = HF_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            result = hfi_gate_disk_error(file, "lock its folder", error);
        else if (!hfi_gate_pause(n, until_ms))
            result = hfi_error_set(error, HF_UNAVAILABLE, "BUSY", "somebody else is creating a file in %s", file->gate->path);
        if (result != HF_OK) {
            close(*fd);
            return result;
        }
    }
    return HF_OK;
}

void hfi_gate_unlock_folder(int fd)
{
    flock(fd, LOCK_UN);
    close(fd);
}

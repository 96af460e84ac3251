/*
 * gate.c - hf_gate: see <holdfast/gate.h>; the order of things that makes it right is in gate_file.h and gate_lock.h.
 *
 * A gate is constant after it is made, so its functions need no lock among threads. A pass owns its own open file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/gate_lock.h"
#include "proto/c/wire.h"

enum {
    LOCK_MS = 1000
}; /* patience with one who writes a mark or creates a file: short work, unless it is stopped or its disk hangs */

struct hf_gate_pass {
    pid_t pid;
    int fd;
    int64_t token;
};

static hf_result ok(hf_error *error)
{
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

static hf_result bad_field(hf_error *error, const char *field, const char *wanted)
{
    hfi_error_set(error, HF_INVALID, "LIMIT", "%s is outside its limit; wanted: %s", field, wanted);
    if (error)
        snprintf(error->field, sizeof(error->field), "%s", field);
    return HF_INVALID;
}

static hf_result check_call(const hf_gate *gate, const char *resource, hf_error *error)
{
    struct hp_status status;

    if (gate->pid != getpid())
        return hfi_error_set(error, HF_MISUSE, "MISUSE", "this gate belongs to another process; after fork() open it again");
    if (!hp_check_name("resource", resource ? resource : "", &status))
        return hfi_error_from_status(error, HF_INVALID, &status);
    return HF_OK;
}

/* The file is there and good, or the folder isn't (or no longer) a gate. */
static hf_result check_gate(const hf_gate *gate, hf_error *error)
{
    struct hfi_gate_file own;
    hf_result result;

    hfi_gate_file_init(&own, gate, "");
    result = hfi_gate_file_open(&own, O_RDONLY, error);
    hfi_gate_file_close(&own);
    if (result == HF_NOT_FOUND)
        hfi_error_set(error, result, "NO_GATE", "%s is not a gate: there is no file `gate` in it", gate->path);
    return result;
}

/* A mark that was never there differs from one that went away only by what else is there: so the gate's own file is looked for
 * first. */
static hf_result check_unused(const hf_gate *gate, hf_error *error)
{
    const hf_result result = check_gate(gate, error);

    if (result == HF_NOT_FOUND)
        return hfi_error_set(error, HF_FAILED, "CORRUPT", "%s is not a gate any more: its file `gate` is gone", gate->path);
    return result;
}

/* Makes the file if it still isn't there once we are alone. */
static hf_result create_file(struct hfi_gate_file *file, hf_error *error)
{
    int lock;
    hf_result result = hfi_gate_lock_folder(file, hfi_boot_ms() + LOCK_MS, &lock, error);

    if (result != HF_OK)
        return result;
    if (faccessat(file->gate->dir, file->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        result = errno == ENOENT ? hfi_gate_file_create(file, error) : hfi_gate_disk_error(file, "open", error);
    hfi_gate_unlock_folder(lock);
    return result;
}

static hf_result open_to_enter(struct hfi_gate_file *file, hf_error *error)
{
    hf_result result = hfi_gate_file_open(file, O_RDWR, error);

    if (result != HF_NOT_FOUND)
        return result;
    result = check_unused(file->gate, error);
    if (result == HF_OK)
        result = create_file(file, error);
    if (result == HF_OK)
        result = hfi_gate_file_open(file, O_RDWR, error);
    return result == HF_NOT_FOUND ? hfi_gate_disk_error(file, "open", error) : result; /* removed this moment */
}

/* The folder's own name is on disk before the file `gate` says that it may be relied upon. */
static hf_result create_gate(hf_gate *gate, hf_error *error)
{
    struct hfi_gate_file own;
    hf_result result;

    hfi_gate_file_init(&own, gate, "");
    if (gate->io->sync_fs(gate->dir) < 0)
        return hfi_gate_disk_error(&own, "create", error);
    result = create_file(&own, error);
    if (result == HF_OK && gate->io->sync_dir(gate->dir) < 0)
        result = hfi_gate_disk_error(&own, "create", error);
    return result == HF_OK ? check_gate(gate, error) : result;
}

static hf_result open_folder(hf_gate *gate, bool create, hf_error *error)
{
    const int rc = create && mkdir(gate->path, 0700) < 0 ? errno : EEXIST;

    gate->dir = open(gate->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (gate->dir >= 0)
        return HF_OK; /* whatever mkdir said */
    if (errno == ENOENT && rc != EEXIST)
        errno = rc;
    if (errno == ENOENT)
        return hfi_error_set(error, HF_NOT_FOUND, "NO_GATE", "%s: no such folder", gate->path);
    return hfi_error_set(error, HF_FAILED, "DISK", "%s: %s", gate->path, strerror(errno));
}

hf_result hfi_gate_open(const char *path, const hf_gate_options *options, const struct hfi_gate_io *io, hf_gate **out,
                        hf_error *error)
{
    const bool create = options && options->create;
    struct hf_gate *gate;
    hf_result result;

    if (!path || !path[0])
        return bad_field(error, "path", "a folder");
    gate = calloc(1, sizeof(*gate));
    if (!gate || !(gate->path = strdup(path))) {
        free(gate);
        return hfi_error_no_memory(error);
    }
    gate->pid = getpid();
    gate->io = io;
    result = open_folder(gate, create, error);
    if (result == HF_OK) {
        result = check_gate(gate, error);
        if (result == HF_NOT_FOUND && create)
            result = create_gate(gate, error);
    }
    if (result != HF_OK) {
        hf_gate_close(gate);
        return result; /* NOLINT(clang-analyzer-unix.Malloc): the same process has just set gate->pid */
    }
    *out = gate;
    return ok(error);
}

hf_result hf_gate_open(const char *path, const hf_gate_options *options, hf_gate **gate, hf_error *error)
{
    return hfi_gate_open(path, options, &hfi_gate_system_io, gate, error);
}

void hf_gate_close(hf_gate *gate)
{
    if (!gate || gate->pid != getpid())
        return;
    if (gate->dir >= 0)
        close(gate->dir);
    free(gate->path);
    free(gate);
}

static hf_result stale(const struct hfi_gate_file *file, int64_t token, int64_t mark, hf_error *error)
{
    hfi_error_set(error, HF_LOST, "STALE_TOKEN", "token %lld of %s is stale: %lld was seen here", (long long)token, file->resource,
                  (long long)mark);
    if (error)
        error->fence = mark;
    return HF_LOST;
}

/* The mark first, then the look at who is inside: whoever comes after the mark was raised is refused by it, whoever came before is
 * seen. */
static hf_result try_enter(struct hfi_gate_file *file, int64_t token, int64_t lock_until_ms, hf_error *error)
{
    struct hfi_gate_mark mark;
    hf_result result = hfi_gate_lock_mark(file, F_WRLCK, lock_until_ms, error);

    if (result != HF_OK)
        return result;
    result = hfi_gate_file_read(file, &mark, error);
    if (result == HF_OK)
        result = token < mark.token ? stale(file, token, mark.token, error) : hfi_gate_file_raise(file, &mark, token, error);
    if (result == HF_OK)
        result = hfi_gate_lock_inside(file, token, error);
    hfi_gate_unlock_mark(file);
    return result;
}

hf_result hf_gate_enter(hf_gate *gate, const char *resource, int64_t token, int64_t wait_ms, hf_gate_pass **out, hf_error *error)
{
    const int64_t now = hfi_boot_ms();
    struct hfi_gate_file file;
    hf_gate_pass *pass;
    hf_result result = check_call(gate, resource, error);
    int64_t until, lock_until;

    if (result != HF_OK)
        return result;
    if (token < 1)
        return bad_field(error, "token", "1 or more");
    if (wait_ms < 0 || wait_ms > HF_WAIT_MAX_MS)
        return bad_field(error, "wait_ms", "0 to 3600000");
    pass = malloc(sizeof(*pass));
    if (!pass)
        return hfi_error_no_memory(error);
    until = now + wait_ms;
    lock_until = now + (wait_ms > LOCK_MS ? wait_ms : LOCK_MS);
    hfi_gate_file_init(&file, gate, resource);
    result = open_to_enter(&file, error);
    if (result == HF_OK) {
        unsigned n = 0;
        do
            result = try_enter(&file, token, lock_until, error);
        while (result == HF_UNAVAILABLE && hfi_gate_pause(n++, until));
    }
    if (result != HF_OK) {
        hfi_gate_file_close(&file);
        free(pass);
        return result;
    }
    *pass = (hf_gate_pass){.pid = gate->pid, .fd = file.fd, .token = token};
    *out = pass;
    return ok(error);
}

void hf_gate_leave(hf_gate_pass *pass)
{
    if (!pass || pass->pid != getpid())
        return;
    hfi_gate_unlock_inside(pass->fd, pass->token);
    close(pass->fd);
    free(pass);
}

hf_result hf_gate_mark(hf_gate *gate, const char *resource, int64_t *token, hf_error *error)
{
    struct hfi_gate_file file;
    struct hfi_gate_mark mark = {0};
    hf_result result = check_call(gate, resource, error);

    if (result != HF_OK)
        return result;
    hfi_gate_file_init(&file, gate, resource);
    result = hfi_gate_file_open(&file, O_RDONLY, error);
    if (result == HF_NOT_FOUND) {
        result = check_unused(gate, error);
    } else if (result == HF_OK) {
        result = hfi_gate_lock_mark(&file, F_RDLCK, hfi_boot_ms() + LOCK_MS, error);
        if (result == HF_OK) {
            result = hfi_gate_file_read(&file, &mark, error);
            hfi_gate_unlock_mark(&file);
        }
        hfi_gate_file_close(&file);
    }
    if (result != HF_OK)
        return result;
    *token = mark.token;
    return ok(error);
}

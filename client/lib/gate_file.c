/* gate_file.c - see gate_file.h. Numbers are stored little-endian. */
#include "client/lib/gate_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/call.h"

static const char magic[8] = {'H', 'F', 'G', 'A', 'T', 'E', '\r', '\n'};

struct header {
    char magic[8];
    uint64_t version;
    uint64_t name_len;
    char name[HF_NAME_MAX];
    uint8_t sum[HP_SHA256_SIZE]; /* of all before */
};

struct slot {
    uint64_t seq;
    uint64_t token;
    uint8_t sum[HP_SHA256_SIZE]; /* of the file's id, seq and token: a slot of another file is no good here */
};

static int system_rename(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to);
}

const struct hfi_gate_io hfi_gate_system_io = {pwrite, fdatasync, fsync, syncfs, system_rename};

hf_result hfi_gate_disk_error(const struct hfi_gate_file *file, const char *what, hf_error *error)
{
    const int rc = errno;

    return hfi_error_set(error, HF_FAILED, "DISK", "%s/%s: cannot %s: %s", file->gate->path, file->name, what, strerror(rc));
}

static hf_result bad_file(const struct hfi_gate_file *file, const char *reason, const char *why, hf_error *error)
{
    return hfi_error_set(error, HF_FAILED, reason, "%s/%s: %s", file->gate->path, file->name, why);
}

static void fill_header(const struct hfi_gate_file *file, struct header *h)
{
    const size_t len = strlen(file->resource);

    memset(h, 0, sizeof(*h));
    memcpy(h->magic, magic, sizeof(magic));
    h->version = htole64(HFI_GATE_VERSION);
    h->name_len = htole64(len);
    memcpy(h->name, file->resource, len);
    hp_sha256(h, offsetof(struct header, sum), h->sum);
}

static void sum_slot(const struct hfi_gate_file *file, const struct slot *slot, uint8_t sum[HP_SHA256_SIZE])
{
    uint8_t bytes[HP_SHA256_SIZE + offsetof(struct slot, sum)];

    memcpy(bytes, file->id, HP_SHA256_SIZE);
    memcpy(bytes + HP_SHA256_SIZE, slot, offsetof(struct slot, sum));
    hp_sha256(bytes, sizeof(bytes), sum);
}

static void fill_slot(const struct hfi_gate_file *file, uint64_t seq, int64_t token, struct slot *slot)
{
    slot->seq = htole64(seq);
    slot->token = htole64((uint64_t)token);
    sum_slot(file, slot, slot->sum);
}

static bool good_slot(const struct hfi_gate_file *file, const struct slot *slot)
{
    uint8_t sum[HP_SHA256_SIZE];

    sum_slot(file, slot, sum);
    return memcmp(sum, slot->sum, sizeof(sum)) == 0 && le64toh(slot->token) <= INT64_MAX;
}

void hfi_gate_file_init(struct hfi_gate_file *file, const struct hf_gate *gate, const char *resource)
{
    file->gate = gate;
    file->resource = resource;
    file->fd = -1;
    hp_sha256(resource, strlen(resource), file->id);
    if (!resource[0])
        snprintf(file->name, sizeof(file->name), "gate");
    for (size_t i = 0; resource[0] && i < HP_SHA256_SIZE; i++)
        snprintf(file->name + 2 * i, 3, "%02x", file->id[i]);
}

static hf_result check_header(struct hfi_gate_file *file, hf_error *error)
{
    struct header have, want;
    struct stat st;
    ssize_t n;

    if (fstat(file->fd, &st) < 0 || (n = pread(file->fd, &have, sizeof(have), 0)) < 0)
        return hfi_gate_disk_error(file, "read", error);
    fill_header(file, &want);
    if (n == (ssize_t)sizeof(have) && st.st_size == HFI_GATE_FILE_SIZE && memcmp(&have, &want, sizeof(have)) == 0)
        return HF_OK;
    if ((size_t)n >= sizeof(magic) && memcmp(have.magic, magic, sizeof(magic)) != 0)
        return bad_file(file, "CORRUPT", "not a file of a gate", error);
    if ((size_t)n >= offsetof(struct header, name_len) && have.version != want.version)
        return bad_file(file, "VERSION", "a file of another version of Holdfast", error);
    if (n != (ssize_t)sizeof(have) || st.st_size != HFI_GATE_FILE_SIZE)
        return bad_file(file, "CORRUPT", "truncated, or not a file of a gate", error);
    hp_sha256(&have, offsetof(struct header, sum), want.sum);
    if (memcmp(have.sum, want.sum, sizeof(have.sum)) != 0)
        return bad_file(file, "CORRUPT", "its header is damaged", error);
    return bad_file(file, "CORRUPT", "it holds the mark of another resource", error);
}

hf_result hfi_gate_file_open(struct hfi_gate_file *file, int flags, hf_error *error)
{
    hf_result result;

    file->fd = openat(file->gate->dir, file->name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file->fd < 0 && errno == ENOENT)
        return hfi_error_set(error, HF_NOT_FOUND, "NO_MARK", "%s/%s: not there", file->gate->path, file->name);
    if (file->fd < 0)
        return hfi_gate_disk_error(file, "open", error);
    result = check_header(file, error);
    if (result != HF_OK)
        hfi_gate_file_close(file);
    return result;
}

void hfi_gate_file_close(struct hfi_gate_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static bool write_all(const struct hfi_gate_file *file, int fd, const void *data, size_t len, off_t at)
{
    const ssize_t n = file->gate->io->write(fd, data, len, at);

    if (n >= 0 && (size_t)n != len)
        errno = ENOSPC; /* a short write to a file: the next one would say so */
    return n >= 0 && (size_t)n == len;
}

/* All blocks are written, not only their beginnings: later writes then need no space on a disk that has become full (but for
 * file systems that never overwrite in place). */
static bool write_new(const struct hfi_gate_file *file, int fd)
{
    union {
        uint8_t bytes[HFI_GATE_FILE_SIZE];
        struct header header;
    } u;
    struct slot slot;

    memset(&u, 0, sizeof(u));
    fill_header(file, &u.header);
    fill_slot(file, 0, 0, &slot);
    memcpy(u.bytes + HFI_GATE_BLOCK, &slot, sizeof(slot));
    return write_all(file, fd, u.bytes, sizeof(u.bytes), 0) && file->gate->io->sync(fd) == 0;
}

hf_result hfi_gate_file_create(struct hfi_gate_file *file, hf_error *error)
{
    const struct hf_gate *gate = file->gate;
    char name[sizeof(file->name) + 4];
    hf_result result = HF_OK;
    int fd;

    snprintf(name, sizeof(name), "%s.new", file->name);
    fd = openat(gate->dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return hfi_gate_disk_error(file, "create", error);
    if (!write_new(file, fd) || gate->io->rename(gate->dir, name, file->name) < 0) {
        result = hfi_gate_disk_error(file, "create", error);
        unlinkat(gate->dir, name, 0);
    }
    close(fd);
    return result;
}

hf_result hfi_gate_file_read(struct hfi_gate_file *file, struct hfi_gate_mark *mark, hf_error *error)
{
    struct slot slots[2];
    bool good[2];
    const struct slot *newest;

    for (int i = 0; i < 2; i++) {
        const ssize_t n = pread(file->fd, &slots[i], sizeof(slots[i]), HFI_GATE_BLOCK * (1 + i));
        if (n < 0)
            return hfi_gate_disk_error(file, "read", error);
        good[i] = n == (ssize_t)sizeof(slots[i]) && good_slot(file, &slots[i]);
    }
    if (!good[0] && !good[1])
        return bad_file(file, "CORRUPT", "both copies of its mark are damaged", error);
    newest = !good[1] || (good[0] && le64toh(slots[0].seq) >= le64toh(slots[1].seq)) ? &slots[0] : &slots[1];
    mark->seq = le64toh(newest->seq);
    mark->token = (int64_t)le64toh(newest->token);
    mark->settled = memcmp(&slots[0], &slots[1], sizeof(slots[0])) == 0;
    return HF_OK;
}

static bool write_slot(const struct hfi_gate_file *file, uint64_t place, const struct slot *slot)
{
    return write_all(file, file->fd, slot, sizeof(*slot), (off_t)(HFI_GATE_BLOCK * (1 + place % 2)));
}

/* On disk in its slot; then copied. If the copy fails no harm is done: the record will be settled once more. */
static bool write_record(const struct hfi_gate_file *file, uint64_t seq, int64_t token, bool with_dir)
{
    const struct hfi_gate_io *io = file->gate->io;
    struct slot slot;

    fill_slot(file, seq, token, &slot);
    if (!write_slot(file, seq, &slot) || io->sync(file->fd) < 0 || (with_dir && io->sync_dir(file->gate->dir) < 0))
        return false;
    (void)write_slot(file, seq + 1, &slot);
    return true;
}

hf_result hfi_gate_file_raise(struct hfi_gate_file *file, const struct hfi_gate_mark *mark, int64_t token, hf_error *error)
{
    if (!mark->settled && !write_record(file, mark->seq, mark->token, true))
        return hfi_gate_disk_error(file, "write the mark", error);
    if (token > mark->token && !write_record(file, mark->seq + 1, token, false))
        return hfi_gate_disk_error(file, "write the mark", error);
    return HF_OK;
}

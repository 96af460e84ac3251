/*
 * gate_fuzz.c - the reader of a gate's files. No fuzzer gets past their checksums, so the bytes say how a file is made and then
 * damaged: flags; seq and token of both slots (8 bytes each); the file's size (2); and three bytes for each byte that is changed.
 *
 * What is read is what an independent reading of gate_file.h's table says: the newest slot that is whole, or none. After a raise
 * the mark is what was asked for, settled, and never lower than it was.
 */
#include "fuzz.h"

#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/gate_file.h"

enum {
    GOOD_0 = 1, /* the slot gets its checksum */
    GOOD_1 = 2,
    SAME = 4,     /* slot 1 is a copy of slot 0 */
    RESIZED = 8,  /* the size counts */
    RAISED_BY = 4 /* the bits above: by how much the mark is raised */
};

enum { RECORD = 16, SLOT = RECORD + HP_SHA256_SIZE, MADE = 1 + 2 * RECORD + 2, CHANGE = 3 };

static const char resource[] = "reports/daily";
static char folder[64];
static struct hf_gate gate;
static struct hfi_gate_file file;
static uint8_t whole[HFI_GATE_FILE_SIZE]; /* as it was created */

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

static const struct hfi_gate_io without_sync = {.write = pwrite, .sync = no_sync, .sync_dir = no_sync, .sync_fs = no_sync};

static void remove_folder(void)
{
    unlinkat(gate.dir, file.name, 0);
    rmdir(folder);
}

/* The folder is left to the last process if the target crashes; nothing else is. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct hfi_gate_io io = hfi_gate_system_io;
    hf_error error;
    (void)argc;
    (void)argv;
    /* In memory where that can be had: a target that opens a file in each run must not wait for a disk. */
    snprintf(folder, sizeof(folder), "%s/holdfast-gate-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    MUST(mkdtemp(folder));
    gate = (struct hf_gate){.pid = getpid(), .dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .path = folder, .io = &io};
    MUST(gate.dir >= 0);
    hfi_gate_file_init(&file, &gate, resource);
    MUST(hfi_gate_file_create(&file, &error) == HF_OK);
    MUST(atexit(remove_folder) == 0);
    MUST(hfi_gate_file_open(&file, O_RDONLY, &error) == HF_OK);
    MUST(pread(file.fd, whole, sizeof(whole), 0) == (ssize_t)sizeof(whole));
    hfi_gate_file_close(&file);
    gate.io = &without_sync;
    return 0;
}

static void sum_of(const uint8_t record[RECORD], uint8_t sum[HP_SHA256_SIZE])
{
    uint8_t bytes[HP_SHA256_SIZE + RECORD];
    memcpy(bytes, file.id, HP_SHA256_SIZE);
    memcpy(bytes + HP_SHA256_SIZE, record, RECORD);
    hp_sha256(bytes, sizeof(bytes), sum);
}

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof(value));
    return le64toh(value);
}

/* The file as the input has it; its length. */
static size_t make(const uint8_t *data, size_t size, uint8_t image[HFI_GATE_FILE_SIZE])
{
    memcpy(image, whole, HFI_GATE_FILE_SIZE);
    for (int i = 0; i < 2; i++) {
        uint8_t *slot = image + (size_t)HFI_GATE_BLOCK * (size_t)(1 + i);
        memcpy(slot, data + 1 + (i && !(data[0] & SAME) ? RECORD : 0), RECORD);
        slot[7] = 0; /* a count that begins at 0 doesn't come near its end */
        if (data[0] & (i ? GOOD_1 : GOOD_0))
            sum_of(slot, slot + RECORD);
    }
    for (const uint8_t *p = data + MADE; p + CHANGE <= data + size; p += CHANGE)
        image[(p[0] | p[1] << 8) % HFI_GATE_FILE_SIZE] = p[2];
    if (!(data[0] & RESIZED))
        return HFI_GATE_FILE_SIZE;
    return (size_t)(data[MADE - 2] | data[MADE - 1] << 8) % (HFI_GATE_FILE_SIZE + 1);
}

static void write_image(const uint8_t *image, size_t len)
{
    int fd = openat(gate.dir, file.name, O_WRONLY | O_TRUNC | O_CLOEXEC);
    MUST(fd >= 0);
    MUST(pwrite(fd, image, len, 0) == (ssize_t)len);
    close(fd);
}

static bool is_good(const uint8_t *slot)
{
    uint8_t sum[HP_SHA256_SIZE];
    sum_of(slot, sum);
    return memcmp(sum, slot + RECORD, sizeof(sum)) == 0 && read_u64(slot + 8) <= INT64_MAX;
}

/* The slot that counts, or NULL. */
static const uint8_t *newest(const uint8_t *image)
{
    const uint8_t *a = image + HFI_GATE_BLOCK, *b = a + HFI_GATE_BLOCK;
    if (is_good(a) && is_good(b))
        return read_u64(b) > read_u64(a) ? b : a;
    return is_good(a) ? a : is_good(b) ? b : NULL;
}

static void raise_mark(const struct hfi_gate_mark *mark, int by)
{
    struct hfi_gate_mark after;
    hf_error error;
    int64_t token = mark->token > INT64_MAX - by ? mark->token : mark->token + by;
    MUST(hfi_gate_file_raise(&file, mark, token, &error) == HF_OK);
    hfi_gate_file_close(&file);
    MUST(hfi_gate_file_open(&file, O_RDONLY, &error) == HF_OK);
    MUST(hfi_gate_file_read(&file, &after, &error) == HF_OK);
    MUST(after.token == token && after.seq >= mark->seq);
    MUST(after.settled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t image[HFI_GATE_FILE_SIZE];
    struct hfi_gate_mark mark;
    hf_error error;
    if (size < MADE)
        return -1;
    size_t len = make(data, size, image);
    bool sound = len == HFI_GATE_FILE_SIZE && memcmp(image, whole, HFI_GATE_BLOCK) == 0;
    write_image(image, len);
    hf_result opened = hfi_gate_file_open(&file, O_RDWR, &error);
    if (opened != HF_OK) {
        MUST(!sound && opened == HF_FAILED && file.fd < 0);
        MUST(strcmp(error.reason, "CORRUPT") == 0 || strcmp(error.reason, "VERSION") == 0);
        return 0;
    }
    MUST(len == HFI_GATE_FILE_SIZE);
    hf_result read = hfi_gate_file_read(&file, &mark, &error);
    const uint8_t *want = newest(image);
    MUST((read == HF_OK) == (want != NULL));
    if (want) {
        MUST(mark.seq == read_u64(want) && mark.token == (int64_t)read_u64(want + 8));
        MUST(mark.settled == (memcmp(image + HFI_GATE_BLOCK, image + 2 * HFI_GATE_BLOCK, SLOT) == 0));
        raise_mark(&mark, data[0] >> RAISED_BY);
    }
    hfi_gate_file_close(&file);
    return 0;
}

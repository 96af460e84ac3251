/*
 * gate_file.h - one resource's mark on disk, so that no crash at any moment loses a mark under which somebody was let in.
 *
 * A file is three blocks of 4 KiB, so that writing one cannot tear another: a header (magic, version, name, checksum) that never
 * changes, and two slots for records (seq, token, checksum). Record n is written to slot n % 2 and synced; only then is it copied
 * to the other slot, unsynced. Hence:
 *
 *     both slots hold record n   it is settled: on disk in slot n % 2, and the other slot may be overwritten by record n + 1.
 *     they differ                record n, the later one, may be only in the kernel's memory (its writer died, or its sync failed,
 *                                after which Linux calls the page clean): it is written and synced again before it counts. Until
 *                                then the other slot holds record n - 1, which is on disk.
 *     one has a bad checksum     it was being written; the other one counts, as above.
 *
 * A new file is written under another name, synced and renamed, with record 0 unsettled; settling syncs the folder too, so
 * nobody is let in before the file's name is on disk.
 *
 * Nothing here locks: the caller holds the mark's lock (gate_lock.h), and the folder's to create.
 */
#ifndef HOLDFAST_CLIENT_GATE_FILE_H
#define HOLDFAST_CLIENT_GATE_FILE_H

#include <sys/types.h>

#include <holdfast/gate.h>

#include "proto/c/sha256.h"

/* What changes the disk: a port, so that tests fail each of them in turn and cut the power in between. As the system calls. */
struct hfi_gate_io {
    ssize_t (*write)(int fd, const void *data, size_t len, off_t at); /* pwrite */
    int (*sync)(int fd);                                              /* fdatasync, of a file */
    int (*sync_dir)(int fd);                                          /* fsync */
    int (*sync_fs)(int fd);                                           /* syncfs */
    int (*rename)(int dir, const char *from, const char *to);
};
extern const struct hfi_gate_io hfi_gate_system_io;

enum { HFI_GATE_BLOCK = 4096, HFI_GATE_FILE_SIZE = 3 * HFI_GATE_BLOCK, HFI_GATE_VERSION = 1 };

struct hf_gate {
    pid_t pid;
    int dir;
    char *path; /* for messages */
    const struct hfi_gate_io *io;
};

struct hfi_gate_file {
    const struct hf_gate *gate;
    const char *resource; /* borrowed; "" = the gate's own file, which only says that the folder is a gate */
    uint8_t id[HP_SHA256_SIZE];
    char name[2 * HP_SHA256_SIZE + 1];
    int fd; /* -1 = closed */
};

struct hfi_gate_mark {
    uint64_t seq;
    int64_t token;
    bool settled;
};

/* `file` is that resource's, closed. */
void hfi_gate_file_init(struct hfi_gate_file *file, const struct hf_gate *gate, const char *resource);
/* On HF_OK it is open (O_RDONLY or O_RDWR) and its header is good. HF_NOT_FOUND: it isn't there. */
hf_result hfi_gate_file_open(struct hfi_gate_file *file, int flags, hf_error *error) HF_MUST_CHECK;
/* On HF_OK the file is there, with the mark 0. It wasn't there before. */
hf_result hfi_gate_file_create(struct hfi_gate_file *file, hf_error *error) HF_MUST_CHECK;
hf_result hfi_gate_file_read(struct hfi_gate_file *file, struct hfi_gate_mark *mark, hf_error *error) HF_MUST_CHECK;
/* On HF_OK the mark, as read just now, is settled and equals `token`, which is not lower. */
hf_result hfi_gate_file_raise(struct hfi_gate_file *file, const struct hfi_gate_mark *mark, int64_t token,
                              hf_error *error) HF_MUST_CHECK;
void hfi_gate_file_close(struct hfi_gate_file *file);

/* HF_FAILED, "DISK", by errno. */
hf_result hfi_gate_disk_error(const struct hfi_gate_file *file, const char *what, hf_error *error);

/* gate.c: hf_gate_open with a port. */
hf_result hfi_gate_open(const char *path, const hf_gate_options *options, const struct hfi_gate_io *io, hf_gate **gate,
                        hf_error *error) HF_MUST_CHECK;

#endif

/*
 * gate_lock.h - who may write a mark and who is inside, by locks that the kernel gives up when their owner dies.
 *
 * They are open-file-description locks (fcntl(2), F_OFD_SETLK): each entry opens the file for itself, so threads exclude each
 * other just as processes do. Byte 0 of a resource's file is the lock of its mark, held only while it is read and written. Byte T,
 * locked for reading, says that somebody is inside with token T. (Locks may lie beyond a file's end.) Under the mark's lock
 * nobody comes in, and who has a lower token than T is told by a look at the bytes 1 to T - 1; entries of one token don't
 * exclude each other. The folder itself is locked with flock(2) to create a file.
 *
 * Locks are unlocked by name, not only by closing: a forked child may have a copy of the descriptor.
 *
 * Waiting: the kernel's own waiting cannot be given a time limit without signals, and these are the program's. So a waiter asks
 * again after pauses that grow from 1 to 50 ms, with jitter: idle but for twenty cheap calls a second, and found by no wake-up
 * that could be lost when a process dies.
 */
#ifndef HOLDFAST_CLIENT_GATE_LOCK_H
#define HOLDFAST_CLIENT_GATE_LOCK_H

#include "client/lib/gate_file.h"

/* On HF_OK the mark's lock is held, for reading (F_RDLCK) or writing (F_WRLCK). HF_UNAVAILABLE: not until `until_ms`. */
hf_result hfi_gate_lock_mark(struct hfi_gate_file *file, short type, int64_t until_ms, hf_error *error) HF_MUST_CHECK;
void hfi_gate_unlock_mark(struct hfi_gate_file *file);

/* With the mark's lock held. On HF_OK nobody with a lower token is inside, and one with `token` is. HF_UNAVAILABLE: the message
 * names a lower one. */
hf_result hfi_gate_lock_inside(struct hfi_gate_file *file, int64_t token, hf_error *error) HF_MUST_CHECK;
void hfi_gate_unlock_inside(int fd, int64_t token);

/* On HF_OK the folder's lock is held until `*fd` is given to hfi_gate_unlock_folder. */
hf_result hfi_gate_lock_folder(const struct hfi_gate_file *file, int64_t until_ms, int *fd, hf_error *error) HF_MUST_CHECK;
void hfi_gate_unlock_folder(int fd);

/* Pauses before try n + 1 (n from 0). False at once if `until_ms` has come. */
bool hfi_gate_pause(unsigned n, int64_t until_ms);

#endif

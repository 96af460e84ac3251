/*
 * gate.h - hf_gate: for a service in front of something that Holdfast doesn't hold (a file, a device, another API).
 *
 * Such a service gets a fencing token with each request. To ask hf_check is not enough: between the answer and the effect a newer
 * token may be granted and used. A gate keeps, for each resource, the highest token it has seen, on disk before the effect, and
 * lets in no lower one; so the effects inside the gate never go back to an older token, whatever the holders believe. It needs no
 * server.
 *
 *     if (hf_gate_open("/var/lib/exporter/gate", NULL, &gate, &error) != HF_OK) ...
 *     if (hf_gate_enter(gate, "reports/daily", token, 5000, &pass, &error) == HF_OK) {
 *         ... the effect, up to its end ...
 *         hf_gate_leave(pass);
 *     }
 *
 * Who gets in, with the mark M of that resource and a token T:
 *   T < M  refused (HF_LOST) and never let in again.
 *   T = M  let in, as often as it comes and several at a time: it is one holder, who may repeat a request or send two. Whoever
 *          wants one effect of a holder at a time takes a mutex inside.
 *   T > M  M becomes T at once, so no lower one comes in any more; then T waits until every lower one inside has left.
 * A gate believes the token. A made-up high one shuts everybody else out: let in only requests that you trust, or ask hf_check
 * first. It doesn't know whether T's lease still lives: until the next token shows up here, T may come in; and the first token of a
 * resource does, however old. Ask hf_check first if that matters.
 *
 * Several threads and several processes of one user may use one folder at the same time. If a process dies inside, the kernel
 * gives up its entry; the mark stays. What it had sent elsewhere by then may still arrive there: no gate can hold that back. A
 * process that was stopped (SIGSTOP) inside stays inside, and higher tokens wait: kill it, or let it go on.
 *
 * The folder is the promise. It is on a local disk that keeps what fdatasync() returned for, belongs to one namespace of
 * Holdfast, and holds a file `gate` and a file of 12 KiB for each resource, `sha256(its name)`, for ever. Don't remove any. If the
 * disk is lost, or an older copy is put back, the marks are gone and the promise with them: tokens that were refused may come in.
 * Then, before requests are served, enter each resource once with a token granted after the loss. A folder without its file
 * `gate` (a disk that isn't mounted) is refused, unless `create` is set: set it when installing, not at every start.
 *
 * Threads: every function from any thread at any time, except that nothing may use a gate or pass while it is given up.
 * Fork: in a child every call answers HF_MISUSE, or does nothing. A child that neither execs nor ends keeps an entry of its parent
 * if the parent dies. exec() is no problem.
 * Errors: HF_INVALID (`field` names where), HF_MISUSE, HF_NO_MEMORY, and HF_FAILED with a message that names the file and a reason:
 * "DISK" (the system's error: no space, read-only, no permission, too many open files, ...), "CORRUPT" (truncated, not a gate's
 * file, another resource's, or no slot with a good checksum: look at the disk, and treat it as lost), "VERSION" (a later library's
 * file). After any of them the caller is outside. `error` may be NULL.
 */
#ifndef HOLDFAST_GATE_H
#define HOLDFAST_GATE_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_gate hf_gate;
typedef struct hf_gate_pass hf_gate_pass;

typedef struct hf_gate_options {
    bool create; /* make the folder (mode 0700; its parent must be there) and the file `gate`, where they are missing */
    uint64_t reserved[8];
} hf_gate_options;

/* On HF_OK `*gate` stands for the marks in the folder `path`. `options` may be NULL. Blocks for the disk, and with `create` at most
 * a second for another process that creates. HF_NOT_FOUND: no such folder, or no gate, and `create` isn't set. HF_UNAVAILABLE:
 * another process is creating. */
HF_API hf_result hf_gate_open(const char *path, const hf_gate_options *options, hf_gate **gate, hf_error *error) HF_MUST_CHECK;

/* The gate is closed. Passes stay good. NULL is allowed. */
HF_API void hf_gate_close(hf_gate *gate);

/* On HF_OK the caller is inside with `token`: the resource's mark, on disk, is no lower, nobody with a lower token is inside or
 * comes in any more, and no higher one comes in before hf_gate_leave(*pass). Blocks for the disk, then up to wait_ms (0 to
 * HF_WAIT_MAX_MS) while a lower token is inside, and in any case up to a second while somebody else writes the mark.
 *
 * HF_LOST, "STALE_TOKEN": a higher token was seen here; `fence` tells it. Also while waiting. Stop.
 * HF_UNAVAILABLE, "BUSY": the time is over; the message tells which token was still inside. The mark stays raised.
 * HF_FAILED: as above. If the disk was full the mark is as before; if writing it to the disk failed it may be raised. Once the disk
 * works again, so does the gate. */
HF_API hf_result hf_gate_enter(hf_gate *gate, const char *resource, int64_t token, int64_t wait_ms, hf_gate_pass **pass,
                               hf_error *error) HF_MUST_CHECK;

/* The caller is outside again; higher tokens that wait come in within about 50 ms. Call it when the effect has ended: when nothing
 * of it is still on its way. Doesn't block. NULL is allowed. */
HF_API void hf_gate_leave(hf_gate_pass *pass);

/* On HF_OK `*token` is the resource's mark: the highest token seen; 0 if none was. Works in a read-only folder too. Blocks at most
 * a second. HF_UNAVAILABLE, "BUSY": the mark is being written for as long. */
HF_API hf_result hf_gate_mark(hf_gate *gate, const char *resource, int64_t *token, hf_error *error) HF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

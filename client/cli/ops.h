/*
 * ops.h - what the commands about operations share: words below `op`, policies and actions; parameters, values, states as text.
 */
#ifndef HOLDFAST_CLI_OPS_H
#define HOLDFAST_CLI_OPS_H

#include "client/cli/cli.h"
#include "holdfast/v1/operation.pb-c.h"

#define HFI_OPERATION "/holdfast.v1.OperationService/"

/* A word below a command: `op begin`. */
struct cli_sub {
    const char *name;
    const char *usage; /* what stands behind it */
    cli_flags flags;
    size_t min_words, max_words; /* behind it */
    int (*handler)(struct cli *cli);
};

/* Runs the one that the first word names, or complains. `subs` ends with a NULL name. */
int cli_run_sub(struct cli *cli, const char *command, const struct cli_sub *subs);

/* The flag's text, or "". */
char *cli_or_empty(const struct cli *cli, enum cli_flag flag);

/* One of the words of an enum, as people type it: "not-done" is NOT_DONE. True if `text` is one; otherwise it was complained about.
 */
bool cli_enum(const struct cli *cli, enum cli_flag flag, const ProtobufCEnumDescriptor *type, int *value)
    __attribute__((warn_unused_result));
/* The name of an enum's value; "?" if it has none. */
const char *cli_enum_name(const ProtobufCEnumDescriptor *type, int value);

/* The 32 bytes of --fingerprint, or the text of --canonical: the oneof that begin, record and execute have, whose cases have the
 * same numbers in all of them. True, or it was complained about. */
struct cli_parameters {
    uint8_t bytes[32];
    ProtobufCBinaryData fingerprint; /* data NULL: it is canonical_json */
    char *canonical_json;
};
bool cli_parameters(struct cli *cli, const char *otherwise, struct cli_parameters *parameters) __attribute__((warn_unused_result));

/* A point of time as people read it; "-" for 0. In a ring of static buffers. */
const char *cli_when(int64_t unix_ms);

/* Prints what op begin and execute are answered alike; the exit status. */
int cli_op_replayed(const struct cli *cli, const char *key, const Holdfast__V1__BeginResponse__Replayed *it);
int cli_op_in_progress(const struct cli *cli, const char *key, const Holdfast__V1__BeginResponse__InProgress *it);

/* The commands below `op`, by file. */
int cli_op_begin(struct cli *cli);
int cli_op_renew(struct cli *cli);
int cli_op_sending(struct cli *cli);
int cli_op_complete(struct cli *cli);
int cli_op_fail(struct cli *cli);
int cli_op_unknown(struct cli *cli);
int cli_op_record(struct cli *cli);
int cli_op_execute(struct cli *cli);
int cli_op_get(struct cli *cli);
int cli_op_wait(struct cli *cli);
int cli_op_list(struct cli *cli);
int cli_op_attempts(struct cli *cli);
int cli_op_retry(struct cli *cli);
int cli_op_cancel(struct cli *cli);
int cli_op_reconcile(struct cli *cli);
int cli_op_compensate(struct cli *cli);

#endif

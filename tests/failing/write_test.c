/*
 * write_test.c - everything fails once in turn, for a Write with a write_seq. See drive.h.
 */
#include "failing/write.h"

static void send(struct rooms_call *call, const char *resource)
{
    send_write(call, resource, 1);
}

static const struct drive write_with_seq = {.name = "write",
                                            .response = &holdfast__v1__write_response__descriptor,
                                            .prepare = drive_prepare_mine,
                                            .send = send,
                                            .check = check_write,
                                            .is_done = is_written};

DRIVE_MAIN(write_with_seq)

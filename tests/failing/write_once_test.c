/*
 * write_once_test.c - everything fails once in turn, for a Write that nothing tells from a repeat of it: it is never sent twice,
 * and no error says that nothing was done if it was. See drive.h.
 */
#include "failing/write.h"

static void send(struct rooms_call *call, const char *resource)
{
    send_write(call, resource, 0);
}

static const struct drive write_once = {.name = "write once",
                                        .response = &holdfast__v1__write_response__descriptor,
                                        .prepare = drive_prepare_mine,
                                        .send = send,
                                        .check = check_write,
                                        .is_done = is_written,
                                        .once = true,
                                        .starts_up = 1 << FP_LIBPQ};

DRIVE_MAIN(write_once)

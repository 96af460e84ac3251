/*
 * drive.h - one kind of call, at which everything fails once in turn.
 *
 * For each point n there is one call, on a resource of its own, of which the n-th point fails. Whatever that is: the call is
 * answered, or dropped with its envelope; the answer is one that the contract allows; what it says is so in the database; what
 * failed is put right without help; the same call again gets the same answer as if nothing had failed; a call on another resource
 * works. Each in three phases, so that all that a call may need is met.
 */
#ifndef HOLDFAST_TESTS_FAILING_DRIVE_H
#define HOLDFAST_TESTS_FAILING_DRIVE_H

#include "failing/points.h"
#include "failing/rooms.h"

#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"

#define DRIVE_LEASE    "/holdfast.v1.LeaseService/"
#define DRIVE_RESOURCE "/holdfast.v1.ResourceService/"
/* A const string as a message's field. */
#define DRIVE_STR(text) ((char *)(uintptr_t)(text))

struct drive {
    const char *name;
    const ProtobufCMessageDescriptor *response;
    /* The database is ready for such a call on this resource, by SQL. May be NULL. */
    void (*prepare)(const char *resource);
    void (*send)(struct rooms_call *call, const char *resource);
    /* It was sent; what has to happen so that it is over. NULL: nothing. */
    void (*meanwhile)(struct rooms_call *call, const char *resource);
    /* What its only item ended with, if that was an error. NULL: it has no items. */
    const Holdfast__V1__ItemError *(*error)(const void *response);
    /* An answer that is no error is right, and so in the database; of the call itself or of a repeat. */
    void (*check)(const char *resource, const void *response);
    /* What the call does was done. */
    bool (*is_done)(const char *resource);
    /* A repeat cannot be told from a new call: an error may only say that nothing was done if that is so. */
    bool once;
    /* Kinds of points (1 << enum fp_kind) for which a start-up fails too; FP_MEMORY always is. To libpq it is the same for all
     * calls, so that it need not be done for each. */
    unsigned starts_up;
};

/* All of it for one kind of points. Fails the test if there were no more than 50 of them. */
void drive_memory(const struct drive *drive);
void drive_libpq(const struct drive *drive);
void drive_libpq_memory(const struct drive *drive);

/* cmocka's teardown of the three: if one failed, the point at which it did is told. */
int drive_tell(void **state);

/* By SQL, as another server would: the resource is leased; its token. */
int64_t drive_lease(const char *resource, const char *holder);
/* `me` has the lease that drive_lease makes, under token 1: a struct drive's `prepare`. */
void drive_prepare_mine(const char *resource);

/* The three as cmocka's tests of one program. */
#define DRIVE_MAIN(it)                                                                                                             \
    static void memory(void **state)                                                                                               \
    {                                                                                                                              \
        (void)state;                                                                                                               \
        drive_memory(&(it));                                                                                                       \
    }                                                                                                                              \
    static void libpq(void **state)                                                                                                \
    {                                                                                                                              \
        (void)state;                                                                                                               \
        drive_libpq(&(it));                                                                                                        \
    }                                                                                                                              \
    static void libpq_memory(void **state)                                                                                         \
    {                                                                                                                              \
        (void)state;                                                                                                               \
        drive_libpq_memory(&(it));                                                                                                 \
    }                                                                                                                              \
    int main(void)                                                                                                                 \
    {                                                                                                                              \
        const struct CMUnitTest tests[] = {                                                                                        \
            cmocka_unit_test_teardown(memory, drive_tell),                                                                         \
            cmocka_unit_test_teardown(libpq, drive_tell),                                                                          \
            cmocka_unit_test_teardown(libpq_memory, drive_tell),                                                                   \
        };                                                                                                                         \
        return cmocka_run_group_tests(tests, rooms_setup, rooms_teardown);                                                         \
    }

#endif

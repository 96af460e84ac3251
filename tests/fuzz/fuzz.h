/*
 * fuzz.h - what the fuzz targets share.
 *
 * Each <name>_fuzz.c is one target: a function of bytes that must hold for all bytes. It becomes two programs: with libFuzzer
 * (preset fuzz, build/fuzz/bin/fuzz/<name>, run by `tests/run fuzz`), and in every preset the test `fuzz/<name>`, which is
 * replay.c over the seeds in corpus/<name>. A found crash is kept there as a seed, and is a regression test by that.
 *
 * Nothing of a run may outlive it, and the same bytes must do the same each time.
 */
#ifndef HOLDFAST_TESTS_FUZZ_H
#define HOLDFAST_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer's names. 0: the input was of use; -1: it is not worth keeping. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Once, before the first run: what the target needs, and whether its tables are complete. Each target has one. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* What must hold, also in builds without assert. */
#define MUST(condition)                                                                                                            \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                               \
        }                                                                                                                          \
    } while (0)

#endif

/*
 * described.h - the files of proto/c/descriptors.h: which declares what, and which it needs.
 */
#ifndef HOLDFAST_SERVICE_DESCRIBED_H
#define HOLDFAST_SERVICE_DESCRIBED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SVC_FILES_MAX = 64 };

struct svc_file {
    const uint8_t *data; /* a serialized FileDescriptorProto */
    size_t len;
};

/* Fills in all files, each behind those that it imports; returns their number. */
size_t svc_files(struct svc_file files[SVC_FILES_MAX]);
/* Whether it has this name. */
bool svc_file_is(const struct svc_file *file, const char *name);
/* Whether it declares this: the full name of a message, field, oneof, enum, enum value, service or method. */
bool svc_file_declares(const struct svc_file *file, const char *symbol);
/* wanted[i] is set of each file that a wanted one imports, directly or not. */
void svc_files_imported(const struct svc_file *files, size_t n, bool *wanted);

#endif

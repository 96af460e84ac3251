/*
 * libpq_memory.c - libpq's own allocations: their addresses in its table of what it imports are replaced by ours.
 *
 * The linker's --wrap doesn't reach into a shared library, and an own malloc for the whole process would be at odds with
 * AddressSanitizer. What libpq's libraries (TLS, Kerberos) allocate is left alone.
 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failing/points.h"

#define CALLER __builtin_return_address(0)

static void *libpq_malloc(size_t size)
{
    return fp_point(FP_LIBPQ_MEMORY, "malloc", size, CALLER) ? NULL : real_malloc(size);
}

static void *libpq_calloc(size_t n, size_t size)
{
    return fp_point(FP_LIBPQ_MEMORY, "calloc", n * size, CALLER) ? NULL : real_calloc(n, size);
}

static void *libpq_realloc(void *old, size_t size)
{
    return fp_point(FP_LIBPQ_MEMORY, "realloc", size, CALLER) ? NULL : real_realloc(old, size);
}

static char *libpq_strdup(const char *text)
{
    return fp_point(FP_LIBPQ_MEMORY, "strdup", strlen(text) + 1, CALLER) ? NULL : real_strdup(text);
}

static const struct {
    const char *name;
    void *ours;
} replaced[] = {{"malloc", (void *)libpq_malloc},
                {"calloc", (void *)libpq_calloc},
                {"realloc", (void *)libpq_realloc},
                {"strdup", (void *)libpq_strdup}};

/* What of a library's dynamic section is needed. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * lists[2];
    size_t sizes[2];
};

static void read_tables(const ElfW(Dyn) * dyn, struct tables *out)
{
    for (; dyn->d_tag != DT_NULL; dyn++) {
        void *at = (void *)(uintptr_t)dyn->d_un.d_ptr; /* glibc has made it absolute */
        if (dyn->d_tag == DT_SYMTAB)
            out->symbols = at;
        else if (dyn->d_tag == DT_STRTAB)
            out->names = at;
        else if (dyn->d_tag == DT_JMPREL)
            out->lists[0] = at;
        else if (dyn->d_tag == DT_PLTRELSZ)
            out->sizes[0] = dyn->d_un.d_val;
        else if (dyn->d_tag == DT_RELA)
            out->lists[1] = at;
        else if (dyn->d_tag == DT_RELASZ)
            out->sizes[1] = dyn->d_un.d_val;
    }
}

static void replace(void **entry, void *ours)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)entry & ~(uintptr_t)(page - 1));
    if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) /* read-only after start-up */
        abort();
    *entry = ours;
}

static int look_at(struct dl_phdr_info *library, size_t size, void *count)
{
    struct tables tables = {0};
    (void)size;
    if (!strstr(library->dlpi_name, "/libpq.so"))
        return 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_tables((void *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr), &tables);
    }
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; i < tables.sizes[list] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Rela) *entry = &tables.lists[list][i];
            const char *name = tables.names + tables.symbols[ELF64_R_SYM(entry->r_info)].st_name;
            for (size_t r = 0; r < sizeof(replaced) / sizeof(replaced[0]); r++) {
                if (strcmp(name, replaced[r].name) != 0)
                    continue;
                replace((void **)(library->dlpi_addr + entry->r_offset), replaced[r].ours);
                ++*(int *)count;
            }
        }
    }
    return 1;
}

void fp_catch_libpq_memory(void)
{
    int count = 0;
    dl_iterate_phdr(look_at, &count);
    if (count < (int)(sizeof(replaced) / sizeof(replaced[0])))
        abort(); /* a libpq that is linked in another way: nothing would be tested */
}

/*
 * replay.c - `replay FILE|FOLDER…` runs a target over seeds, without libFuzzer, and over their neighbours: each seed, what it is
 * cut off at each byte, and it with each bit turned. What runs is told by its path when the target fails.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEED_MAX = 64 * 1024, NEIGHBOURS_MAX = 1024 /* bytes of a seed whose neighbours are run */ };

static char running[1024];

/* By the signal of abort() and of crashes that no sanitizer reports. */
static void tell(int sig)
{
    const char text[] = "the seed was ";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    ignored += write(STDERR_FILENO, running, strlen(running));
    ignored += write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    signal(sig, SIG_DFL);
    raise(sig);
}

/* From a block of its own size, so that a sanitizer sees what reads behind it. */
static void run(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    MUST(copy);
    memcpy(copy, data, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static size_t run_seed(const char *path)
{
    static uint8_t data[SEED_MAX];
    size_t runs = 1;
    snprintf(running, sizeof(running), "%s", path);
    FILE *file = fopen(path, "rb");
    MUST(file);
    size_t len = fread(data, 1, sizeof(data), file);
    fclose(file);
    run(data, len);
    if (len > NEIGHBOURS_MAX)
        return runs;
    for (size_t cut = 0; cut < len; cut++, runs++) {
        snprintf(running, sizeof(running), "%s, its first %zu bytes", path, cut);
        run(data, cut);
    }
    for (size_t bit = 0; bit < len * 8; bit++, runs++) {
        snprintf(running, sizeof(running), "%s with bit %zu of byte %zu turned", path, bit % 8, bit / 8);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
        run(data, len);
        data[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    return runs;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t run_folder(const char *path, size_t *seeds)
{
    enum { FILES_MAX = 1000 };
    char *files[FILES_MAX];
    size_t n = 0, runs = 0;
    DIR *dir = opendir(path);
    MUST(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        MUST(n < FILES_MAX && asprintf(&files[n], "%s/%s", path, entry->d_name) > 0);
        n++;
    }
    closedir(dir);
    qsort(files, n, sizeof(files[0]), by_name);
    for (size_t i = 0; i < n; i++) {
        runs += run_seed(files[i]);
        free(files[i]);
    }
    *seeds += n;
    return runs;
}

int main(int argc, char **argv)
{
    size_t seeds = 0, runs = 0;
    signal(SIGABRT, tell);
    signal(SIGSEGV, tell);
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            runs += run_folder(argv[i], &seeds);
        } else {
            runs += run_seed(argv[i]);
            seeds++;
        }
    }
    printf("%zu seeds, %zu runs\n", seeds, runs);
    return seeds ? 0 : 1;
}

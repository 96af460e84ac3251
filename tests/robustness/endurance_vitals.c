/*
 * endurance_vitals.c - see endurance_vitals.h. From /proc (proc(5)) and the process's CPU clock.
 */
#include "robustness/endurance_vitals.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The number behind `key` in a file of lines "key: number"; -1 if it isn't there. */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    int64_t number = -1;
    FILE *file = fopen(path, "re");
    while (file && number < 0 && fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), " %" SCNd64, &number) != 1)
            break;
    }
    if (file)
        fclose(file);
    return number;
}

static void read_threads(pid_t pid, struct vitals *vitals)
{
    char path[320];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);
        const int64_t wakes = number_in(path, "voluntary_ctxt_switches:");
        if (wakes < 0) /* it ended meanwhile */
            continue;
        vitals->wakes += wakes;
        vitals->threads++;
    }
    if (folder)
        closedir(folder);
}

bool vitals_read(pid_t pid, struct vitals *vitals)
{
    char path[64];
    clockid_t clock;
    struct timespec used;
    *vitals = (struct vitals){0};
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    vitals->rss_kib = number_in(path, "VmRSS:");
    if (vitals->rss_kib < 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return false;
    vitals->cpu_ms = (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
    read_threads(pid, vitals);
    return vitals->threads > 0;
}

bool vitals_memory_counts(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return true;
#endif
}

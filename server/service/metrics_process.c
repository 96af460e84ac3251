/*
 * metrics_process.c - what the kernel knows of this process (proc(5)), by the names that Prometheus' own clients give to it
 * (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "service/metrics_text.h"

static void add(struct hp_buf *out, const char *name, enum svc_metric_type type, const char *help, double value)
{
    svc_metric_head(out, name, type, help);
    svc_metric_double(out, name, "", svc_no_labels, value);
}

static size_t read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, size - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    return n;
}

/* When the system was started, in seconds since 1970; 0 = not known. */
static double boot_time(void)
{
    char text[8192];
    read_file("/proc/stat", text, sizeof(text));
    const char *line = strstr(text, "\nbtime ");
    return line ? strtod(line + 7, NULL) : 0;
}

static void from_stat(struct hp_buf *out)
{
    char text[1024];
    unsigned long long start, memory;
    long long pages;
    double hz = (double)sysconf(_SC_CLK_TCK);
    read_file("/proc/self/stat", text, sizeof(text));
    const char *at = strrchr(text, ')'); /* behind the program's name, which may be anything */
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu %llu %lld", &start,
                      &memory, &pages) != 3)
        return;
    add(out, "process_virtual_memory_bytes", SVC_GAUGE, "Virtual memory size in bytes.", (double)memory);
    add(out, "process_resident_memory_bytes", SVC_GAUGE, "Resident memory size in bytes.",
        (double)pages * (double)sysconf(_SC_PAGESIZE));
    double boot = boot_time();
    if (boot > 0 && hz > 0)
        add(out, "process_start_time_seconds", SVC_GAUGE, "Start time of the process since the Unix epoch in seconds.",
            boot + (double)start / hz);
}

static int count_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", "..", and the folder itself */
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

void svc_metrics_process(struct hp_buf *out)
{
    struct rusage usage;
    struct rlimit limit;
    int files = count_files();
    from_stat(out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        add(out, "process_cpu_seconds_total", SVC_COUNTER, "Total user and system CPU time spent in seconds.",
            (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    if (files >= 0)
        add(out, "process_open_fds", SVC_GAUGE, "Number of open file descriptors.", files);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        add(out, "process_max_fds", SVC_GAUGE, "Maximum number of open file descriptors.", (double)limit.rlim_cur);
}

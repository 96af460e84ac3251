/*
 * cgroup.c - a cgroup v2 for a command and its descendants (cgroups(7); Documentation/admin-guide/cgroup-v2.rst, cgroup.kill).
 * All best effort: without the right to make one, /proc alone has to do.
 */
#include "client/cli/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where cgroup2 is mounted, if the whole of it is. False: nowhere. */
static bool find_mount(char *out, size_t size)
{
    char line[1024], root[256], point[256];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "re");

    while (file && !found && fgets(line, sizeof(line), file))
        if (strstr(line, " - cgroup2 ") && sscanf(line, "%*d %*d %*s %255s %255s", root, point) == 2 && !strcmp(root, "/"))
            found = snprintf(out, size, "%s", point) < (int)size;
    if (file)
        fclose(file);
    return found;
}

/* This process's cgroup, as a path below the mount, "" for its root. */
static bool find_own(char *out, size_t size)
{
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file && !found && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        found = snprintf(out, size, "%s", strcmp(line, "0::/") ? line + 3 : "") < (int)size;
    }
    if (file)
        fclose(file);
    return found;
}

static bool write_file(const char *dir, const char *name, const char *text)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

void cgroup_make(struct cgroup *group)
{
    char mount[200], own[200], path[sizeof(group->path)];

    group->path[0] = '\0';
    if (!find_mount(mount, sizeof(mount)) || !find_own(own, sizeof(own)))
        return;
    snprintf(path, sizeof(path), "%s%s/holdfast-run-%d", mount, own, (int)getpid());
    if (mkdir(path, 0755) && (errno != EEXIST || rmdir(path) || mkdir(path, 0755)))
        return; /* an empty one is an old one: a `run` and its guardian were killed together */
    memcpy(group->path, path, sizeof(path));
}

void cgroup_enter(const struct cgroup *group)
{
    if (*group->path && !write_file(group->path, "cgroup.procs", "0"))
        return; /* /proc has to do */
}

void cgroup_kill(const struct cgroup *group)
{
    if (*group->path && !write_file(group->path, "cgroup.kill", "1"))
        return; /* Linux before 5.14 */
}

void cgroup_remove(const struct cgroup *group)
{
    if (*group->path && rmdir(group->path))
        return; /* gone already, or somebody else put a process there */
}

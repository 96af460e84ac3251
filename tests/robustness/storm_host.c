/*
 * storm_host.c - see storm_host.h.
 */
#include "robustness/storm_host.h"

#include "harness/harness.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { COMMAND_MS = 30000 };

struct storm_host {
    struct t_proc *proc; /* keeps the namespace */
    const char *prefix[4];
};

static size_t disk_bytes;
static bool disk_mounted;

static bool loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags |= IFF_UP;
    good = good && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

bool storm_host_enter(char *why, size_t why_size)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) {
        snprintf(why, why_size, "no namespaces of its own (%s)", geteuid() != 0 ? "not root" : strerror(errno));
        return false;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || !loopback_up()) {
        snprintf(why, why_size, "no use of namespaces of its own (%s)", strerror(errno));
        return false;
    }
    return true;
}

static void command(const char *line)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    struct t_result result = t_run(argv, NULL, COMMAND_MS);
    if (result.status != 0)
        fail_msg("%s: %s%s", line, result.out, result.err);
}

static const char *on_host(const struct storm_host *host, const char *line)
{
    return t_printf("nsenter --net=/proc/%d/ns/net %s", (int)host->proc->pid, line);
}

/* The process is in a network namespace that isn't ours. */
static bool apart(void *arg)
{
    const struct storm_host *host = arg;
    struct stat ours, theirs;
    return stat("/proc/self/ns/net", &ours) == 0 && stat(t_printf("/proc/%d/ns/net", (int)host->proc->pid), &theirs) == 0 &&
           ours.st_ino != theirs.st_ino;
}

static void plug(const struct storm_host *host, const char *name, int net)
{
    command(t_printf("ip link add %s0 type veth peer name %s1 netns %d", name, name, (int)host->proc->pid));
    command(t_printf("ip addr add 10.77.%d.1/24 dev %s0 && ip link set %s0 up", net, name, name));
    command(on_host(host, t_printf("ip addr add 10.77.%d.2/24 dev %s1", net, name)));
    command(on_host(host, t_printf("ip link set %s1 up", name)));
}

struct storm_host *storm_host_start(void)
{
    static struct storm_host host;
    const char *const argv[] = {"unshare", "-n", "sleep", "infinity", NULL};
    host.proc = t_spawn(argv, NULL);
    if (!t_wait_for(apart, &host, COMMAND_MS))
        fail_msg("there is no second network namespace: %s", t_proc_err(host.proc));
    command(on_host(&host, "ip link set lo up"));
    plug(&host, "callers", 1);
    plug(&host, "data", 2);
    host.prefix[0] = "nsenter";
    host.prefix[1] = t_printf("--net=/proc/%d/ns/net", (int)host.proc->pid);
    host.prefix[2] = "--";
    host.prefix[3] = NULL;
    return &host;
}

const char *const *storm_host_prefix(const struct storm_host *host)
{
    return host->prefix;
}

void storm_host_wire(struct storm_host *host, enum storm_wire wire, bool up)
{
    const char *state = up ? "up" : "down";
    if (wire == STORM_WIRE_DATA)
        command(t_printf("ip link set data0 %s", state));
    else
        command(on_host(host, t_printf("ip link set callers1 %s", state)));
}

/* ------------------------------------------------------------------------------------------------ the disk */

void storm_disk_mount(size_t bytes)
{
    if (disk_mounted && umount2(STORM_DISK, MNT_DETACH) != 0)
        fail_msg("cannot unmount: %s", strerror(errno));
    disk_mounted = false;
    if (mount("storm", STORM_DISK, "tmpfs", MS_NOSUID | MS_NODEV, t_printf("size=%zu,mode=0755", bytes)) != 0)
        fail_msg("cannot mount a disk: %s", strerror(errno));
    disk_mounted = true;
    disk_bytes = bytes;
}

void storm_disk_full(bool full)
{
    const int64_t end = t_now_ms() + COMMAND_MS;
    for (;;) {
        struct statvfs now;
        if (statvfs(STORM_DISK, &now) != 0)
            fail_msg("statvfs: %s", strerror(errno));
        const size_t used = (size_t)(now.f_blocks - now.f_bfree) * now.f_frsize;
        if (mount("storm", STORM_DISK, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, t_printf("size=%zu", full ? used : disk_bytes)) ==
            0)
            return;
        /* What was written meanwhile doesn't fit any more. */
        if (errno != EINVAL || t_now_ms() > end)
            fail_msg("cannot change the disk's size: %s", strerror(errno));
    }
}

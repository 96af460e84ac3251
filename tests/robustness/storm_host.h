/*
 * storm_host.h - a network and a disk of the test's own: namespaces, a second host at two wires, a small file system.
 *
 *     this program's namespace (PostgreSQL, the proxies)         the host's namespace (a server)
 *         10.77.1.1  callers0 ──────────────────── callers1  10.77.1.2
 *         10.77.2.1  data0    ──────────────────── data1     10.77.2.2
 *
 * All of it vanishes with the program. Where namespaces cannot be made (mostly: who isn't root), there is nothing of it.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_HOST_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define STORM_CALLERS_HERE  "10.77.1.1"
#define STORM_CALLERS_THERE "10.77.1.2"
#define STORM_DATA_HERE     "10.77.2.1"
#define STORM_DATA_NET      "10.77.2.0/24"
#define STORM_DISK          "/mnt" /* a folder that every system has; hidden by our disk in our namespace alone */

/* This program has namespaces of its own for network and mounts, and its loopback is up. False: `why` says what is in the way. To
 * be called before there are threads. */
bool storm_host_enter(char *why, size_t why_size);

/* The second host and its wires are there. It lasts until its process is ended: by t_teardown. */
struct storm_host *storm_host_start(void);
/* Argument before those of a command that runs on that host; NULL ends them. */
const char *const *storm_host_prefix(const struct storm_host *host);
/* The wire is pulled or plugged. Data: PostgreSQL's end goes, callers: the server's, so that the other side, which tests look at,
 * sees nothing but silence. */
enum storm_wire { STORM_WIRE_CALLERS, STORM_WIRE_DATA };
void storm_host_wire(struct storm_host *host, enum storm_wire wire, bool up);

/* An empty file system of this size is at STORM_DISK; one that was there before is gone. */
void storm_disk_mount(size_t bytes);
/* It is as large as what is on it, and has no room for a byte more; or has its size again. */
void storm_disk_full(bool full);

#endif

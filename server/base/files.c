/*
 * files.c - see files.h. `holders` and the limit itself change together, under `lock`.
 */
#include "base/files.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int holders;
static rlim_t usual, all; /* the soft limit; all == 0: not set up */
static struct rlimit original;

static void set_soft(rlim_t soft)
{
    struct rlimit limit = {soft, all};
    setrlimit(RLIMIT_NOFILE, &limit); /* to no more than the hard one, which is not changed: cannot fail */
}

int hb_files_init(int kept)
{
    if (getrlimit(RLIMIT_NOFILE, &original) != 0)
        return 1024;
    all = original.rlim_max;
    rlim_t back = (rlim_t)kept < all / 4 ? (rlim_t)kept : all / 4;
    usual = all - back;
    set_soft(usual);
    return usual < INT_MAX ? (int)usual : INT_MAX;
}

void hb_files_spare_begin(void)
{
    pthread_mutex_lock(&lock);
    if (holders++ == 0 && all)
        set_soft(all);
    pthread_mutex_unlock(&lock);
}

void hb_files_spare_end(void)
{
    pthread_mutex_lock(&lock);
    if (--holders == 0 && all)
        set_soft(usual);
    pthread_mutex_unlock(&lock);
}

int hb_files_open(void)
{
    int n = 0;
    hb_files_spare_begin();
    DIR *dir = opendir("/proc/self/fd");
    hb_files_spare_end();
    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n - 1; /* the folder itself */
}

void hb_files_restore(void)
{
    if (all)
        setrlimit(RLIMIT_NOFILE, &original);
}

/*
 * files.h - the process's limit of file descriptors: as high as the machine allows, with a few kept back for what must not
 * fail for want of one.
 *
 * The kernel's limit is the process's, not a thread's, so those kept back lie above the soft limit: whoever needs one
 * raises the limit for a moment. What is opened meanwhile stays open when the limit falls again (setrlimit(2)), and once it
 * is closed its place is kept back again. For connections to PostgreSQL, which must come back while strangers' connections
 * use up all that others may have.
 */
#ifndef HOLDFAST_BASE_FILES_H
#define HOLDFAST_BASE_FILES_H

/*
 * From now on the soft limit lies `kept` (at most a quarter of all) below the hard one. Returns the soft limit. Before there
 * are threads, and once; without it the functions below do nothing.
 */
int hb_files_init(int kept);

/* Between these two, what is opened may use those kept back. From any thread; may be nested; no longer than needed. */
void hb_files_spare_begin(void);
void hb_files_spare_end(void);

/* How many are open now. */
int hb_files_open(void);

/* The soft limit is what it was before hb_files_init: for a child that executes another program. Safe after fork. */
void hb_files_restore(void);

#endif

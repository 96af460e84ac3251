/*
 * gate_file_test.c - a gate's files: every write failing in turn, the power cut at every moment, damaged files, full and read-only
 * disks.
 */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/gate.h>

#include "client/lib/gate_file.h"

static const hf_gate_options create = {.create = true};

static const char *new_gate(void)
{
    const char *dir = t_printf("%s/gate", t_tmpdir());
    hf_gate *gate;

    assert_int_equal(hf_gate_open(dir, &create, &gate, NULL), HF_OK);
    hf_gate_close(gate);
    return dir;
}

static const char *file_of(const char *dir, const char *resource)
{
    struct hfi_gate_file file;

    hfi_gate_file_init(&file, NULL, resource);
    return t_printf("%s/%s", dir, file.name);
}

static hf_result enter_and_leave(hf_gate *gate, const char *resource, int64_t token, hf_error *error)
{
    hf_gate_pass *pass = NULL;
    const hf_result result = hf_gate_enter(gate, resource, token, 1000, &pass, error);

    assert_int_equal(pass != NULL, result == HF_OK);
    hf_gate_leave(pass);
    return result;
}

/* ---- a disk that fails, and whose power is cut ---- */

/*
 * What the disk holds of the one file: `image` is on it; `pending` are writes that only the kernel has. The real file always has
 * both. A power cut leaves of each pending write all, nothing or a half; of the file's name, if the folder was not synced, too.
 */
enum { PENDING_MAX = 8 };
static struct {
    int ops;     /* done until now */
    int fail_at; /* this one fails once; -1 = none */
    int dead_at; /* from this one on all fail: the process has died */
    uint8_t image[HFI_GATE_FILE_SIZE];
    struct {
        off_t at;
        size_t len;
        uint8_t data[HFI_GATE_FILE_SIZE];
    } pending[PENDING_MAX];
    int n_pending;
    bool renamed, name_kept;
} disk;

static bool works(void)
{
    const int op = disk.ops++;

    errno = EIO;
    return op != disk.fail_at && (disk.dead_at < 0 || op < disk.dead_at);
}

static ssize_t disk_write(int fd, const void *data, size_t len, off_t at)
{
    if (!works()) {
        errno = ENOSPC;
        return -1;
    }
    assert_true(disk.n_pending < PENDING_MAX);
    disk.pending[disk.n_pending].at = at;
    disk.pending[disk.n_pending].len = len;
    memcpy(disk.pending[disk.n_pending++].data, data, len);
    return pwrite(fd, data, len, at);
}

static int disk_sync(int fd)
{
    (void)fd;
    if (!works()) {
        if (disk.dead_at < 0 || disk.ops <= disk.dead_at)
            disk.n_pending = 0; /* as Linux: what could not be written is called clean, and never written */
        return -1;
    }
    for (int i = 0; i < disk.n_pending; i++)
        memcpy(disk.image + disk.pending[i].at, disk.pending[i].data, disk.pending[i].len);
    disk.n_pending = 0;
    return 0;
}

static int disk_sync_dir(int fd)
{
    (void)fd;
    if (!works())
        return -1;
    disk.name_kept = disk.renamed;
    return 0;
}

static int disk_rename(int dir, const char *from, const char *to)
{
    if (!works())
        return -1;
    disk.renamed = true;
    return renameat(dir, from, dir, to);
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

static int plain_rename(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to);
}

static const struct hfi_gate_io bad_disk = {disk_write, disk_sync, disk_sync_dir, no_sync, disk_rename};
static const struct hfi_gate_io quick_disk = {pwrite, no_sync, no_sync, no_sync, plain_rename};

static const int64_t tokens[] = {5, 5, 7, 7, 9};
enum { N_TOKENS = sizeof(tokens) / sizeof(tokens[0]) };

/* A process enters with each token. Returns the highest that was let in, at least `highest`. */
static int64_t run_process(const char *dir, int64_t highest)
{
    hf_gate *gate;

    assert_int_equal(hfi_gate_open(dir, NULL, &bad_disk, &gate, NULL), HF_OK);
    for (int i = 0; i < N_TOKENS; i++) {
        hf_error error;
        const hf_result result = enter_and_leave(gate, "r", tokens[i], &error);
        if (result == HF_OK) {
            assert_true(tokens[i] >= highest);
            highest = tokens[i];
        } else if (result == HF_LOST) {
            assert_true(error.fence > tokens[i]);
        } else {
            assert_int_equal(result, HF_FAILED);
            assert_string_equal(error.reason, "DISK");
        }
    }
    hf_gate_close(gate);
    return highest;
}

static void reset_disk(const char *dir, int fail_at, int dead_at)
{
    memset(&disk, 0, sizeof(disk));
    disk.fail_at = fail_at;
    disk.dead_at = dead_at;
    unlink(file_of(dir, "r"));
}

/* The file as one of the 3^n ways to cut leaves it. */
static void put_image(const char *path, int way)
{
    uint8_t image[HFI_GATE_FILE_SIZE];
    int fd;

    memcpy(image, disk.image, sizeof(image));
    for (int i = 0; i < disk.n_pending; i++, way /= 3)
        memcpy(image + disk.pending[i].at, disk.pending[i].data, disk.pending[i].len * (size_t)(way % 3) / 2);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, image, sizeof(image)), sizeof(image));
    close(fd);
}

static void after_the_cut(const char *dir, int64_t highest)
{
    hf_gate *gate;
    hf_error error;
    int64_t mark;

    assert_int_equal(hfi_gate_open(dir, NULL, &quick_disk, &gate, NULL), HF_OK);
    if (hf_gate_mark(gate, "r", &mark, &error) != HF_OK)
        fail_msg("%s", error.message);
    if (mark < highest)
        fail_msg("%lld was let in, and the mark is %lld", (long long)highest, (long long)mark);
    if (highest > 1)
        assert_int_equal(enter_and_leave(gate, "r", highest - 1, &error), HF_LOST);
    assert_int_equal(enter_and_leave(gate, "r", mark > 0 ? mark : 1, &error), HF_OK);
    assert_int_equal(enter_and_leave(gate, "r", 10, &error), HF_OK);
    assert_int_equal(enter_and_leave(gate, "r", 9, &error), HF_LOST);
    hf_gate_close(gate);
}

/* The power is cut now. Returns the ways tried. */
static int cut_power(const char *dir, int64_t highest)
{
    int ways = 1;

    for (int i = 0; i < disk.n_pending; i++)
        ways *= 3;
    for (int way = 0; disk.renamed && way < ways; way++) {
        put_image(file_of(dir, "r"), way);
        after_the_cut(dir, highest);
    }
    if (!disk.name_kept) {
        assert_int_equal(highest, 0);
        unlink(file_of(dir, "r"));
        after_the_cut(dir, 0);
    }
    return ways;
}

static int count_ops(const char *dir)
{
    reset_disk(dir, -1, -1);
    assert_int_equal(run_process(dir, 0), 9);
    return disk.ops;
}

static void each_write_fails_once_in_turn(void **state)
{
    const char *dir = new_gate();
    const int n = count_ops(dir);

    (void)state;
    assert_true(n >= 15); /* create 3, settle 4, raise 3 × 3 */
    for (int fail_at = 0; fail_at < n; fail_at++) {
        int64_t highest;
        reset_disk(dir, fail_at, -1);
        highest = run_process(dir, 0);
        assert_true(highest == 9 || (highest == 7 && fail_at >= n - 3)); /* only the one try was refused */
        assert_int_equal(run_process(dir, highest), 9);
        cut_power(dir, 9);
    }
}

static void no_cut_of_the_power_loses_a_mark(void **state)
{
    const char *dir = new_gate();
    const int n = count_ops(dir);
    int ways = 0;

    (void)state;
    /* One process dies, or fails to write, at op `first`; another goes on; then the power is cut at op `second`. */
    for (int dies = 0; dies < 2; dies++) {
        for (int first = 0; first <= n; first++) {
            for (int second = first; second <= n + 8; second++) {
                int64_t highest;
                reset_disk(dir, dies ? -1 : first, dies ? first : second);
                highest = run_process(dir, 0);
                if (dies) {
                    disk.ops = first;
                    disk.dead_at = second;
                }
                highest = run_process(dir, highest);
                ways += cut_power(dir, highest);
            }
        }
    }
    print_message("%d ways\n", ways);
}

/* ---- damaged files ---- */

static void overwrite(const char *path, off_t at, const void *data, size_t len)
{
    const int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, len, at), len);
    close(fd);
}

static void copy(const char *from, const char *to, off_t at, size_t len)
{
    uint8_t bytes[HFI_GATE_FILE_SIZE];
    const int fd = open(from, O_RDONLY);

    assert_int_equal(pread(fd, bytes, len, at), len);
    close(fd);
    overwrite(to, at, bytes, len);
}

static void fails(const char *dir, const char *reason, const char *says)
{
    hf_gate *gate;
    hf_error error;
    int64_t token = -1;

    assert_int_equal(hf_gate_open(dir, NULL, &gate, NULL), HF_OK);
    for (int mark = 0; mark < 2; mark++) {
        assert_int_equal(mark ? hf_gate_mark(gate, "r", &token, &error) : enter_and_leave(gate, "r", 9, &error), HF_FAILED);
        if (strcmp(error.reason, reason) != 0 || !strstr(error.message, says) || !strstr(error.message, file_of(dir, "r")))
            fail_msg("not %s, \"%s\": %s, %s", reason, says, error.reason, error.message);
    }
    assert_int_equal(token, -1);
    assert_int_equal(enter_and_leave(gate, "neighbour", 9, &error), HF_OK);
    hf_gate_close(gate);
}

/* A gate with the mark 5 of "r" and of "s". */
static const char *with_marks(void)
{
    const char *dir = new_gate();
    hf_gate *gate;

    assert_int_equal(hf_gate_open(dir, NULL, &gate, NULL), HF_OK);
    assert_int_equal(enter_and_leave(gate, "r", 5, NULL), HF_OK);
    assert_int_equal(enter_and_leave(gate, "s", 5, NULL), HF_OK);
    hf_gate_close(gate);
    return dir;
}

static void damaged_files_are_refused(void **state)
{
    const off_t lengths[] = {0, 1, 12, 100, HFI_GATE_BLOCK, HFI_GATE_FILE_SIZE - 1, HFI_GATE_FILE_SIZE + 1};
    const uint8_t two = 2;
    const char *dir, *r;

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        dir = with_marks();
        assert_int_equal(truncate(file_of(dir, "r"), lengths[i]), 0);
        fails(dir, "CORRUPT", "truncated");
    }
    r = file_of(dir = with_marks(), "r");
    overwrite(r, 0, "#!/bin/sh\n", 10);
    fails(dir, "CORRUPT", "not a file of a gate");
    r = file_of(dir = with_marks(), "r");
    overwrite(r, 8, &two, 1);
    fails(dir, "VERSION", "another version");
    r = file_of(dir = with_marks(), "r");
    overwrite(r, 24, "x", 1); /* the name */
    fails(dir, "CORRUPT", "header is damaged");
    r = file_of(dir = with_marks(), "r");
    copy(file_of(dir, "s"), r, 0, HFI_GATE_FILE_SIZE); /* as if two names had one hash */
    fails(dir, "CORRUPT", "another resource");
    r = file_of(dir = with_marks(), "r");
    copy(file_of(dir, "s"), r, HFI_GATE_BLOCK, 2 * HFI_GATE_BLOCK); /* another one's slots */
    fails(dir, "CORRUPT", "both copies");
    r = file_of(dir = with_marks(), "r");
    overwrite(r, HFI_GATE_BLOCK + 9, "x", 1);
    overwrite(r, 2 * HFI_GATE_BLOCK + 20, "x", 1);
    fails(dir, "CORRUPT", "both copies");
    r = file_of(dir = with_marks(), "r");
    assert_int_equal(unlink(r), 0);
    assert_int_equal(mkdir(r, 0700), 0);
    fails(dir, "DISK", "");
    r = file_of(dir = with_marks(), "r");
    assert_int_equal(unlink(r), 0);
    assert_int_equal(symlink(file_of(dir, "s"), r), 0);
    fails(dir, "DISK", "");
    r = file_of(dir = with_marks(), "r");
    assert_int_equal(unlink(r), 0);
    assert_int_equal(mkfifo(r, 0600), 0);
    fails(dir, "DISK", "");
}

static void one_damaged_slot_leaves_the_other(void **state)
{
    (void)state;
    for (int slot = 1; slot <= 2; slot++) {
        const char *dir = with_marks();
        hf_gate *gate;
        hf_error error;
        int64_t mark;
        overwrite(file_of(dir, "r"), slot * HFI_GATE_BLOCK + 8, "xyz", 3);
        assert_int_equal(hf_gate_open(dir, NULL, &gate, NULL), HF_OK);
        assert_int_equal(hf_gate_mark(gate, "r", &mark, NULL), HF_OK);
        assert_int_equal(mark, 5);
        assert_int_equal(enter_and_leave(gate, "r", 4, &error), HF_LOST);
        assert_int_equal(error.fence, 5);
        assert_int_equal(enter_and_leave(gate, "r", 5, &error), HF_OK);
        overwrite(file_of(dir, "r"), (3 - slot) * HFI_GATE_BLOCK + 8, "xyz", 3); /* the other one, now that it is mended */
        assert_int_equal(enter_and_leave(gate, "r", 6, &error), HF_OK);
        hf_gate_close(gate);
    }
}

static void a_folder_that_is_emptied_is_no_gate_any_more(void **state)
{
    const char *dir = with_marks();
    hf_gate *gate, *again = NULL;
    hf_error error;
    int64_t mark;

    (void)state;
    assert_int_equal(hf_gate_open(dir, NULL, &gate, NULL), HF_OK);
    overwrite(file_of(dir, ""), 0, "xx", 2);
    assert_int_equal(hf_gate_open(dir, NULL, &again, &error), HF_FAILED);
    assert_string_equal(error.reason, "CORRUPT");
    assert_int_equal(hf_gate_open(dir, &create, &again, &error), HF_FAILED); /* nothing is made anew over it */
    assert_int_equal(unlink(file_of(dir, "")), 0);
    assert_int_equal(unlink(file_of(dir, "r")), 0);
    assert_int_equal(hf_gate_open(dir, NULL, &again, &error), HF_NOT_FOUND);
    assert_int_equal(enter_and_leave(gate, "r", 1, &error), HF_FAILED);
    assert_non_null(strstr(error.message, "not a gate any more"));
    assert_int_equal(hf_gate_mark(gate, "r", &mark, &error), HF_FAILED);
    assert_int_equal(enter_and_leave(gate, "s", 4, &error), HF_LOST);
    hf_gate_close(gate);
    assert_null(again);
}

static void what_a_crash_left_of_a_new_file_is_no_hindrance(void **state)
{
    const char *dir = new_gate();
    hf_gate *gate;

    (void)state;
    t_write_file(t_printf("%s.new", file_of(dir, "r")), "half");
    assert_int_equal(hf_gate_open(dir, NULL, &gate, NULL), HF_OK);
    assert_int_equal(enter_and_leave(gate, "r", 5, NULL), HF_OK);
    assert_int_equal(access(t_printf("%s.new", file_of(dir, "r")), F_OK), -1);
    hf_gate_close(gate);
}

/* ---- real disks ---- */

enum { CANNOT_MOUNT = 77 };

static void write_proc(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        perror(path);
    close(fd);
}

/* A file system of 64 KiB at `dir`, seen by this process only. */
static bool mount_small(const char *dir)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    char map[64];

    if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0)
        return false;
    if (uid) {
        snprintf(map, sizeof(map), "0 %u 1", uid);
        write_proc("/proc/self/uid_map", map);
        write_proc("/proc/self/setgroups", "deny");
        snprintf(map, sizeof(map), "0 %u 1", gid);
        write_proc("/proc/self/gid_map", map);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("none", dir, "tmpfs", 0, "size=64k") == 0;
}

/* For the child, where cmocka may not fail. */
#define CHECK(condition)                                                                                                           \
    do                                                                                                                             \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, error.message);                                             \
            _exit(1);                                                                                                              \
        }                                                                                                                          \
    while (0)

static hf_result try(hf_gate *gate, const char *resource, int64_t token, hf_error *error)
{
    hf_gate_pass *pass = NULL;
    const hf_result result = hf_gate_enter(gate, resource, token, 0, &pass, error);

    hf_gate_leave(pass);
    return result;
}

static void fill(const char *path)
{
    static const char zeros[4096];
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);

    while (write(fd, zeros, sizeof(zeros)) > 0)
        continue;
    close(fd);
}

static void on_small_disks(const char *dir, const char *gate_dir, const char *filler)
{
    hf_gate *gate = NULL;
    hf_error error;
    int64_t mark = -1;

    if (!mount_small(dir))
        _exit(CANNOT_MOUNT);
    fill(filler);
    CHECK(hf_gate_open(gate_dir, &create, &gate, &error) == HF_FAILED && strstr(error.message, "No space"));
    unlink(filler);
    CHECK(hf_gate_open(gate_dir, &create, &gate, &error) == HF_OK);
    CHECK(try(gate, "r", 5, &error) == HF_OK);
    fill(filler);
    CHECK(try(gate, "new", 5, &error) == HF_FAILED && strcmp(error.reason, "DISK") == 0 && strstr(error.message, "No space"));
    CHECK(hf_gate_mark(gate, "new", &mark, &error) == HF_OK && mark == 0);
    CHECK(try(gate, "r", 6, &error) == HF_OK); /* its room was taken when it was made */
    CHECK(try(gate, "r", 5, &error) == HF_LOST && error.fence == 6);
    unlink(filler);
    CHECK(try(gate, "new", 5, &error) == HF_OK);

    CHECK(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(try(gate, "r", 7, &error) == HF_FAILED && strstr(error.message, "Read-only"));
    CHECK(try(gate, "other", 7, &error) == HF_FAILED && strstr(error.message, "Read-only"));
    CHECK(hf_gate_mark(gate, "r", &mark, &error) == HF_OK && mark == 6);
    hf_gate_close(gate);
    CHECK(hf_gate_open(gate_dir, &create, &gate, &error) == HF_OK);
    hf_gate_close(gate);
    CHECK(hf_gate_open(filler, &create, &gate, &error) == HF_FAILED && strstr(error.message, "Read-only"));
    _exit(0);
}

static void full_and_read_only_disks_are_refused(void **state)
{
    const char *dir = t_tmpdir(), *gate_dir = t_printf("%s/gate", dir), *filler = t_printf("%s/filler", dir);
    int status;
    pid_t pid;

    (void)state;
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        on_small_disks(dir, gate_dir, filler);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT) {
        print_message("this user may not mount: skipped\n");
        skip();
    }
    assert_int_equal(status, 0);
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_teardown(name, t_teardown)
    const struct CMUnitTest tests[] = {
        FILE_TEST(each_write_fails_once_in_turn),
        FILE_TEST(no_cut_of_the_power_loses_a_mark),
        FILE_TEST(damaged_files_are_refused),
        FILE_TEST(one_damaged_slot_leaves_the_other),
        FILE_TEST(a_folder_that_is_emptied_is_no_gate_any_more),
        FILE_TEST(what_a_crash_left_of_a_new_file_is_no_hindrance),
        FILE_TEST(full_and_read_only_disks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * client_install_test.c - the library as others get it: installed into an empty prefix, the examples built against that by
 * pkg-config and by find_package, and the first of them run against a server (the other one: client_settlement_test.c).
 */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

static struct t_server *server;
static const char *prefix;

static struct t_result shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static struct t_result shell(const char *format, ...)
{
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server ? server->url : ""),
                         t_printf("LD_LIBRARY_PATH=%s/lib", prefix),
                         t_printf("PKG_CONFIG_PATH=%s/lib/pkgconfig", prefix),
                         "CFLAGS=" T_SANITIZE_FLAGS " -g",
                         "LDFLAGS=" T_SANITIZE_FLAGS,
                         NULL};
    const struct t_spawn_opts opts = {.env = env};
    char script[4096];
    const char *argv[] = {"bash", "-eu", "-c", script, NULL};
    va_list args;

    va_start(args, format);
    vsnprintf(script, sizeof(script), format, args);
    va_end(args);
    return t_run(argv, &opts, 120000);
}

static void expect_fine(struct t_result result, const char *says)
{
    if (result.status != 0 || !strstr(result.out, says))
        fail_msg("status %d, and not \"%s\"; stdout: %s; stderr: %s", result.status, says, result.out, result.err);
}

static int setup(void **state)
{
    (void)state;
    prefix = t_printf("%s/prefix", t_tmpdir());
    expect_fine(shell("cmake --install '%s' --prefix '%s' --component library", T_BUILD_DIR, prefix), "holdfast.h");
    server = t_server_start("--dsn", t_database(), NULL);
    t_keep();
    return 0;
}

static void only_the_public_names_are_exported(void **state)
{
    struct t_result names = shell("nm -D --defined-only '%s/lib/libholdfast.so' | awk '$2 != \"A\" {print $3}'", prefix);

    (void)state;
    expect_fine(names, "hf_acquire@@HOLDFAST_0\n");
    for (const char *line = names.out; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "hf_", 3) != 0)
            fail_msg("exported: %.*s", (int)strcspn(line, "\n"), line);
    }
    expect_fine(shell("readelf -d '%s/lib/libholdfast.so' | grep SONAME", prefix), "libholdfast.so.0]");
}

static void the_headers_are_good_c_and_cxx(void **state)
{
    (void)state;
    expect_fine(shell("cd '%s'; printf '#include <holdfast/%%s.h>\\n' holdfast gate operation > a.c; cp a.c a.cc; "
                      "cc -std=c11 -pedantic -Wall -Wextra -Werror $(pkg-config --cflags holdfast) -c a.c; "
                      "if command -v c++ >/dev/null; then "
                      "c++ -std=c++11 -pedantic -Wall -Wextra -Werror $(pkg-config --cflags holdfast) -c a.cc; fi; echo good",
                      t_tmpdir()),
                "good");
}

static void the_examples_build_by_pkg_config_and_run(void **state)
{
    const char *dir = t_tmpdir();

    (void)state;
    expect_fine(shell("cp '%s'/client/examples/* '%s'; cd '%s'; make CFLAGS=\"$CFLAGS -Werror\" 2>&1", T_SOURCE_DIR, dir, dir),
                "-lholdfast");
    expect_fine(shell("'%s/worker' pages 2", dir), "wrote 2 as version 2\nreleased\n");
    expect_fine(shell("'%s/worker' pages 2", dir), "holding pages with token 2\nwrote 3 as version 3\n");
    assert_int_equal(shell("'%s/settlement'", dir).status, 2); /* it is there, and says how it is used */
}

static void the_examples_build_by_find_package_and_run(void **state)
{
    const char *dir = t_tmpdir();

    (void)state;
    expect_fine(shell("cp '%s'/client/examples/* '%s'; cd '%s'; cmake -S . -B build -DCMAKE_PREFIX_PATH='%s'; "
                      "cmake --build build; ldd build/worker build/settlement",
                      T_SOURCE_DIR, dir, dir, prefix),
                prefix);
    expect_fine(shell("'%s/build/worker' other 1", dir), "wrote 1 as version 1\nreleased\n");
}

static void the_example_stops_when_its_lease_is_broken(void **state)
{
    const char *dir = t_tmpdir();
    struct t_proc *proc;
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), t_printf("LD_LIBRARY_PATH=%s/lib", prefix), NULL};
    const struct t_spawn_opts opts = {.env = env};
    const char *argv[] = {t_printf("%s/worker", dir), "broken", "1000", NULL};

    (void)state;
    expect_fine(shell("cp '%s'/client/examples/* '%s'; make -C '%s' 2>&1", T_SOURCE_DIR, dir, dir), "");
    proc = t_spawn(argv, &opts);
    t_sleep_ms(500);
    for (int i = 0; i < 100 && t_cli(server, "check", "broken", "1", NULL).status != 0; i++)
        t_sleep_ms(50);
    assert_int_equal(t_cli(server, "break", "broken", "--token", "1", "--reason", "test", NULL).status, 0);
    assert_int_equal(t_proc_wait(proc, 20000), 1);
    if (!strstr(t_proc_err(proc), "refused") && !strstr(t_proc_err(proc), "lost"))
        fail_msg("%s", t_proc_err(proc));
}

static void the_program_comes_with_its_completion(void **state)
{
    const char *to = t_printf("%s/programs", prefix);
    (void)state;

    expect_fine(shell("cmake --install '%s' --prefix '%s' --component programs", T_BUILD_DIR, to), "bin/holdfast");
    expect_fine(shell("bash -c '. %s/share/bash-completion/completions/holdfast && complete -p holdfast'", to),
                "_holdfast holdfast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_public_names_are_exported),         cmocka_unit_test(the_headers_are_good_c_and_cxx),
        cmocka_unit_test(the_examples_build_by_pkg_config_and_run),   cmocka_unit_test(the_examples_build_by_find_package_and_run),
        cmocka_unit_test(the_example_stops_when_its_lease_is_broken), cmocka_unit_test(the_program_comes_with_its_completion),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

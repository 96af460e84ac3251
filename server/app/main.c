/*
 * main.c - holdfastd: reads the settings and does what they ask for.
 */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/admin_key.h"
#include "app/config.h"
#include "app/serve.h"
#include "store/cluster.h"

/* Blocks from LARGE bytes on are the kernel's again as soon as they are freed. By itself malloc learns from the first large one to
 * keep those that follow, so that what callers had held for them once stays, in pieces, beside what is held now. */
enum { LARGE = 256 << 10, KEPT = 4 << 20 };

static enum app_exit print_dsn(const struct app_config *cfg)
{
    char dsn[4096];
    struct st_problem problem;

    if (!cfg->dsn && !st_cluster_dsn_of(cfg->data_dir, dsn, sizeof(dsn), &problem)) {
        fprintf(stderr, "holdfastd: %s\n", problem.text);
        return APP_CONFIGURATION;
    }
    puts(cfg->dsn ? cfg->dsn : dsn);
    return APP_DRAINED;
}

static enum app_exit act(const struct app_config *cfg)
{
    switch (cfg->action) {
    case APP_HELP:
        app_config_help(stdout);
        return APP_DRAINED;
    case APP_VERSION:
        puts("holdfastd " HOLDFAST_VERSION);
        return APP_DRAINED;
    case APP_PRINT_DSN:
        return print_dsn(cfg);
    case APP_CREATE_ADMIN_KEY:
        log_setup(LOG_AT_WARN, cfg->log_format, NULL, NULL);
        return app_create_admin_key(cfg);
    default:
        log_setup(cfg->log_level, cfg->log_format, NULL, NULL);
        return app_serve(cfg);
    }
}

/* A closed 0, 1 or 2 would be given to a socket, and output written into it. */
static void fill_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    struct app_config cfg;
    struct app_error error;
    enum app_exit status = APP_CONFIGURATION;

    (void)argc;
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, KEPT);
    fill_standard_files();
    signal(SIGPIPE, SIG_IGN);
    if (app_config_read(&cfg, (const char *const *)argv, getenv, &error))
        status = act(&cfg);
    else
        fprintf(stderr, "holdfastd: %s\n", error.text);
    app_config_release(&cfg);
    return status;
}

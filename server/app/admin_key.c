/*
 * admin_key.c - see admin_key.h.
 */
#include "app/admin_key.h"

#include <stdio.h>

#include "base/random.h"
#include "service/check.h"
#include "service/key.h"
#include "store/admin_key.h"
#include "store/cluster.h"
#include "store/migrate.h"

static bool random_bytes(void *arg, void *buffer, size_t size)
{
    (void)arg;
    return hb_random_bytes(buffer, size);
}

static enum app_exit fail(enum app_exit status, const char *text)
{
    fprintf(stderr, "holdfastd: --create-admin-key: %s\n", text);
    return status;
}

static enum app_exit create(const char *dsn, const char *name)
{
    char text[SVC_KEY_SIZE];
    struct svc_key key;
    struct st_problem problem;
    struct st_migrate_report report;
    struct hp_status status;

    if (!svc_check_key_name("NAME", name, &status))
        return fail(APP_CONFIGURATION, status.message);
    if (st_migrate(dsn, NULL, &report, &problem) != ST_MIGRATE_OK)
        return fail(APP_FAILURE, problem.text);
    if (!svc_key_make(random_bytes, NULL, text, &key))
        return fail(APP_FAILURE, "the system has no random bytes to give");
    if (!st_create_admin_key(dsn, key.id, name, (struct st_bytes){key.hash, sizeof(key.hash)}, &problem))
        return fail(APP_FAILURE, problem.text);
    puts(text);
    fprintf(
        stderr,
        "holdfastd: this key of \"%s\" may do everything and is not shown again; keep it as `holdfast` finds it in HOLDFAST_KEY\n",
        name);
    return fflush(stdout) == 0 ? APP_DRAINED : fail(APP_FAILURE, "the key could not be written; revoke it and make another");
}

enum app_exit app_create_admin_key(const struct app_config *cfg)
{
    char dsn[4096];
    struct st_problem problem, path_problem;
    struct st_cluster *cluster = NULL;
    struct st_cluster_config cluster_cfg = {cfg->data_dir, cfg->connections, NULL};

    if (cfg->dsn)
        return create(cfg->dsn, cfg->admin_key);
    switch (st_cluster_start(&cluster_cfg, &cluster, &problem)) {
    case ST_CLUSTER_OK:
        break;
    case ST_CLUSTER_REFUSED:
        return fail(APP_CONFIGURATION, problem.text);
    default: /* most likely a server is running on it: then its PostgreSQL answers */
        if (!st_cluster_dsn_of(cfg->data_dir, dsn, sizeof(dsn), &path_problem))
            return fail(APP_FAILURE, problem.text);
        return create(dsn, cfg->admin_key);
    }
    enum app_exit status = create(st_cluster_dsn(cluster), cfg->admin_key);
    if (!st_cluster_stop(cluster))
        return fail(APP_FAILURE, "the private PostgreSQL did not stop in time; the next server on the folder adopts it");
    return status;
}

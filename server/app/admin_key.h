/*
 * admin_key.h - holdfastd --create-admin-key NAME: the first key, made on the console by who may reach the database.
 */
#ifndef HOLDFAST_APP_ADMIN_KEY_H
#define HOLDFAST_APP_ADMIN_KEY_H

#include "app/config.h"
#include "app/serve.h"

/* A new key that may do everything stands alone on a line of stdout, once; only what cannot be turned back into it is kept. Works
 * beside running servers and without one: a private PostgreSQL that isn't running is started and stopped again. Anything else is
 * told on stderr. Blocks. */
enum app_exit app_create_admin_key(const struct app_config *cfg);

#endif

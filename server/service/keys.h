/*
 * keys.h - what keys.c and keys_list.c share.
 */
#ifndef HOLDFAST_SERVICE_KEYS_H
#define HOLDFAST_SERVICE_KEYS_H

#include "holdfast/v1/admin.pb-c.h"
#include "service/call.h"

/* It borrows the row's strings. NULL: no memory. */
Holdfast__V1__Key *svc_key_message(struct hp_arena *arena, const struct st_principal_row *row);
/* Whether the caller might have given all of them. */
bool svc_may_give_all(const struct svc_call *sc, const struct st_grant *grants, size_t n);

#endif

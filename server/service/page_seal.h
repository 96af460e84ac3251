/*
 * page_seal.h - page tokens of lists that leave out what their caller may not see. A page may end at a name that was left out, and
 * a token that tells it would give it away. So callers that don't see everything get tokens that are sealed with what only the
 * servers of a database know (the epoch of its principals), all of one length, and no others are taken from them: who may choose
 * where a page begins finds the names that lie behind by trying. After a fail-over such a token is refused, and the list is to be
 * begun again.
 */
#ifndef HOLDFAST_SERVICE_PAGE_SEAL_H
#define HOLDFAST_SERVICE_PAGE_SEAL_H

#include "service/call.h"
#include "service/check.h"

/* As svc_page_after, of a list of which the caller may see a part. */
bool svc_scoped_page_after(struct svc_call *sc, enum svc_page_kind kind, const char *page_token, const char **after,
                           struct hp_status *status);
/* As svc_page_token, of such a list. NULL: no memory. */
char *svc_scoped_page_token(struct svc_call *sc, enum svc_page_kind kind, const char *name);

/* Rows to be looked at for a page of `max`: as many as any page may have, for those of whose rows some are left out; else pages of
 * one row each would tell how many. */
int64_t svc_scoped_page_rows(const struct svc_call *sc, int64_t max);
/* The same of lists in the order of a number, which would tell how much others do. */
bool svc_scoped_page_after_number(struct svc_call *sc, enum svc_page_kind kind, const char *page_token, int64_t *after,
                                  struct hp_status *status);
char *svc_scoped_page_token_number(struct svc_call *sc, enum svc_page_kind kind, int64_t number);

#endif

/*
 * rpc_head.c - what a request's header says: which protocol, which encodings, how much time. No state.
 *
 * Looked at for each call, so once over the headers, by the first letter.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "net/rpc_call.h"

enum { TIMEOUT_MAX_MS = 3600000, CONNECT_TIMEOUT_DIGITS = 10 };

/* ---- reading ---- */

static void take_first(const char **to, const char *value)
{
    if (!*to)
        *to = value;
}

static void read_c(struct rpc_head *head, const char *name, const char *value)
{
    if (!strcmp(name, "content-type"))
        take_first(&head->content_type, value);
    else if (!strcmp(name, "connect-timeout-ms"))
        take_first(&head->timeout, value);
    else if (!strcmp(name, "connect-protocol-version"))
        take_first(&head->version, value);
    else if (!strcmp(name, "content-encoding") || !strcmp(name, "connect-content-encoding"))
        take_first(&head->encoding, value);
    else if (!strcmp(name, "connect-accept-encoding"))
        head->accept = value; /* before accept-encoding, which a browser adds by itself */
}

static void read_g(struct rpc_head *head, const char *name, const char *value)
{
    if (!strcmp(name, "grpc-timeout"))
        take_first(&head->timeout, value);
    else if (!strcmp(name, "grpc-encoding"))
        take_first(&head->encoding, value);
    else if (!strcmp(name, "grpc-accept-encoding"))
        head->accept = value;
}

void rpc_head_read(struct rpc_head *head, const struct net_exchange *x)
{
    *head = (struct rpc_head){NULL};
    for (size_t i = 0; i < x->n_headers; i++) {
        const char *name = x->headers[i].name, *value = x->headers[i].value;
        switch (name[0]) {
        case 'c':
            read_c(head, name, value);
            break;
        case 'g':
            read_g(head, name, value);
            break;
        case 'a':
            if (!strcmp(name, "accept-encoding"))
                take_first(&head->accept, value);
            break;
        case 'o':
            if (!strcmp(name, "origin"))
                take_first(&head->origin, value);
            break;
        default:
            break;
        }
    }
}

const struct rpc_protocol *rpc_protocol_of(const char *content_type, bool *json, const char **reply_type)
{
    static const struct {
        const char *type;
        const struct rpc_protocol *protocol;
        bool json;
    } types[] = {
        {"application/grpc", &rpc_grpc, false},
        {"application/grpc+proto", &rpc_grpc, false},
        {"application/json", &rpc_connect, true},
        {"application/proto", &rpc_connect, false},
        {"application/connect+json", &rpc_connect_stream, true},
        {"application/connect+proto", &rpc_connect_stream, false},
    };
    size_t len = content_type ? strcspn(content_type, "; \t") : 0; /* parameters say nothing that matters: JSON is UTF-8 */
    for (size_t i = 0; len && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strlen(types[i].type) == len && !strncasecmp(types[i].type, content_type, len)) {
            *json = types[i].json;
            *reply_type = types[i].type;
            return types[i].protocol;
        }
    }
    return NULL;
}

/* ---- encodings ---- */

/* Whether the parameters, up to `end`, say q=0. */
static bool refused_by_weight(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at != ';' && *at != ' ' && *at != '\t')
            continue;
        if (end - at > 3 && (at[1] == 'q' || at[1] == 'Q') && at[2] == '=')
            return at[3] == '0' && strspn(at + 3, "0.") >= strcspn(at + 3, ", \t;");
    }
    return false;
}

bool rpc_accepts_gzip(const char *list)
{
    while (list && *list) {
        list += strspn(list, ", \t");
        size_t len = strcspn(list, ","), token = strcspn(list, ",; \t");
        if (token == 4 && !strncasecmp(list, "gzip", 4))
            return !refused_by_weight(list + token, list + len);
        list += len;
    }
    return false;
}

static bool take_encoding(struct rpc_call *rc, const char *encoding, struct hp_status *status)
{
    rc->in_gzip = encoding && !strcasecmp(encoding, "gzip");
    if (!encoding || rc->in_gzip || !strcasecmp(encoding, "identity") || !encoding[0])
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, rc->protocol == &rpc_grpc ? "grpc-encoding" : "content-encoding", encoding,
                        strlen(encoding), "gzip or identity");
    status->code = HP_UNIMPLEMENTED; /* gRPC's doc/compression.md, and Connect's */
    return false;
}

/* ---- time ---- */

static bool parse_ms(const char *text, int64_t *ms)
{
    int64_t value = 0;
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > CONNECT_TIMEOUT_DIGITS || text[n])
        return false;
    for (size_t i = 0; i < n; i++)
        value = value * 10 + (text[i] - '0');
    *ms = value;
    return true;
}

static bool take_timeout(struct rpc_call *rc, const char *timeout, struct hp_status *status)
{
    bool grpc = rc->protocol == &rpc_grpc;
    bool streams = rc->method && (rc->method->server_streams || rc->method->client_streams);
    int64_t ms = rc->rpc->cfg.default_wait_ms;
    rc->call.deadline_ms = streams ? INT64_MAX : rc->call.received_ms + ms;
    if (!timeout)
        return true;
    if (!(grpc ? hp_grpc_timeout_parse(timeout, &ms) : parse_ms(timeout, &ms))) {
        hp_status_bad_field(status, HP_R_MALFORMED, grpc ? "grpc-timeout" : "connect-timeout-ms", timeout, strlen(timeout),
                            grpc ? "at most 8 digits and one of H M S m u n" : "at most 10 digits");
        return false;
    }
    if (ms == 0) {
        hp_status_set(status, HP_R_UNSPECIFIED, "the call's time was over when it came");
        status->code = HP_DEADLINE_EXCEEDED;
        return false;
    }
    if (!streams && ms > TIMEOUT_MAX_MS)
        ms = TIMEOUT_MAX_MS;
    rc->call.deadline_ms = rc->call.received_ms + ms;
    return true;
}

/* ---- all of it ---- */

bool rpc_head_take(struct rpc_call *rc, const struct rpc_head *head, struct hp_status *status)
{
    const struct hp_method *method = rc->method;
    if (!take_encoding(rc, head->encoding, status) || !take_timeout(rc, head->timeout, status))
        return false;
    rc->out_gzip = rpc_accepts_gzip(head->accept);
    if (rc->protocol == &rpc_grpc)
        return true;
    if (head->version && strcmp(head->version, "1") != 0) {
        hp_status_bad_field(status, HP_R_MALFORMED, "connect-protocol-version", head->version, strlen(head->version), "1");
        return false;
    }
    if (rc->protocol == &rpc_connect && method && (method->server_streams || method->client_streams)) {
        hp_status_set(status, HP_R_NO_SUCH_METHOD, "%s is a stream: send application/connect+%s, or gRPC", method->path,
                      rc->json ? "json" : "proto");
        hp_status_meta(status, "method", "%s", method->path);
        return false;
    }
    return true;
}

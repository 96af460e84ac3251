/* crowd_calls.c - see crowd.h. Messages are those of the interface; what an answer has to say is looked at, but for the order of
 * versions. */
#include "crowd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/resource.pb-c.h"

enum { NAME = 32, ITEM_MAX = 64, HEAD_MAX = 512, WAIT_MS = 600000 };
enum { RENEW, WRITE, RELEASE, ACQUIRE };
static char namespace[] = "default";
int64_t *crowd_tokens;

void crowd_keep_tokens(const char *path)
{
    const int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    const size_t size = crowd.keys * sizeof(int64_t);

    if (path && (fd < 0 || (lseek(fd, 0, SEEK_END) < (off_t)size && ftruncate(fd, (off_t)size) < 0)))
        crowd_die("%s: %s", path, strerror(errno));
    crowd_tokens = mmap(NULL, size, PROT_READ | PROT_WRITE, path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (crowd_tokens == MAP_FAILED)
        crowd_die("no memory");
}

size_t crowd_payload_max(void)
{
    return HEAD_MAX + crowd.value_size + ITEM_MAX * crowd.items;
}

/* The resources go by chance, so that neither pages nor index are read in order. (xorshift64*) */
static uint64_t chance(void)
{
    static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

/* One of the slot's own resources in part `part` of `parts`: so a call can have several, none of them twice. */
static size_t choose(const struct crowd_slot *slot, size_t part, size_t parts)
{
    const size_t own = (crowd.keys - slot->id + slot->of - 1) / slot->of, each = own / parts;

    return slot->id + slot->of * (part * each + chance() % each);
}

static int64_t token_of(size_t key)
{
    return crowd_tokens[key] ? crowd_tokens[key] : 1;
}

static void name_of(size_t key, char *name)
{
    snprintf(name, NAME, "growth/%08zu", key);
}

/* ---- requests ---- */

static size_t ask_renew(const struct crowd_slot *slot, uint8_t *out)
{
    static Holdfast__V1__LeaseItem item[1000];
    static Holdfast__V1__LeaseItem *items[1000];
    static char name[1000][NAME];
    Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
    const bool many = crowd.kind == CROWD_RENEW_MANY;

    request.namespace_ = namespace;
    request.ttl_ms = crowd.ttl_ms;
    request.n_items = many ? crowd.items : 1;
    request.items = items;
    for (size_t i = 0; i < request.n_items; i++) {
        const size_t key = many ? choose(slot, i, crowd.items) : slot->key;
        holdfast__v1__lease_item__init(&item[i]);
        name_of(key, name[i]);
        item[i].resource = name[i];
        item[i].token = token_of(key);
        items[i] = &item[i];
    }
    return holdfast__v1__renew_request__pack(&request, out);
}

/* Noise, so that what is stored cannot be made smaller, and another piece of it each time: of an update, PostgreSQL's WAL has only
 * what has changed. */
static uint8_t *new_value(void)
{
    enum { PIECES = 4096 };
    static uint8_t *noise;

    if (!noise) {
        const size_t size = crowd.value_size + PIECES;
        noise = malloc(size + sizeof(uint64_t));
        if (!noise)
            crowd_die("no memory");
        for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
            const uint64_t piece = chance();
            memcpy(noise + i, &piece, sizeof(piece));
        }
    }
    return noise + chance() % PIECES;
}

static size_t ask_write(const struct crowd_slot *slot, uint8_t *out)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct timespec now;
    char name[NAME];

    clock_gettime(CLOCK_REALTIME, &now);
    name_of(slot->key, name);
    request.namespace_ = namespace;
    request.resource = name;
    request.token = token_of(slot->key);
    request.write_seq = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000; /* rises from run to run */
    request.value.data = new_value();
    request.value.len = crowd.value_size;
    return holdfast__v1__write_request__pack(&request, out);
}

static size_t ask_release(const struct crowd_slot *slot, uint8_t *out)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items[1] = {&item};
    char name[NAME];

    name_of(slot->key, name);
    item.resource = name;
    item.token = token_of(slot->key);
    request.namespace_ = namespace;
    request.n_items = 1;
    request.items = items;
    return holdfast__v1__release_request__pack(&request, out);
}

static size_t ask_acquire(const struct crowd_slot *slot, uint8_t *out)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char name[NAME], request_id[64], holder[64], *resources[1] = {name};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    name_of(slot->key, name);
    snprintf(request_id, sizeof(request_id), "%08zx-%016" PRIx64, slot->id,
             (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
    snprintf(holder, sizeof(holder), "crowd:%08zx", slot->id);
    request.namespace_ = namespace;
    request.resources = resources;
    request.n_resources = 1;
    request.holder = holder;
    request.ttl_ms = crowd.ttl_ms;
    request.request_id = request_id;
    request.wait_ms = crowd.kind == CROWD_WAIT ? WAIT_MS : 0;
    return holdfast__v1__acquire_request__pack(&request, out);
}

/* Which call the slot's operation has now. */
static unsigned what(const struct crowd_slot *slot)
{
    switch (crowd.kind) {
    case CROWD_WRITE:
        return WRITE;
    case CROWD_CYCLE:
        return slot->step == 0 ? RELEASE : ACQUIRE;
    case CROWD_MIX:
        return slot->step;
    case CROWD_TAKE:
    case CROWD_WAIT:
        return ACQUIRE;
    default:
        return RENEW;
    }
}

bool crowd_ask(struct crowd_slot *slot, Holdfast__V1__Call *call, uint8_t *out)
{
    static size_t taken;
    static char *methods[] = {"/holdfast.v1.LeaseService/Renew", "/holdfast.v1.ResourceService/Write",
                              "/holdfast.v1.LeaseService/Release", "/holdfast.v1.LeaseService/Acquire"};
    static size_t (*const asks[])(const struct crowd_slot *, uint8_t *) = {ask_renew, ask_write, ask_release, ask_acquire};

    if (crowd.kind == CROWD_TAKE && taken == crowd.keys)
        return false;
    if (crowd.kind == CROWD_TAKE)
        slot->key = taken++;
    else if (crowd.kind == CROWD_WAIT)
        slot->key = 0;
    else if (slot->step == 0)
        slot->key = choose(slot, 0, 1);
    call->method = methods[what(slot)];
    call->timeout_ms = crowd.kind == CROWD_WAIT ? WAIT_MS : 0;
    call->payload.data = out;
    call->payload.len = asks[what(slot)](slot, out);
    return true;
}

/* ---- answers ---- */

static void wrong(const struct crowd_slot *slot, const char *call)
{
    crowd_die("growth/%08zu: the answer to %s is not what it should be (token %" PRId64 ")", slot->key, call, token_of(slot->key));
}

static size_t take_renew(struct crowd_slot *slot, const ProtobufCBinaryData *data)
{
    Holdfast__V1__RenewResponse *response = holdfast__v1__renew_response__unpack(NULL, data->len, data->data);
    size_t n = 0;

    if (!response || response->n_items != (crowd.kind == CROWD_RENEW_MANY ? crowd.items : 1))
        wrong(slot, "Renew");
    for (size_t i = 0; i < response->n_items; i++)
        n += response->items[i]->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
    if (n < response->n_items)
        wrong(slot, "Renew");
    holdfast__v1__renew_response__free_unpacked(response, NULL);
    return n;
}

static size_t take_write(struct crowd_slot *slot, const ProtobufCBinaryData *data)
{
    Holdfast__V1__WriteResponse *response = holdfast__v1__write_response__unpack(NULL, data->len, data->data);

    if (!response || response->replayed || response->version < 1)
        wrong(slot, "Write");
    holdfast__v1__write_response__free_unpacked(response, NULL);
    return 1;
}

static size_t take_release(struct crowd_slot *slot, const ProtobufCBinaryData *data)
{
    Holdfast__V1__ReleaseResponse *response = holdfast__v1__release_response__unpack(NULL, data->len, data->data);

    if (!response || response->n_items != 1 || !response->items[0]->was_held)
        wrong(slot, "Release");
    holdfast__v1__release_response__free_unpacked(response, NULL);
    return crowd.kind == CROWD_MIX;
}

static size_t take_acquire(struct crowd_slot *slot, const ProtobufCBinaryData *data)
{
    Holdfast__V1__AcquireResponse *response = holdfast__v1__acquire_response__unpack(NULL, data->len, data->data);

    if (!response || response->outcome_case != HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED ||
        response->granted->n_grants != 1 || response->granted->grants[0]->token <= crowd_tokens[slot->key])
        wrong(slot, "Acquire");
    crowd_tokens[slot->key] = response->granted->grants[0]->token;
    holdfast__v1__acquire_response__free_unpacked(response, NULL);
    return 1;
}

size_t crowd_take(struct crowd_slot *slot, const Holdfast__V1__Reply *reply)
{
    static size_t (*const takes[])(struct crowd_slot *, const ProtobufCBinaryData *) = {take_renew, take_write, take_release,
                                                                                        take_acquire};
    size_t n;

    if (reply->code != 0)
        crowd_die("growth/%08zu: status %d: %s", slot->key, reply->code, reply->message);
    n = takes[what(slot)](slot, &reply->payload);
    if (crowd.kind == CROWD_CYCLE)
        slot->step = (slot->step + 1) % 2;
    else if (crowd.kind == CROWD_MIX)
        slot->step = (slot->step + 1) % 4;
    return n;
}

bool crowd_unfinished(const struct crowd_slot *slot)
{
    return (crowd.kind == CROWD_CYCLE || crowd.kind == CROWD_MIX) && what(slot) == ACQUIRE;
}

/*
 * canon_fuzz.c - canonical JSON of bytes that anybody sends: what is canonical is UTF-8, is canonical itself, and doesn't change
 * when white space is put between; what is refused is refused at a place within it and leaves the buffer alone.
 */
#include "fuzz.h"

#include <string.h>

#include "proto/c/canon.h"
#include "proto/c/wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

/* `text`, canonical, with a space before and behind each token outside its strings. */
static void spread(struct hp_buf *out, const struct hp_buf *text)
{
    bool string = false;

    for (size_t i = 0; i < text->len; i++) {
        const char c = (char)text->data[i];
        const bool token = !string && strchr("{}[]:,", c);

        if (token)
            hp_buf_addch(out, ' ');
        hp_buf_addch(out, c);
        if (token)
            hp_buf_addch(out, '\n');
        if (string && c == '\\')
            hp_buf_addch(out, (char)text->data[++i]);
        else if (c == '"')
            string = !string;
    }
}

static void must_be(const struct hp_buf *json, const struct hp_buf *want)
{
    struct hp_buf again = HP_BUF_INIT;

    MUST(hp_canonical_json((const char *)json->data, json->len, &again, NULL));
    MUST(again.len == want->len && memcmp(again.data, want->data, want->len) == 0);
    hp_buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hp_buf out = HP_BUF_INIT, wide = HP_BUF_INIT;
    struct hp_canon_error error = {0};
    const bool done = hp_canonical_json((const char *)data, size, &out, &error);

    if (done) {
        MUST(out.len > 0 && hp_utf8_valid(out.data, out.len));
        must_be(&out, &out);
        spread(&wide, &out);
        must_be(&wide, &out);
    } else {
        MUST(error.text && error.at <= size && !error.no_memory);
        MUST(out.len == 0 && !out.failed);
    }
    hp_buf_release(&out);
    hp_buf_release(&wide);
    return 0;
}

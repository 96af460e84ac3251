/* SHA-256: the examples of FIPS 180-4, and every length around a block's end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proto/c/sha256.h"

static void assert_digest(const void *data, size_t len, const char *hex)
{
    uint8_t digest[HP_SHA256_SIZE];
    char text[2 * HP_SHA256_SIZE + 1];

    hp_sha256(data, len, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

static void it_is_that_of_fips_180_4(void **state)
{
    static char as[1000000];

    (void)state;
    memset(as, 'a', sizeof(as));
    assert_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(as, sizeof(as), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The padding goes into one block or two. Known by `printf a%.0s $(seq N) | sha256sum`. */
static void lengths_around_the_end_of_a_block(void **state)
{
    static const struct {
        size_t len;
        const char *hex;
    } known[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
    };
    char as[128];

    (void)state;
    memset(as, 'a', sizeof(as));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_digest(as, known[i].len, known[i].hex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_fips_180_4),
        cmocka_unit_test(lengths_around_the_end_of_a_block),
    };

    return cmocka_run_group_tests_name("proto/sha256", tests, NULL, NULL);
}

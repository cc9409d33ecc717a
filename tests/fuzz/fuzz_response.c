/* What a server inside a container answers: heads and chunks. However the bytes are cut, the same
 * must come out, and what is accepted has one meaning only. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/chunked.h"
#include "proxy/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Not assert(), which a release build leaves out. */
static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_head(const char *data, size_t size)
{
    struct response response, again;
    const char *why, *at = NULL;
    enum head_state state = response_check(data, size, &response, &why);
    check((state == HEAD_BAD) == (why != NULL));
    if (state != HEAD_COMPLETE)
        return;
    check(response.size <= size && memcmp(data + response.size - 4, "\r\n\r\n", 4) == 0);
    check(!(response.chunked && response.length >= 0));
    check(response.length >= -1 && response.status >= 100 && response.status <= 999);
    struct span name, value, line;
    unsigned fields = 0;
    while (response_field(data, &response, &at, &name, &value, &line)) {
        check(name.size && value.at + value.size <= data + response.size);
        check(!memchr(line.at, '\n', line.size) && !memchr(line.at, '\r', line.size));
        fields++;
    }
    check(fields == response.fields);
    /* It is the same head without what follows, and not complete with a byte less. */
    check(response_check(data, response.size, &again, &why) == HEAD_COMPLETE);
    check(again.size == response.size && again.length == response.length);
    check(response_check(data, response.size - 1, &again, &why) == HEAD_INCOMPLETE);
}

static void check_chunks(const char *data, size_t size)
{
    struct chunked whole = {0}, pieces = {0};
    CLEANUP_BUF struct buf plain = BUF_INIT(1 << 20);
    CLEANUP_BUF struct buf bytewise = BUF_INIT(1 << 20);
    long taken = chunked_scan(&whole, data, size, &plain), sum = 0, one = 1;
    for (size_t i = 0; i < size && one == 1; i++) {
        one = chunked_scan(&pieces, data + i, 1, &bytewise);
        sum += one > 0 ? one : 0;
    }
    check(taken < 0 ? one < 0 : sum == taken);
    if (taken < 0)
        return;
    check((size_t)taken <= size && whole.done == pieces.done);
    check(plain.size == bytewise.size &&
          (plain.size == 0 || memcmp(plain.data, bytewise.data, plain.size) == 0));
    if (whole.done)
        check(taken >= 5 && memcmp(data + taken - 4, "\r\n\r\n", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    /* A copy of exactly this size, so that a read past its end is seen. */
    char *data = malloc(size ? size : 1);
    if (!data)
        return 0;
    if (size)
        memcpy(data, bytes, size);
    if (size)
        check_head(data, size);
    check_chunks(data, size);
    free(data);
    return 0;
}

/* Any bytes as the answer of a server in a container: the head is never read past its end, and what
 * a redirect leads to is a target that can stand in a request line. Build with
 *   clang -fsanitize=fuzzer,address -Iemulator … or with -DFUZZ_MAIN for a plain program that reads
 * the files it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container/port_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_target(const struct buf *target)
{
    require(target->size > 0 && target->data[0] == '/');
    for (size_t i = 0; i < target->size; i++)
        require(target->data[i] > ' ' && target->data[i] < 0x7f);
}

static void follow(const struct port_head *head)
{
    CLEANUP_BUF struct buf first = BUF_INIT(PORT_TARGET_MAX);
    CLEANUP_BUF struct buf second = BUF_INIT(PORT_TARGET_MAX);
    uint16_t port = 8080;
    if (port_redirect("/a/b?c", head->location, head->location_size, &port, &first) != 1)
        return;
    check_target(&first);
    require(port > 0);
    /* A target is its own target. */
    require(port_target(&second, first.data, first.size) < 0 ||
            (second.size == first.size && memcmp(second.data, first.data, first.size) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct port_head head, again;
    char *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    int result = port_head_parse(exact, size, &head);
    if (result == 1) {
        require(head.status >= 100 && head.status <= 999);
        require(size > 0 && port_head_parse(exact, size, &again) == 1);
        if (head.location)
            follow(&head);
    }
    CLEANUP_BUF struct buf target = BUF_INIT(PORT_TARGET_MAX);
    if (port_target(&target, exact, size) == 0)
        check_target(&target);
    free(exact);
    return 0;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static uint8_t data[1 << 16];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rbe");
        if (!file)
            return 1;
        size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}
#endif

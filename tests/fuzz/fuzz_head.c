/* Any bytes as the start of a connection: head_check and owner_find never read past them, say the
 * same twice, and a longer input never turns a complete head into another. Build with
 *   clang -fsanitize=fuzzer,address -Iemulator … or with -DFUZZ_MAIN for a plain program that reads
 * the files it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/head.h"
#include "http/owner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head, again;
    struct owner_rules rules;
    struct owner_answer answer;
    struct refusal why;
    const struct refusal *fault;
    char *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    enum head_state state = head_check(exact, size, &head, &fault);
    require((state == HEAD_BAD) == (fault != NULL));
    if (state == HEAD_COMPLETE) {
        require(head.size <= size && head.size <= HEAD_MAX && head.path.size > 0);
        require(!(head.chunked && head.length >= 0));
        require(head_check(exact, head.size, &again, &fault) == HEAD_COMPLETE);
        require(again.size == head.size);
        require(head_check(exact, head.size - 1, &again, &fault) == HEAD_INCOMPLETE);
        owner_rules_init(&rules, size % 2 ? "0.0.0.0" : NULL, size % 3 ? NULL : "token");
        if (owner_find(&rules, &head, &answer, &why))
            require(strlen(answer.label) > 0);
        else
            require(why.status >= 400);
    }
    free(exact);
    return 0;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static uint8_t data[1 << 20];
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

/* Any bytes as a Worker's script: the tokens lie within the text and in order, pairs are mutual,
 * and the questions of the checks can be asked. Without libFuzzer, -DFUZZ_MAIN makes a program that
 * reads the files it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct script *script)
{
    char text[64];
    for (size_t call = script_call(script, "f", 0); call < script->count;
         call = script_call(script, "f", call + 1)) {
        for (size_t n = 0; n < 3; n++) {
            struct tokens argument = script_argument(script, call, n);
            script_member(script, argument, "m");
            script_text(script, argument.from, text, sizeof text);
        }
    }
    script_exports(script, "f");
    script_names(script, "f");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script;
    char *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    if (script_read(&script, exact, size) == 0) {
        size_t end = 0;
        for (size_t i = 0; i < script.count; i++) {
            const struct token *token = &script.tokens[i];
            if (token->at < end || token->size == 0 || token->at + token->size > size ||
                script.tokens[token->pair].pair != i)
                abort();
            end = token->at + token->size;
        }
        ask(&script);
    }
    script_free(&script);
    free(exact);
    return 0;
}

#ifdef FUZZ_MAIN
int main(int argc, char **argv)
{
    static char bytes[1 << 20];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 1;
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, fread(bytes, 1, sizeof bytes, file));
        fclose(file);
    }
    return 0;
}
#endif

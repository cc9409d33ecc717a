/* Any bytes as a configuration file: jsonc_parse never reads past them, and gives a value or an error
 * that names the file. Without libFuzzer, -DFUZZ_MAIN makes a program that reads the files it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/jsonc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    char *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    json_t *value = jsonc_parse(exact, size, "fuzz.jsonc", &err);
    if (!value && (err.code == 0 || strncmp(err.text, "fuzz.jsonc:", 11) != 0))
        abort();
    static const struct place_step path[] = {{.name = "a"}, {.index = 1}, {.name = "b"}};
    for (size_t steps = 0; value && steps <= 3; steps++)
        jsonc_locate(exact, size, path, steps);
    json_decref(value);
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

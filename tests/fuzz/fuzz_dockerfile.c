/* Any bytes as a Dockerfile: dockerfile_read never reads past them, and gives facts that hold
 * together or an error that names the file. Without libFuzzer, -DFUZZ_MAIN makes a program that
 * reads the files it is given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/dockerfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct dockerfile dockerfile;
    char *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    json_t *vars = json_pack("{s:s, s:s}", "A", "8080 9000-9001", "B", "x/y:1");
    int result = dockerfile_read(exact, size, "Fuzzfile", vars, &dockerfile, &err);
    json_decref(vars);
    if (result < 0 && (err.code == 0 || strncmp(err.text, "Fuzzfile:", 9) != 0))
        abort();
    if (result == 0 && (!dockerfile.image[0] || dockerfile.from_line < 1))
        abort();
    for (size_t i = 0; i < dockerfile.port_count; i++) {
        if (dockerfile.ports[i].first < 1 || dockerfile.ports[i].last < dockerfile.ports[i].first)
            abort();
    }
    dockerfile_free(&dockerfile);
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

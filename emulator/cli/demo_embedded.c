/* The demos of fixtures/demos, whose rows CMake writes. */
#include "cli/demo.h"

#define DEMO(NAME, SYMBOL) extern const char SYMBOL##_start[], SYMBOL##_end[];
#include "demo_rows.inc"
#undef DEMO

const struct demo_embedded demo_embedded[] = {
#define DEMO(NAME, SYMBOL) {NAME, SYMBOL##_start, SYMBOL##_end},
#include "demo_rows.inc"
#undef DEMO
    {0},
};

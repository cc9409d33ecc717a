/* A small test header with the macro names, options and output of the greatest test library
 * (https://github.com/silentbicycle/greatest), for machines that do not have it. It keeps to that
 * API, so a test that compiles with this header compiles with the real one too.
 *
 *     TEST sum_is_commutative(void) { ASSERT_EQ(1 + 2, 2 + 1); PASS(); }
 *     SUITE(arithmetic) { RUN_TEST(sum_is_commutative); }
 *     GREATEST_MAIN_DEFS();
 *     int main(int argc, char **argv)
 *     {
 *         GREATEST_MAIN_BEGIN();
 *         RUN_SUITE(arithmetic);
 *         GREATEST_MAIN_END();
 *     }
 */
#ifndef GREATEST_H
#define GREATEST_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef GREATEST_STDOUT
#define GREATEST_STDOUT stdout
#endif
#ifndef GREATEST_DEFAULT_WIDTH
#define GREATEST_DEFAULT_WIDTH 72
#endif
#define GREATEST_FPRINTF fprintf

enum greatest_test_res {
    GREATEST_TEST_RES_PASS = 0,
    GREATEST_TEST_RES_FAIL = -1,
    GREATEST_TEST_RES_SKIP = 1
};

typedef void greatest_suite_cb(void);
typedef void greatest_setup_cb(void *udata);
typedef void greatest_teardown_cb(void *udata);

struct greatest_counts {
    unsigned int run, passed, failed, skipped;
};

struct greatest_run_info {
    struct greatest_counts all, suite;
    unsigned int assertions;
    unsigned int column; /* how far the line of dots is */
    unsigned int verbosity;
    const char *suite_filter, *test_filter, *test_exclude;
    unsigned char list_only, first_fail, abort_on_fail, exact;
    greatest_setup_cb *setup;
    greatest_teardown_cb *teardown;
    void *setup_udata, *teardown_udata;
    const char *fail_file;
    unsigned int fail_line;
    const char *msg;
    clock_t begin, suite_begin, test_begin;
};

/* One for the program, defined by GREATEST_MAIN_DEFS in the file with main(). */
extern struct greatest_run_info greatest_info;

#define GREATEST_UNUSED_ __attribute__((unused)) static
#define GREATEST_IS_VERBOSE() (greatest_info.verbosity > 0)
#define GREATEST_FIRST_FAIL() (greatest_info.first_fail)
#define GREATEST_LIST_ONLY() (greatest_info.list_only)
#define GREATEST_FAILURE_ABORT()                                                                   \
    (GREATEST_FIRST_FAIL() && (greatest_info.all.failed > 0 || greatest_info.suite.failed > 0))

/* ---- What runs ---- */

/* An empty filter chooses all; with -e the name must be the filter, not contain it. */
GREATEST_UNUSED_ int greatest_name_match(const char *name, const char *filter, int res_if_none)
{
    if (!filter || !filter[0])
        return res_if_none;
    return greatest_info.exact ? strcmp(name, filter) == 0 : strstr(name, filter) != NULL;
}

GREATEST_UNUSED_ void greatest_print_ticks(clock_t begin, clock_t end)
{
    unsigned long ticks = (unsigned long)(end - begin);
    GREATEST_FPRINTF(GREATEST_STDOUT, " (%lu ticks, %.3f sec)", ticks,
                     (double)ticks / (double)CLOCKS_PER_SEC);
}

/* Whether the test is to run now; readies the setup for it. */
GREATEST_UNUSED_ int greatest_test_pre(const char *name)
{
    struct greatest_run_info *g = &greatest_info;
    if (!greatest_name_match(name, g->test_filter, 1) ||
        greatest_name_match(name, g->test_exclude, 0) || GREATEST_FAILURE_ABORT())
        return 0;
    if (g->list_only) {
        GREATEST_FPRINTF(GREATEST_STDOUT, "  %s\n", name);
        return 0;
    }
    g->msg = NULL;
    g->fail_file = "";
    g->fail_line = 0;
    if (g->setup)
        g->setup(g->setup_udata);
    g->test_begin = clock();
    return 1;
}

GREATEST_UNUSED_ void greatest_dot(const char *mark)
{
    struct greatest_run_info *g = &greatest_info;
    GREATEST_FPRINTF(GREATEST_STDOUT, "%s", mark);
    if (++g->column % GREATEST_DEFAULT_WIDTH == 0) {
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
        g->column = 0;
    }
}

GREATEST_UNUSED_ void greatest_tell_fail(const char *name)
{
    struct greatest_run_info *g = &greatest_info;
    if (!GREATEST_IS_VERBOSE()) {
        greatest_dot("F");
        if (g->column > 0)
            GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
        g->column = 0;
    }
    GREATEST_FPRINTF(GREATEST_STDOUT, "FAIL %s: %s (%s:%u)", name, g->msg ? g->msg : "",
                     g->fail_file, g->fail_line);
    if (!GREATEST_IS_VERBOSE())
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
}

GREATEST_UNUSED_ void greatest_tell_rest(const char *word, const char *mark, const char *name)
{
    if (GREATEST_IS_VERBOSE())
        GREATEST_FPRINTF(GREATEST_STDOUT, "%s %s: %s", word, name,
                         greatest_info.msg ? greatest_info.msg : "");
    else
        greatest_dot(mark);
}

GREATEST_UNUSED_ void greatest_test_post(const char *name, int result)
{
    struct greatest_run_info *g = &greatest_info;
    clock_t end = clock();
    if (g->teardown)
        g->teardown(g->teardown_udata);
    g->suite.run++;
    if (result <= GREATEST_TEST_RES_FAIL) {
        g->suite.failed++;
        greatest_tell_fail(name);
    } else if (result >= GREATEST_TEST_RES_SKIP) {
        g->suite.skipped++;
        greatest_tell_rest("SKIP", "s", name);
    } else {
        g->suite.passed++;
        greatest_tell_rest("PASS", ".", name);
    }
    if (GREATEST_IS_VERBOSE()) {
        greatest_print_ticks(g->test_begin, end);
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    }
    fflush(GREATEST_STDOUT);
    if (g->abort_on_fail && result <= GREATEST_TEST_RES_FAIL)
        abort();
}

/* Adds the counts of the suite (or of tests outside any) to the total. */
GREATEST_UNUSED_ void greatest_update_counts(void)
{
    struct greatest_run_info *g = &greatest_info;
    g->all.run += g->suite.run;
    g->all.passed += g->suite.passed;
    g->all.failed += g->suite.failed;
    g->all.skipped += g->suite.skipped;
    memset(&g->suite, 0, sizeof g->suite);
    g->column = 0;
}

GREATEST_UNUSED_ void greatest_suite_post(void)
{
    struct greatest_run_info *g = &greatest_info;
    if (g->suite.run > 0) {
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n%u test%s - %u passed, %u failed, %u skipped",
                         g->suite.run, g->suite.run == 1 ? "" : "s", g->suite.passed,
                         g->suite.failed, g->suite.skipped);
        greatest_print_ticks(g->suite_begin, clock());
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    }
    g->setup = NULL;
    g->teardown = NULL;
    g->setup_udata = g->teardown_udata = NULL;
    greatest_update_counts();
}

GREATEST_UNUSED_ void greatest_run_suite(greatest_suite_cb *suite_cb, const char *suite_name)
{
    struct greatest_run_info *g = &greatest_info;
    if (!greatest_name_match(suite_name, g->suite_filter, 1))
        return;
    greatest_update_counts();
    if (GREATEST_FAILURE_ABORT())
        return;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n* Suite %s:\n", suite_name);
    g->suite_begin = clock();
    suite_cb();
    greatest_suite_post();
}

/* ---- Comparing ---- */

GREATEST_UNUSED_ int greatest_strings_equal(const char *expected, const char *got)
{
    if (expected == got)
        return 1;
    if (expected && got && strcmp(expected, got) == 0)
        return 1;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: %s\n     Got: %s\n",
                     expected ? expected : "(null)", got ? got : "(null)");
    return 0;
}

GREATEST_UNUSED_ int greatest_strings_equal_n(const char *expected, const char *got, size_t size)
{
    if (expected == got)
        return 1;
    if (expected && got && strncmp(expected, got, size) == 0)
        return 1;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: %.*s\n     Got: %.*s\n", (int)size,
                     expected ? expected : "(null)", (int)size, got ? got : "(null)");
    return 0;
}

GREATEST_UNUSED_ void greatest_print_bytes(const unsigned char *bytes, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        GREATEST_FPRINTF(GREATEST_STDOUT, " %02x", bytes[i]);
    GREATEST_FPRINTF(GREATEST_STDOUT, "  ");
    for (size_t i = from; i < to; i++)
        GREATEST_FPRINTF(GREATEST_STDOUT, "%c", isprint(bytes[i]) ? bytes[i] : '.');
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
}

/* Shows the sixteen bytes around the first difference only: the blocks may be large. */
GREATEST_UNUSED_ int greatest_memory_equal(const void *expected, const void *got, size_t size)
{
    const unsigned char *e = (const unsigned char *)expected, *g = (const unsigned char *)got;
    size_t at = 0;
    while (at < size && e[at] == g[at])
        at++;
    if (at == size)
        return 1;
    size_t from = at - at % 16, to = size - from < 16 ? size : from + 16;
    GREATEST_FPRINTF(GREATEST_STDOUT,
                     "\nFirst difference at byte %lu of %lu, line at %lu:", (unsigned long)at,
                     (unsigned long)size, (unsigned long)from);
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected:");
    greatest_print_bytes(e, from, to);
    GREATEST_FPRINTF(GREATEST_STDOUT, "     Got:");
    greatest_print_bytes(g, from, to);
    return 0;
}

/* ---- The runner ---- */

GREATEST_UNUSED_ void greatest_usage(const char *name)
{
    GREATEST_FPRINTF(GREATEST_STDOUT,
                     "Usage: %s [-hlfave] [-s SUITE] [-t TEST] [-x TEST]\n"
                     "  -h, --help  show this text\n"
                     "  -l          name the suites and tests, run none\n"
                     "  -f          run no more tests after one failed\n"
                     "  -a          as -f, and abort() there\n"
                     "  -v          one line for each test\n"
                     "  -s SUITE    only suites whose name contains SUITE\n"
                     "  -t TEST     only tests whose name contains TEST\n"
                     "  -x TEST     no tests whose name contains TEST\n"
                     "  -e          for the three above: is, not contains\n",
                     name);
}

/* The value of the option at argv[*at]: the rest of the word or the next word. */
GREATEST_UNUSED_ const char *greatest_option_value(int argc, char **argv, int *at)
{
    if (argv[*at][2])
        return argv[*at] + 2;
    if (*at + 1 >= argc) {
        greatest_usage(argv[0]);
        exit(EXIT_FAILURE);
    }
    return argv[++*at];
}

GREATEST_UNUSED_ void greatest_parse_flags(char **argv, const char *flags)
{
    struct greatest_run_info *g = &greatest_info;
    for (; *flags; flags++) {
        switch (*flags) {
        case 'l':
            g->list_only = 1;
            break;
        case 'f':
            g->first_fail = 1;
            break;
        case 'a':
            g->first_fail = g->abort_on_fail = 1;
            break;
        case 'e':
            g->exact = 1;
            break;
        case 'v':
            g->verbosity++;
            break;
        case 'h':
            greatest_usage(argv[0]);
            exit(EXIT_SUCCESS);
        default:
            GREATEST_FPRINTF(GREATEST_STDOUT, "Unknown argument '-%s'\n", flags);
            greatest_usage(argv[0]);
            exit(EXIT_FAILURE);
        }
    }
}

GREATEST_UNUSED_ void greatest_parse_options(int argc, char **argv)
{
    struct greatest_run_info *g = &greatest_info;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return;
        if (strcmp(argv[i], "--help") == 0)
            greatest_parse_flags(argv, "h");
        else if (argv[i][0] != '-')
            continue;
        else if (argv[i][1] == 's')
            g->suite_filter = greatest_option_value(argc, argv, &i);
        else if (argv[i][1] == 't')
            g->test_filter = greatest_option_value(argc, argv, &i);
        else if (argv[i][1] == 'x')
            g->test_exclude = greatest_option_value(argc, argv, &i);
        else
            greatest_parse_flags(argv, argv[i] + 1);
    }
}

GREATEST_UNUSED_ void greatest_init(void)
{
    memset(&greatest_info, 0, sizeof greatest_info);
    greatest_info.begin = clock();
}

GREATEST_UNUSED_ int greatest_all_passed(void)
{
    return greatest_info.all.failed == 0;
}

GREATEST_UNUSED_ void greatest_print_report(void)
{
    struct greatest_run_info *g = &greatest_info;
    if (g->list_only)
        return;
    greatest_update_counts();
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nTotal: %u test%s", g->all.run, g->all.run == 1 ? "" : "s");
    greatest_print_ticks(g->begin, clock());
    GREATEST_FPRINTF(GREATEST_STDOUT, ", %u assertion%s\n", g->assertions,
                     g->assertions == 1 ? "" : "s");
    GREATEST_FPRINTF(GREATEST_STDOUT, "Pass: %u, fail: %u, skip: %u.\n", g->all.passed,
                     g->all.failed, g->all.skipped);
}

GREATEST_UNUSED_ void greatest_set_setup_cb(greatest_setup_cb *cb, void *udata)
{
    greatest_info.setup = cb;
    greatest_info.setup_udata = udata;
}

GREATEST_UNUSED_ void greatest_set_teardown_cb(greatest_teardown_cb *cb, void *udata)
{
    greatest_info.teardown = cb;
    greatest_info.teardown_udata = udata;
}

/* ---- The macros ---- */

#define GREATEST_TEST static enum greatest_test_res
#define GREATEST_SUITE(NAME)                                                                       \
    void NAME(void);                                                                               \
    void NAME(void)
#define GREATEST_SUITE_EXTERN(NAME) void NAME(void)
#define GREATEST_MAIN_DEFS() struct greatest_run_info greatest_info

#define GREATEST_RUN_SUITE(S_NAME) greatest_run_suite(S_NAME, #S_NAME)
#define GREATEST_RUN_TEST(TEST)                                                                    \
    do {                                                                                           \
        if (greatest_test_pre(#TEST) == 1)                                                         \
            greatest_test_post(#TEST, TEST());                                                     \
    } while (0)
#define GREATEST_RUN_TEST1(TEST, ENV)                                                              \
    do {                                                                                           \
        if (greatest_test_pre(#TEST) == 1)                                                         \
            greatest_test_post(#TEST, TEST(ENV));                                                  \
    } while (0)
#define GREATEST_RUN_TESTp(TEST, ...)                                                              \
    do {                                                                                           \
        if (greatest_test_pre(#TEST) == 1)                                                         \
            greatest_test_post(#TEST, TEST(__VA_ARGS__));                                          \
    } while (0)

#define GREATEST_PASSm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.msg = MSG;                                                                   \
        return GREATEST_TEST_RES_PASS;                                                             \
    } while (0)
#define GREATEST_FAILm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.fail_file = __FILE__;                                                        \
        greatest_info.fail_line = __LINE__;                                                        \
        greatest_info.msg = MSG;                                                                   \
        return GREATEST_TEST_RES_FAIL;                                                             \
    } while (0)
#define GREATEST_SKIPm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.msg = MSG;                                                                   \
        return GREATEST_TEST_RES_SKIP;                                                             \
    } while (0)
#define GREATEST_PASS() GREATEST_PASSm(NULL)
#define GREATEST_FAIL() GREATEST_FAILm(NULL)
#define GREATEST_SKIP() GREATEST_SKIPm(NULL)

/* When a helper that returns a test result did not pass, neither does the caller. */
#define GREATEST_CHECK_CALL(RES)                                                                   \
    do {                                                                                           \
        enum greatest_test_res greatest_check_call_res = RES;                                      \
        if (greatest_check_call_res != GREATEST_TEST_RES_PASS)                                     \
            return greatest_check_call_res;                                                        \
    } while (0)

#define GREATEST_ASSERTm(MSG, COND)                                                                \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!(COND))                                                                               \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
#define GREATEST_ASSERT_FALSEm(MSG, COND)                                                          \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if ((COND))                                                                                \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
/* A relation that holds between the two, in the order given. */
#define GREATEST_ASSERT_RELm(MSG, REL, EXP, GOT)                                                   \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!((EXP)REL(GOT)))                                                                      \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
#define GREATEST_ASSERT_EQ_FMTm(MSG, EXP, GOT, FMT)                                                \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if ((EXP) != (GOT)) {                                                                      \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: ");                                     \
            GREATEST_FPRINTF(GREATEST_STDOUT, FMT, EXP);                                           \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\n     Got: ");                                     \
            GREATEST_FPRINTF(GREATEST_STDOUT, FMT, GOT);                                           \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\n");                                               \
            GREATEST_FAILm(MSG);                                                                   \
        }                                                                                          \
    } while (0)
#define GREATEST_ASSERT_IN_RANGEm(MSG, EXP, GOT, TOL)                                              \
    do {                                                                                           \
        double greatest_exp = (double)(EXP), greatest_got = (double)(GOT);                         \
        double greatest_tol = (double)(TOL);                                                       \
        greatest_info.assertions++;                                                                \
        if (!(greatest_got >= greatest_exp - greatest_tol &&                                       \
              greatest_got <= greatest_exp + greatest_tol)) {                                      \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: %g +/- %g\n     Got: %g\n",             \
                             greatest_exp, greatest_tol, greatest_got);                            \
            GREATEST_FAILm(MSG);                                                                   \
        }                                                                                          \
    } while (0)
#define GREATEST_ASSERT_STR_EQm(MSG, EXP, GOT)                                                     \
    GREATEST_ASSERTm(MSG, greatest_strings_equal((EXP), (GOT)))
#define GREATEST_ASSERT_STRN_EQm(MSG, EXP, GOT, SIZE)                                              \
    GREATEST_ASSERTm(MSG, greatest_strings_equal_n((EXP), (GOT), (SIZE)))
#define GREATEST_ASSERT_MEM_EQm(MSG, EXP, GOT, SIZE)                                               \
    GREATEST_ASSERTm(MSG, greatest_memory_equal((EXP), (GOT), (SIZE)))

#define GREATEST_MAIN_BEGIN()                                                                      \
    do {                                                                                           \
        greatest_init();                                                                           \
        greatest_parse_options(argc, argv);                                                        \
    } while (0)
#define GREATEST_PRINT_REPORT() greatest_print_report()
#define GREATEST_MAIN_END()                                                                        \
    do {                                                                                           \
        GREATEST_PRINT_REPORT();                                                                   \
        return greatest_all_passed() ? EXIT_SUCCESS : EXIT_FAILURE;                                \
    } while (0)

/* ---- The short names ---- */

#define TEST GREATEST_TEST
#define SUITE GREATEST_SUITE
#define SUITE_EXTERN GREATEST_SUITE_EXTERN
#define RUN_TEST GREATEST_RUN_TEST
#define RUN_TEST1 GREATEST_RUN_TEST1
#define RUN_TESTp GREATEST_RUN_TESTp
#define RUN_SUITE GREATEST_RUN_SUITE
#define ASSERT(COND) GREATEST_ASSERTm(#COND, COND)
#define ASSERTm GREATEST_ASSERTm
#define ASSERT_FALSE(COND) GREATEST_ASSERT_FALSEm(#COND, COND)
#define ASSERT_FALSEm GREATEST_ASSERT_FALSEm
#define ASSERT_EQ(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " != " #GOT, ==, EXP, GOT)
#define ASSERT_EQm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, ==, EXP, GOT)
#define ASSERT_NEQ(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " == " #GOT, !=, EXP, GOT)
#define ASSERT_NEQm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, !=, EXP, GOT)
#define ASSERT_GT(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " <= " #GOT, >, EXP, GOT)
#define ASSERT_GTm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, >, EXP, GOT)
#define ASSERT_GTE(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " < " #GOT, >=, EXP, GOT)
#define ASSERT_GTEm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, >=, EXP, GOT)
#define ASSERT_LT(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " >= " #GOT, <, EXP, GOT)
#define ASSERT_LTm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, <, EXP, GOT)
#define ASSERT_LTE(EXP, GOT) GREATEST_ASSERT_RELm(#EXP " > " #GOT, <=, EXP, GOT)
#define ASSERT_LTEm(MSG, EXP, GOT) GREATEST_ASSERT_RELm(MSG, <=, EXP, GOT)
#define ASSERT_EQ_FMT(EXP, GOT, FMT) GREATEST_ASSERT_EQ_FMTm(#EXP " != " #GOT, EXP, GOT, FMT)
#define ASSERT_EQ_FMTm GREATEST_ASSERT_EQ_FMTm
#define ASSERT_IN_RANGE(EXP, GOT, TOL)                                                             \
    GREATEST_ASSERT_IN_RANGEm(#EXP " != " #GOT " +/- " #TOL, EXP, GOT, TOL)
#define ASSERT_IN_RANGEm GREATEST_ASSERT_IN_RANGEm
#define ASSERT_STR_EQ(EXP, GOT) GREATEST_ASSERT_STR_EQm(#EXP " != " #GOT, EXP, GOT)
#define ASSERT_STR_EQm GREATEST_ASSERT_STR_EQm
#define ASSERT_STRN_EQ(EXP, GOT, SIZE) GREATEST_ASSERT_STRN_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_STRN_EQm GREATEST_ASSERT_STRN_EQm
#define ASSERT_MEM_EQ(EXP, GOT, SIZE) GREATEST_ASSERT_MEM_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_MEM_EQm GREATEST_ASSERT_MEM_EQm
#define PASS GREATEST_PASS
#define PASSm GREATEST_PASSm
#define FAIL GREATEST_FAIL
#define FAILm GREATEST_FAILm
#define SKIP GREATEST_SKIP
#define SKIPm GREATEST_SKIPm
#define CHECK_CALL GREATEST_CHECK_CALL
#define SET_SETUP greatest_set_setup_cb
#define SET_TEARDOWN greatest_set_teardown_cb
#define GREATEST_SET_SETUP_CB greatest_set_setup_cb
#define GREATEST_SET_TEARDOWN_CB greatest_set_teardown_cb

#endif

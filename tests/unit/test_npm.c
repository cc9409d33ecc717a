/* Which SDK a project uses, and which images belong to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/npm.h"
#include "greatest.h"

#define INSTALLED "node_modules/@cloudflare/sandbox/package.json"

static char dir[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CLEANUP_FILE FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0)
        abort();
}

static void make(void *arg)
{
    static const char *const below[] = {"node_modules", "node_modules/@cloudflare",
                                        "node_modules/@cloudflare/sandbox"};
    snprintf(dir, sizeof dir, "/tmp/sandpit-npm-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, below[i]);
        mkdir(path, 0700);
    }
}

static void clean(void *arg)
{
    static const char *const names[] = {INSTALLED,
                                        "package-lock.json",
                                        "package.json",
                                        "node_modules/@cloudflare/sandbox",
                                        "node_modules/@cloudflare",
                                        "node_modules",
                                        "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (strcmp(names[i], ".") == 0)
            rmdir(dir);
        else
            remove(path);
    }
}

TEST what_is_installed_comes_before_what_is_locked_and_wanted(void)
{
    struct npm_sdk sdk = {0};
    ASSERT(!npm_find_sdk(dir, &sdk));
    put("package.json", "{\"devDependencies\": {\"@cloudflare/sandbox\": \"^0.5.1\"}}");
    ASSERT(npm_find_sdk(dir, &sdk));
    ASSERT_STR_EQ("0.5.1", sdk.version);
    ASSERT(!sdk.exact);
    put("package-lock.json",
        "{\"dependencies\": {\"@cloudflare/sandbox\": {\"version\": \"0.5.6\"}}}");
    ASSERT(npm_find_sdk(dir, &sdk));
    ASSERT_STR_EQ("0.5.6", sdk.version);
    ASSERT(sdk.exact);
    put(INSTALLED, "{\"version\": \"0.6.0\"}");
    ASSERT(npm_find_sdk(dir, &sdk));
    ASSERT_STR_EQ("0.6.0", sdk.version);
    ASSERT_STR_EQ(INSTALLED, sdk.where);
    PASS();
}

TEST other_packages_are_found_too_and_versions_have_an_order(void)
{
    struct npm_sdk wrangler = {0};
    put("package.json", "{\"devDependencies\": {\"wrangler\": \"4.20.0\"}}");
    ASSERT(npm_find(dir, "wrangler", &wrangler));
    ASSERT_STR_EQ("4.20.0", wrangler.version);
    ASSERT_STR_EQ("package.json", wrangler.where);
    ASSERT(wrangler.exact);
    put("package-lock.json",
        "{\"packages\": {\"node_modules/wrangler\": {\"version\": \"4.136.1\"}}}");
    ASSERT(npm_find(dir, "wrangler", &wrangler));
    ASSERT_STR_EQ("4.136.1", wrangler.version);
    ASSERT(npm_before("4.20.0", "4.136"));
    ASSERT(npm_before("0.11.9", "0.12"));
    ASSERT_FALSE(npm_before("4.136.0", "4.136"));
    ASSERT_FALSE(npm_before("0.12", "0.12"));
    ASSERT_FALSE(npm_before("5.0.0", "4.136"));
    PASS();
}

TEST a_range_is_before_a_version_when_all_it_takes_are(void)
{
    static const struct {
        const char *version;
        bool exact;
        const char *other;
        enum npm_order order;
    } rows[] = {
        {"4.20.0", true, "4.136", NPM_BEFORE},  {"4.136.0", true, "4.136", NPM_NOT_BEFORE},
        {"4.20.0", false, "4.136", NPM_OPEN},   {"4.140.0", false, "4.136", NPM_NOT_BEFORE},
        {"3.90.0", false, "4.136", NPM_BEFORE}, {"0.7.4", false, "0.12", NPM_BEFORE},
        {"0.12.1", false, "0.12.7", NPM_OPEN},  {"5.0.0", false, "4.136", NPM_NOT_BEFORE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct npm_sdk found = {.exact = rows[i].exact};
        snprintf(found.version, sizeof found.version, "%s", rows[i].version);
        ASSERT_EQm(rows[i].version, rows[i].order, npm_order(&found, rows[i].other));
    }
    PASS();
}

TEST files_that_say_nothing_useful_are_passed_over(void)
{
    static const char *const texts[] = {
        "",
        "nonsense",
        "[]",
        "{\"dependencies\": []}",
        "{\"dependencies\": {\"@cloudflare/sandbox\": 5}}",
        "{\"dependencies\": {\"@cloudflare/sandbox\": \"latest\"}}",
        "{\"dependencies\": {\"@cloudflare/sandbox\": \">=0.5 <1\"}}",
        "{\"dependencies\": {\"@cloudflare/sandbox\": \"workspace:*\"}}",
        "{\"dependencies\": {\"@cloudflare/sandbox\": "
        "\"0.0000000000000000000000000000000000000000000000000001\"}}",
    };
    struct npm_sdk sdk = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("package.json", texts[i]);
        put("package-lock.json", texts[i]);
        ASSERTm(texts[i], !npm_find_sdk(dir, &sdk));
    }
    PASS();
}

TEST an_image_fits_its_own_version_and_a_range_its_line(void)
{
    static const struct {
        const char *sdk;
        bool exact;
        const char *image;
        bool fits;
    } rows[] = {
        {"0.7.4", true, "0.7.4", true},   {"0.7.4", true, "0.7.5", false},
        {"0.7.4", true, "0.7", true},     {"0.7", true, "0.7.9", true},
        {"0.7.4", false, "0.7.9", true},  {"0.7.4", false, "0.7.3", false},
        {"0.7.4", false, "0.8.0", false}, {"0.12", true, "0.1.2", false},
        {"1.0.0", true, "0.0.0", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct npm_sdk sdk = {.exact = rows[i].exact};
        snprintf(sdk.version, sizeof sdk.version, "%s", rows[i].sdk);
        ASSERT_EQm(rows[i].image, rows[i].fits, npm_fits(&sdk, rows[i].image));
    }
    PASS();
}

TEST versions_are_two_or_three_numbers(void)
{
    static const char *const bad[] = {"", "1", "0.", "0.7.", "0.7.4.1", "v0.7", "0.7-beta", " 0.7"};
    ASSERT(npm_is_version("0.12"));
    ASSERT(npm_is_version("0.12.7"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERTm(bad[i], !npm_is_version(bad[i]));
    PASS();
}

SUITE(npm)
{
    SET_SETUP(make, NULL);
    SET_TEARDOWN(clean, NULL);
    RUN_TEST(what_is_installed_comes_before_what_is_locked_and_wanted);
    RUN_TEST(other_packages_are_found_too_and_versions_have_an_order);
    RUN_TEST(a_range_is_before_a_version_when_all_it_takes_are);
    RUN_TEST(files_that_say_nothing_useful_are_passed_over);
    RUN_TEST(an_image_fits_its_own_version_and_a_range_its_line);
    RUN_TEST(versions_are_two_or_three_numbers);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(npm);
    GREATEST_MAIN_END();
}

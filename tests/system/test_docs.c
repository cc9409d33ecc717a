/* What the documents say is there: error codes, tests, links, and the README's curl lines. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "container/codes.h"
#include "greatest.h"
#include "support.h"

enum { FILE_BYTES_MAX = 4 << 20 };

static struct emulator emulator;

/* A file of the repository, or NULL. */
static char *read_file(const char *path)
{
    CLEANUP_FREE char *whole = NULL;
    if (asprintf(&whole, SANDPIT_SOURCE "/%s", path) < 0)
        return NULL;
    CLEANUP_FILE FILE *file = fopen(whole, "re");
    CLEANUP_BUF struct buf text = BUF_INIT(FILE_BYTES_MAX);
    char piece[4096];
    size_t size;
    while (file && (size = fread(piece, 1, sizeof piece, file)) > 0) {
        if (buf_add(&text, piece, size) < 0)
            return NULL;
    }
    return file ? strdup(buf_text(&text)) : NULL;
}

/* Lines, with what they are in: fence is "" outside of fenced blocks, else the word after ```. */
struct lines {
    const char *at;
    char line[8192];
    char fence[32];
    bool fenced;
};

static bool next_line(struct lines *lines)
{
    while (*lines->at) {
        size_t size = strcspn(lines->at, "\n");
        snprintf(lines->line, sizeof lines->line, "%.*s", (int)size, lines->at);
        lines->at += size + (lines->at[size] == '\n');
        if (strncmp(lines->line, "```", 3) != 0)
            return true;
        lines->fenced = !lines->fenced;
        snprintf(lines->fence, sizeof lines->fence, "%.31s", lines->fenced ? lines->line + 3 : "");
    }
    return false;
}

/* The anchor that Markdown gives a heading. */
static void anchor_of(const char *heading, char *to, size_t size)
{
    size_t length = 0;
    for (; *heading && length + 1 < size; heading++) {
        char c = *heading;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-')
            to[length++] = c;
        else if (c == ' ')
            to[length++] = '-';
    }
    to[length] = '\0';
}

static bool has_anchor(const char *text, const char *wanted)
{
    struct lines lines = {.at = text};
    while (next_line(&lines)) {
        char anchor[256];
        size_t level = strspn(lines.line, "#");
        if (lines.fenced || level == 0 || lines.line[level] != ' ')
            continue;
        anchor_of(lines.line + level + 1, anchor, sizeof anchor);
        if (strcmp(anchor, wanted) == 0)
            return true;
    }
    return false;
}

static bool has_code(const char *text, const char *code)
{
    char anchor[256];
    anchor_of(code, anchor, sizeof anchor);
    return has_anchor(text, anchor);
}

/* Error codes. */

TEST every_code_of_the_table_is_explained(void)
{
    CLEANUP_FREE char *text = read_file("docs/errors.md");
    ASSERT(text);
    static const char *const codes[] = {
#define CODE(name, ...) #name,
        CODES(CODE)
#undef CODE
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        ASSERTm(codes[i], has_code(text, codes[i]));
    PASS();
}

/* Whether `quote` is the second of a status and a code: 404, "CODE". */
static bool follows_status(const char *text, const char *quote)
{
    const char *at = quote;
    while (at > text && strchr(" \n", at[-1]))
        at--;
    if (at == text || *--at != ',')
        return false;
    int digits = 0;
    while (at > text && at[-1] >= '0' && at[-1] <= '9') {
        at--;
        digits++;
    }
    return digits == 3;
}

/* How many codes a source file sends; the first that is not explained goes to `missing`. */
static int check_source(const char *source, const char *errors, char *missing, size_t size)
{
    static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    int count = 0;
    for (const char *at = source; (at = strchr(at, '"')); at++) {
        char code[64];
        size_t length = strspn(at + 1, upper);
        if (length < 3 || length >= sizeof code || at[length + 1] != '"' ||
            !follows_status(source, at))
            continue;
        snprintf(code, sizeof code, "%.*s", (int)length, at + 1);
        count++;
        if (!*missing && !has_code(errors, code))
            snprintf(missing, size, "docs/errors.md has no heading %s", code);
    }
    return count;
}

TEST every_code_that_a_face_sends_is_explained(void)
{
    static const char *const folders[] = {"emulator/http", "emulator/control", "emulator/worker"};
    CLEANUP_FREE char *errors = read_file("docs/errors.md");
    ASSERT(errors);
    int count = 0;
    static char missing[128];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[512];
        snprintf(path, sizeof path, SANDPIT_SOURCE "/%s", folders[i]);
        CLEANUP_DIR DIR *dir = opendir(path);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            size_t length = strlen(entry->d_name);
            if (length < 3 || strcmp(entry->d_name + length - 2, ".c") != 0)
                continue;
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            CLEANUP_FREE char *source = read_file(path);
            count += source ? check_source(source, errors, missing, sizeof missing) : 0;
        }
    }
    ASSERTm(missing, !*missing);
    ASSERTm("hardly any codes were found: has their form changed?", count > 40);
    PASS();
}

/* Tests named by a page: `system/test_exec.c:python_prints_four`. */

static bool test_exists(const char *file, const char *name)
{
    char path[256], wanted[256];
    snprintf(path, sizeof path, "tests/%s", file);
    snprintf(wanted, sizeof wanted, "\nTEST %s(", name);
    CLEANUP_FREE char *text = read_file(path);
    return text && strstr(text, wanted);
}

TEST every_test_named_by_a_page_exists(void)
{
    static const char *const pages[] = {"docs/parity.md", "docs/threat-model.md"};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        CLEANUP_FREE char *text = read_file(pages[i]);
        ASSERTm(pages[i], text);
        int count = 0;
        for (const char *at = text; (at = strchr(at, '`')); at++) {
            char file[96];
            static char name[128]; /* a message outlives its test, here and below */
            if (sscanf(at, "`%95[a-z_/.]:%127[a-z0-9_]`", file, name) != 2 ||
                !strstr(file, "/test_"))
                continue;
            count++;
            ASSERTm(name, test_exists(file, name));
        }
        ASSERTm(pages[i], count > 40);
    }
    PASS();
}

/* Links. */

/* NULL, or what is wrong with a link of the document in `folder` ("" or "docs/"). */
static const char *check_link(const char *folder, const char *document, const char *link)
{
    char file[512], path[1024];
    size_t size = strcspn(link, "#");
    const char *anchor = link[size] ? link + size + 1 : NULL;
    if (strncmp(link, "https://", 8) == 0 || strncmp(link, "http://", 7) == 0)
        return NULL;
    snprintf(file, sizeof file, "%s%.*s", folder, (int)size, link);
    snprintf(path, sizeof path, SANDPIT_SOURCE "/%s", file);
    if (size > 0 && access(path, F_OK) < 0)
        return "there is no such file";
    CLEANUP_FREE char *other = size > 0 && anchor ? read_file(file) : NULL;
    if (anchor && !has_anchor(size > 0 ? other : document, anchor))
        return "there is no such heading";
    return NULL;
}

TEST links_lead_somewhere(void)
{
    static const char *const names[] = {
        "README.md",      "docs/api.md",    "docs/benchmarks.md", "docs/design.md",
        "docs/errors.md", "docs/parity.md", "docs/doctor.md",     "docs/threat-model.md",
        "docs/demos.md",  "docs/buckets.md",  "docs/events.md"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CLEANUP_FREE char *text = read_file(names[i]);
        ASSERTm(names[i], text);
        struct lines lines = {.at = text};
        while (next_line(&lines)) {
            for (const char *at = lines.line; !lines.fenced && (at = strstr(at, "](")); at += 2) {
                char link[512];
                static char message[1200];
                snprintf(link, sizeof link, "%.*s", (int)strcspn(at + 2, ")"), at + 2);
                const char *wrong = check_link(strchr(names[i], '/') ? "docs/" : "", text, link);
                snprintf(message, sizeof message, "%s: %s: %s", names[i], link, wrong ? wrong : "");
                ASSERTm(message, !wrong);
            }
        }
    }
    PASS();
}

SUITE(text_suite)
{
    RUN_TEST(every_code_of_the_table_is_explained);
    RUN_TEST(every_code_that_a_face_sends_is_explained);
    RUN_TEST(every_test_named_by_a_page_exists);
    RUN_TEST(links_lead_somewhere);
}

/* The README's curl lines, in order, as a reader would type them. */

TEST the_curl_lines_of_the_readme_work(void)
{
    static const char start[] = "curl http://localhost:8787";
    CLEANUP_FREE char *text = read_file("README.md");
    ASSERT(text);
    int count = 0;
    struct lines lines = {.at = text};
    while (next_line(&lines)) {
        if (strcmp(lines.fence, "sh") != 0 || strncmp(lines.line, start, sizeof start - 1) != 0)
            continue;
        char command[9000];
        static char message[sizeof lines.line];
        snprintf(message, sizeof message, "%s", lines.line);
        snprintf(command, sizeof command,
                 "curl -sS -o /dev/null -w '%%{http_code}' "
                 "http://localhost:%d%s",
                 emulator.port, lines.line + sizeof start - 1);
        const char *const argv[] = {"sh", "-c", command, NULL};
        CLEANUP_FREE char *out = NULL;
        ASSERT_EQm(message, 0, run_command(&emulator, argv, &out, NULL));
        ASSERTm(message, out[0] == '2');
        count++;
    }
    ASSERTm("the README has lost its examples", count >= 8);
    PASS();
}

SUITE(curl_suite)
{
    RUN_TEST(the_curl_lines_of_the_readme_work);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(text_suite);
    if (greatest_all_passed()) /* a machine without containers must not hide a failure so far */
        SYSTEM_SUITE(emulator, curl_suite);
    GREATEST_MAIN_END();
}

#include "container/mime.h"

#include <stdio.h>
#include <string.h>

#include "greatest.h"

TEST an_extension_names_the_type(void)
{
    ASSERT_STR_EQ("text/plain", mime_by_name("/workspace/a.txt"));
    ASSERT_STR_EQ("text/javascript", mime_by_name("x.tsx"));
    ASSERT_STR_EQ("application/json", mime_by_name("a.b/c.json"));
    ASSERT_STR_EQ("image/svg+xml", mime_by_name("a.svg"));
    ASSERT_STR_EQ("application/x-sql", mime_by_name("dump.sql"));
    ASSERT_STR_EQ("text/x-c", mime_by_name("a.h"));
    PASS();
}

/* Every row that was observed, with whether its content is then given as text. */
TEST every_observed_extension_has_its_type_and_form(void)
{
    static const struct {
        const char *extensions, *type;
        bool text;
    } rows[] = {
        {"txt log ini conf text", "text/plain", true},
        {"md markdown", "text/markdown", true},
        {"html htm", "text/html", true},
        {"css", "text/css", true},
        {"js mjs cjs jsx ts tsx mts cts", "text/javascript", true},
        {"json map", "application/json", true},
        {"xml", "application/xml", true},
        {"csv", "text/csv", true},
        {"yaml yml", "text/yaml", true},
        {"toml", "application/toml", true},
        {"sh", "application/x-sh", true},
        {"c h cc cpp", "text/x-c", true},
        {"java", "text/x-java-source", true},
        {"php", "application/x-httpd-php", true},
        {"rtf", "text/rtf", true},
        {"svg", "image/svg+xml", true},
        {"webmanifest", "application/manifest+json", true},
        {"rs", "application/rls-services+xml", true},
        {"sql", "application/x-sql", false},
        {"tex", "application/x-tex", false},
        {"bat", "application/x-msdownload", false},
        {"pl", "application/x-perl", false},
        {"json5", "application/json5", false},
        {"png", "image/png", false},
        {"jpg jpeg", "image/jpeg", false},
        {"gif", "image/gif", false},
        {"webp", "image/webp", false},
        {"ico", "image/x-icon", false},
        {"bmp", "image/x-ms-bmp", false},
        {"pdf", "application/pdf", false},
        {"zip", "application/zip", false},
        {"gz", "application/gzip", false},
        {"tar", "application/x-tar", false},
        {"mp4", "video/mp4", false},
        {"mp3", "audio/mpeg", false},
        {"wav", "audio/x-wav", false},
        {"wasm", "application/wasm", false},
        {"woff2", "font/woff2", false},
        {"ttf", "font/ttf", false},
        {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false},
        {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false},
        {"py rb go lock env bin dat ipynb vue jsonl hpp swift proto", MIME_UNKNOWN, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char names[128], path[64];
        snprintf(names, sizeof names, "%s", rows[i].extensions);
        for (char *rest = names, *one; (one = strsep(&rest, " "));) {
            snprintf(path, sizeof path, "/workspace/file.%s", one);
            ASSERT_STR_EQm(rows[i].extensions, rows[i].type, mime_by_name(path));
        }
        ASSERT_EQm(rows[i].extensions, rows[i].text, mime_is_text(rows[i].type));
    }
    PASS();
}

TEST a_character_set_goes_with_five_types(void)
{
    ASSERT_STR_EQ("text/plain;charset=utf-8", mime_with_charset("text/plain"));
    ASSERT_STR_EQ("text/html;charset=utf-8", mime_with_charset("text/html"));
    ASSERT_STR_EQ("text/css;charset=utf-8", mime_with_charset("text/css"));
    ASSERT_STR_EQ("text/javascript;charset=utf-8", mime_with_charset("text/javascript"));
    ASSERT_STR_EQ("application/json;charset=utf-8", mime_with_charset("application/json"));
    ASSERT_STR_EQ("text/markdown", mime_with_charset("text/markdown"));
    ASSERT_STR_EQ(MIME_UNKNOWN, mime_with_charset(MIME_UNKNOWN));
    PASS();
}

TEST other_names_say_nothing(void)
{
    static const char *const names[] = {"Makefile", "a.py",    "/d.txt/noext", "a.",      "",
                                        ".env",     "a.ipynb", "a.tx",         "a.txtxt", "/",
                                        "A.PNG",    ".json",   "/w/.txt",      "a.hpp",   "a.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ASSERT_STR_EQm(names[i], MIME_UNKNOWN, mime_by_name(names[i]));
    PASS();
}

TEST text_is_told_from_binary_as_the_original_does(void)
{
    ASSERT(mime_is_text("text/anything"));
    ASSERT(mime_is_text("application/json"));
    ASSERT(mime_is_text("application/rls-services+xml"));
    ASSERT(mime_is_text("application/manifest+json"));
    ASSERT(mime_is_text("inode/x-empty"));
    ASSERT_FALSE(mime_is_text("application/x-sql"));
    ASSERT_FALSE(mime_is_text("application/x-tex"));
    ASSERT_FALSE(mime_is_text("image/png"));
    ASSERT_FALSE(mime_is_text(MIME_UNKNOWN));
    PASS();
}

TEST content_is_looked_at_without_the_file_tool(void)
{
    ASSERT_STR_EQ(MIME_EMPTY, mime_sniff("", 0));
    ASSERT_STR_EQ("text/plain", mime_sniff("h\xc3\xa9llo\n", 7));
    ASSERT_STR_EQ(MIME_UNKNOWN, mime_sniff("\x01\x02\x03\x04", 4));
    ASSERT_STR_EQ(MIME_UNKNOWN, mime_sniff("a\0b", 3));
    ASSERT_STR_EQ(MIME_UNKNOWN, mime_sniff("h\xc3", 2));
    ASSERT_STR_EQ(MIME_UNKNOWN, mime_sniff("\xff\xfe", 2));
    PASS();
}

TEST a_character_cut_by_the_end_of_the_look_is_still_text(void)
{
    static char text[70000];
    memset(text, 'a', sizeof text);
    memcpy(text + 65535, "\xc3\xa9", 2);
    ASSERT_STR_EQ("text/plain", mime_sniff(text, sizeof text));
    PASS();
}

TEST only_a_type_is_taken_from_the_file_tool(void)
{
    char type[32];
    ASSERT(mime_parse("text/plain\n", 11, type, sizeof type));
    ASSERT_STR_EQ("text/plain", type);
    ASSERT(mime_parse("text/x-c; charset=us-ascii\n", 27, type, sizeof type));
    ASSERT_STR_EQ("text/x-c", type);
    ASSERT_FALSE(mime_parse("cannot open `x' (No such file)\n", 31, type, sizeof type));
    ASSERT_FALSE(mime_parse("", 0, type, sizeof type));
    ASSERT_FALSE(mime_parse("/x", 2, type, 2));
    ASSERT_FALSE(mime_parse("a/0123456789012345678901234567890123456789", 42, type, sizeof type));
    PASS();
}

SUITE(mime)
{
    RUN_TEST(an_extension_names_the_type);
    RUN_TEST(every_observed_extension_has_its_type_and_form);
    RUN_TEST(a_character_set_goes_with_five_types);
    RUN_TEST(other_names_say_nothing);
    RUN_TEST(text_is_told_from_binary_as_the_original_does);
    RUN_TEST(content_is_looked_at_without_the_file_tool);
    RUN_TEST(a_character_cut_by_the_end_of_the_look_is_still_text);
    RUN_TEST(only_a_type_is_taken_from_the_file_tool);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(mime);
    GREATEST_MAIN_END();
}

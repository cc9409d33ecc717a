/* URLs, secrets, mirrors and error codes of git: what needs no process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/wrangler.h"
#include "container/git_failure.h"
#include "git/mirror.h"
#include "git/url.h"
#include "greatest.h"

TEST what_a_text_names_is_told_by_gits_rules(void)
{
    static const struct {
        const char *url;
        enum git_url_kind kind;
    } rows[] = {
        {"https://github.com/a/b", GIT_URL_REMOTE},
        {"ssh://git@h:22/a", GIT_URL_REMOTE},
        {"git@github.com:a/b.git", GIT_URL_REMOTE},
        {"host:path", GIT_URL_REMOTE},
        {"file:///workspace/src", GIT_URL_FILE},
        {"/workspace/src", GIT_URL_PATH},
        {"../src", GIT_URL_PATH},
        {"./a:b", GIT_URL_PATH},
        {"src", GIT_URL_PATH},
        {"ext::sh -c id", GIT_URL_REMOTE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_EQm(rows[i].url, rows[i].kind, git_url_kind(rows[i].url));
    ASSERT_STR_EQ("/workspace/src", git_url_path("file:///workspace/src"));
    PASS();
}

TEST the_directory_is_the_last_part_of_the_url(void)
{
    static const char *const rows[][2] = {
        {"https://github.com/octocat/Hello-World", "Hello-World"},
        {"https://github.com/octocat/Hello-World.git", "Hello-World"},
        {"https://h/a/b.git/", "b"},
        {"https://h/a/b?token=x", "b"},
        {"git@github.com:owner/repo.git", "repo"},
        {"host:repo", "repo"},
        {"file:///workspace/src", "src"},
        {"/srv/x.git", "x"},
        {"https://github.com", "repository"},
        {"https://github.com/", "repository"},
        {"/", "repository"},
        {"https://h/a/..", "repository"},
    };
    char name[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        git_url_name(rows[i][0], name, sizeof name);
        ASSERT_STR_EQm(rows[i][0], rows[i][1], name);
    }
    PASS();
}

TEST one_repository_has_one_place_whatever_the_scheme(void)
{
    static const char *const same[] = {
        "https://github.com/a/b",    "https://user:pw@GitHub.com:443/a/b.git",
        "git@github.com:a/b.git",    "ssh://git@github.com/a/b",
        "git://github.com/a/b.git/", "http://github.com/a/b?x=1",
    };
    static const char *const none[] = {"/a/b",           "file:///a/b",    "https://h/../x",
                                       "https://h/a//b", "https://h/.git", "h:../../x",
                                       "https://../a",   "https:///a"};
    char place[GIT_URL_MAX];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        ASSERTm(same[i], git_url_place(same[i], place, sizeof place));
        ASSERT_STR_EQm(same[i], "github.com/a/b", place);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ASSERT_FALSEm(none[i], git_url_place(none[i], place, sizeof place));
    PASS();
}

TEST secrets_of_urls_are_not_shown(void)
{
    static const char *const rows[][2] = {
        {"https://user:pw@h/a", "https://******@h/a"},
        {"fatal: 'http://tok@h/a/' and https://h/b", "fatal: 'http://******@h/a/' and https://h/b"},
        {"https://u:p@ss@h/a", "https://******@h/a"},
        {"https://h/a@b", "https://h/a@b"},
        {"https://h/a?token=x&y=1&Secret=z", "https://h/a?token=REDACTED&y=1&Secret=REDACTED"},
        {"https://h/a?X-Amz-Signature=ab'", "https://h/a?X-Amz-Signature=REDACTED'"},
        {"git@h:a", "git@h:a"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *clean = git_redact(rows[i][0]);
        ASSERT_STR_EQm(rows[i][0], rows[i][1], clean);
        free(clean);
    }
    PASS();
}

TEST the_longest_prefix_of_a_mirror_wins_and_nothing_leads_out_of_it(void)
{
    char dir[] = "/tmp/sandpit-git-test-XXXXXX", path[PATH_MAX], expected[PATH_MAX];
    struct git_mirrors mirrors = {0};
    struct error err = {0};
    ASSERT(mkdtemp(dir));
    ASSERT_EQ(0, git_mirrors_add(&mirrors, "https://h/", "all", dir, &err));
    ASSERT_EQ(0, git_mirrors_add(&mirrors, "https://h/own/", dir, "/nowhere", &err));
    ASSERT_EQ(GIT_MIRROR_NONE, git_mirror_find(&mirrors, "https://other/x", path));
    ASSERT_EQ(GIT_MIRROR_NONE, git_mirror_find(&mirrors, "/https://h/x", path));
    ASSERT_EQ(GIT_MIRROR_LACKING, git_mirror_find(&mirrors, "https://h/a/b", path));
    snprintf(expected, sizeof expected, "%s/all/a/b", dir);
    ASSERT_STR_EQ(expected, path);
    ASSERT_EQ(GIT_MIRROR_LACKING, git_mirror_find(&mirrors, "https://h/own/../../etc", path));
    ASSERT_STR_EQ("", path);
    ASSERT_EQ(GIT_MIRROR_LACKING, git_mirror_find(&mirrors, "https://h/own/", path));
    ASSERT_EQ(0, git_mirror_place(&mirrors, "https://h/own/r", path, &err));
    snprintf(expected, sizeof expected, "%s/r.git", dir);
    ASSERT_STR_EQ(expected, path);
    ASSERT_EQ(0, mkdir(path, 0700));
    ASSERT_EQ(GIT_MIRROR_LACKING, git_mirror_find(&mirrors, "https://h/own/r.git", path));
    snprintf(expected, sizeof expected, "%s/r.git/HEAD", dir);
    ASSERT_EQ(0, mkdir(expected, 0700));
    ASSERT_EQ(GIT_MIRROR_THERE, git_mirror_find(&mirrors, "https://h/own/r.git", path));
    rmdir(expected);
    expected[strlen(expected) - 5] = '\0';
    rmdir(expected);
    rmdir(dir);
    git_mirrors_free(&mirrors);
    PASS();
}

TEST a_mirror_option_needs_both_parts(void)
{
    struct git_mirrors mirrors = {0};
    struct error err = {0};
    ASSERT(git_mirrors_parse(&mirrors, "https://h/", &err) < 0);
    ASSERT(git_mirrors_parse(&mirrors, "=dir", &err) < 0);
    ASSERT(git_mirrors_parse(&mirrors, "https://h/=", &err) < 0);
    ASSERT_EQ(0, git_mirrors_parse(&mirrors, "https://h/?a=b/=/dir", &err));
    ASSERT_STR_EQ("https://h/?a=b/", mirrors.items[0].prefix);
    ASSERT_STR_EQ("/dir", mirrors.items[0].dir);
    git_mirrors_free(&mirrors);
    PASS();
}

TEST failures_get_the_codes_of_the_original(void)
{
    static const struct {
        int exit_code;
        const char *said;
        enum code code;
    } rows[] = {
        {124, "", CODE_GIT_NETWORK_ERROR},
        {128, "remote: Repository not found.", CODE_GIT_REPOSITORY_NOT_FOUND},
        {128, "fatal: repository 'x' not found", CODE_GIT_OPERATION_FAILED},
        {128, "fatal: Authentication failed", CODE_GIT_OPERATION_FAILED},
        {1, "Permission denied", CODE_GIT_AUTH_FAILED},
        {1, "x not found", CODE_GIT_REPOSITORY_NOT_FOUND},
        {1, "x already exists", CODE_GIT_CLONE_FAILED},
        {1, "pathspec 'x'", CODE_GIT_BRANCH_NOT_FOUND},
        {1, "bad credentials", CODE_GIT_AUTH_FAILED},
        {2, "", CODE_GIT_CLONE_FAILED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_EQm(rows[i].said, rows[i].code, git_failure_code(rows[i].exit_code, rows[i].said));
    PASS();
}

static int load(const char *dir, const char *text, struct project *project, struct error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/wrangler.jsonc", dir);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        return -1;
    int result = project_load(dir, NULL, project, err);
    unlink(path);
    return result;
}

TEST a_configuration_names_mirrors(void)
{
    char dir[] = "/tmp/sandpit-git-test-XXXXXX";
    struct project project;
    struct error err = {0};
    ASSERT(mkdtemp(dir));
    ASSERT_EQm(err.text, 0,
               load(dir, "{\"sandpit\": {\"git\": {\"mirrors\": {\"https://h/\": \"m\"}}}}",
                    &project, &err));
    ASSERT_STR_EQ("m", json_string_value(json_object_get(project.git_mirrors, "https://h/")));
    project_free(&project);
    ASSERT(load(dir, "{\"sandpit\": {\"git\": {\"mirrors\": {\"https://h/\": 5}}}}", &project,
                &err) < 0);
    ASSERTm(err.text, strstr(err.text, "sandpit.git.mirrors.https://h/ must be a directory"));
    project_free(&project);
    rmdir(dir);
    PASS();
}

SUITE(git_suite)
{
    RUN_TEST(what_a_text_names_is_told_by_gits_rules);
    RUN_TEST(the_directory_is_the_last_part_of_the_url);
    RUN_TEST(one_repository_has_one_place_whatever_the_scheme);
    RUN_TEST(secrets_of_urls_are_not_shown);
    RUN_TEST(the_longest_prefix_of_a_mirror_wins_and_nothing_leads_out_of_it);
    RUN_TEST(a_mirror_option_needs_both_parts);
    RUN_TEST(failures_get_the_codes_of_the_original);
    RUN_TEST(a_configuration_names_mirrors);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(git_suite);
    GREATEST_MAIN_END();
}

/* `sandpit doctor` on the projects of fixtures/: each has its findings in expected.txt, and each
 * fix of a bad one repairs it. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/check.h"
#include "greatest.h"
#include "support.h"

#define PROJECTS SANDPIT_SOURCE "/fixtures/projects"

static const struct emulator nobody = {.dir = "/"}; /* only its environment is used */

struct output {
    int status;
    char *out, *errors;
};

static void output_free(struct output *output)
{
    free(output->out);
    free(output->errors);
}
#define CLEANUP_OUTPUT __attribute__((cleanup(output_free)))

static struct output run(const char *const *argv)
{
    struct output output = {0};
    output.status = run_command(&nobody, argv, &output.out, &output.errors);
    return output;
}

static struct output doctor(const char *dir, bool json)
{
    const char *const argv[] = {SANDPIT_BINARY,         "doctor", "--only", "project", dir,
                                json ? "--json" : NULL, NULL};
    return run(argv);
}

static char *read_file(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    char *text = file ? calloc(1, 1 << 20) : NULL;
    if (text && fread(text, 1, (1 << 20) - 1, file) == 0)
        text[0] = '\0';
    if (file)
        fclose(file);
    return text;
}

/* Calls `check` for every project: those below doctor/ID/, and those in forms/. */
typedef const char *project_function(const char *dir, const char *id, const char *kind);

static const char *each_below(const char *parent, const char *id, project_function *check)
{
    const char *problem = NULL;
    struct dirent **names;
    int count = scandir(parent, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", parent, names[i]->d_name);
        if (names[i]->d_name[0] != '.' && !problem) {
            if (strcmp(parent, PROJECTS "/doctor") == 0)
                problem = each_below(path, names[i]->d_name, check);
            else
                problem = check(path, id, names[i]->d_name);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return count > 2 ? problem : keep(parent);
}

static const char *compare(const char *dir, const char *id, const char *kind)
{
    CLEANUP_OUTPUT struct output output = doctor(dir, false);
    char *expected = read_file(dir, "expected.txt");
    bool same = expected && output.out && strcmp(expected, output.out) == 0;
    free(expected);
    return same ? NULL : keep(dir);
}

TEST the_findings_of_every_project_are_frozen(void)
{
    const char *problem = each_below(PROJECTS "/doctor", NULL, compare);
    if (!problem)
        problem = each_below(PROJECTS "/forms", NULL, compare);
    ASSERTm(problem, !problem);
    PASS();
}

/* The findings of a project, new reference; *status is doctor's. */
static json_t *findings_of(const char *dir, int *status)
{
    CLEANUP_OUTPUT struct output output = doctor(dir, true);
    json_t *json = output.out ? json_loads(output.out, 0, NULL) : NULL;
    json_t *findings = json_incref(json_object_get(json, "findings"));
    bool ok = json_is_true(json_object_get(json, "ok"));
    *status = ok == (output.status == 0) ? output.status : -1;
    json_decref(json);
    return findings;
}

static const char *judge(const char *dir, const char *id, const char *kind)
{
    int status;
    json_t *findings = findings_of(dir, &status);
    bool good = strcmp(kind, "good") == 0;
    bool right = good ? json_array_size(findings) == 0 && status == 0
                      : json_array_size(findings) == 1 &&
                            strcmp(text_at(findings, "0.id"), id) == 0 &&
                            (status == 1 || strcmp(text_at(findings, "0.severity"), "info") == 0);
    json_decref(findings);
    return right ? NULL : keep(dir);
}

TEST a_bad_project_has_its_one_finding_and_a_good_one_has_none(void)
{
    const char *problem = each_below(PROJECTS "/doctor", NULL, judge);
    ASSERTm(problem, !problem);
    PASS();
}

static int shell(const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    CLEANUP_OUTPUT struct output output = run(argv);
    return output.status;
}

/* As a user would: with patch, and git takes it too where it is there. */
static bool apply(const char *dir, const char *fix)
{
    char path[64], script[512];
    snprintf(path, sizeof path, "%s/fix.diff", dir);
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    fputs(fix, file);
    fclose(file);
    snprintf(script, sizeof script,
             "cd '%s' && { ! command -v git >/dev/null || git apply --check fix.diff; } && "
             "patch -s -p1 < fix.diff && rm fix.diff",
             dir);
    return shell(script) == 0;
}

/* The first finding with a fix, or "". */
static const char *next_fix(const json_t *findings, const char **reason)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        *reason = text_at(finding, "reason");
        if (*text_at(finding, "fix"))
            return text_at(finding, "fix");
    }
    return "";
}

static bool has_reason(const json_t *findings, const char *reason)
{
    bool found = false;
    for (size_t i = 0; i < json_array_size(findings); i++)
        found |= strcmp(text_at(json_array_get(findings, i), "reason"), reason) == 0;
    return found;
}

/* Applies one diff after the other to a copy; each makes its finding go away. */
static const char *repair(const char *dir, const char *id, const char *kind)
{
    int status;
    char copy[] = "/tmp/sandpit-fix-XXXXXX", script[1024];
    const char *problem = NULL, *reason;
    if (!mkdtemp(copy))
        return keep("mkdtemp");
    snprintf(script, sizeof script, "cp -r '%s/.' '%s'", dir, copy);
    problem = shell(script) == 0 ? NULL : keep(dir);
    json_t *findings = findings_of(copy, &status);
    bool fixed = false;
    for (const char *fix; !problem && *(fix = next_fix(findings, &reason));) {
        fixed = true;
        json_t *after = apply(copy, fix) ? findings_of(copy, &status) : NULL;
        if (!after || has_reason(after, reason))
            problem = keep(reason);
        json_decref(findings);
        findings = after;
    }
    if (!problem && id && fixed && json_array_size(findings) != 0)
        problem = keep(dir);
    json_decref(findings);
    snprintf(script, sizeof script, "rm -rf '%s'", copy);
    shell(script);
    return problem;
}

TEST every_fix_applies_as_a_patch_and_repairs_the_project(void)
{
    if (shell("command -v patch") != 0)
        SKIPm("patch is not installed");
    const char *problem = each_below(PROJECTS "/doctor", NULL, repair);
    if (!problem)
        problem = each_below(PROJECTS "/forms", NULL, repair);
    ASSERTm(problem, !problem);
    PASS();
}

static const char *document;

static const char *look_up(const char *dir, const char *id, const char *kind)
{
    char heading[64];
    snprintf(heading, sizeof heading, "\n### %s\n", id);
    return strstr(document, heading) ? NULL : keep(id);
}

TEST every_finding_has_its_part_of_the_document(void)
{
    char *text = read_file(SANDPIT_SOURCE, "docs/doctor.md");
    document = text ? text : "";
    const char *problem = each_below(PROJECTS "/doctor", NULL, look_up);
    free(text);
    ASSERTm(problem, !problem);
    PASS();
}

TEST every_check_has_a_bad_and_a_good_project(void)
{
    for (size_t i = 0; i < project_check_count; i++) {
        char bad[512], good[512];
        snprintf(bad, sizeof bad, PROJECTS "/doctor/%s/bad", project_checks[i].id);
        snprintf(good, sizeof good, PROJECTS "/doctor/%s/good", project_checks[i].id);
        ASSERTm(project_checks[i].id, access(bad, F_OK) == 0 && access(good, F_OK) == 0);
    }
    PASS();
}

TEST init_makes_a_project_that_doctor_finds_clean_and_overwrites_nothing(void)
{
    char dir[] = "/tmp/sandpit-init-XXXXXX", below[64];
    ASSERT(mkdtemp(dir));
    snprintf(below, sizeof below, "%s/My New_App", dir);
    const char *const init[] = {SANDPIT_BINARY, "init", below, NULL};
    CLEANUP_OUTPUT struct output made = run(init);
    ASSERT_EQm(keep(made.errors), 0, made.status);
    int status;
    json_t *findings = findings_of(below, &status);
    ASSERT_EQ(0, status);
    ASSERT_EQ(0, json_array_size(findings));
    json_decref(findings);
    char *config = read_file(below, "wrangler.jsonc");
    ASSERT(config && strstr(config, "\"name\": \"my-new-app\""));
    free(config);
    CLEANUP_OUTPUT struct output again = run(init);
    ASSERT_EQ(1, again.status);
    ASSERTm(keep(again.errors), strstr(again.errors, "is there already"));
    const char *const clean[] = {"/bin/rm", "-rf", dir, NULL};
    CLEANUP_OUTPUT struct output cleaned = run(clean);
    PASS();
}

/* The scratch directory as a script leaves it, and what init says of it. */
TEST init_writes_everything_or_nothing(void)
{
    static const struct {
        const char *before; /* in the directory */
        const char *dir;
        int status;
        const char *error;
        const char *after; /* must hold afterwards */
    } rows[] = {
        {"true", "new/in/depth", 0, "", "test -f new/in/depth/src/index.ts"},
        {"echo mine > README.md; mkdir src; echo mine > src/own.ts", ".", 0, "",
         "test -f Dockerfile && grep -q mine README.md && grep -q mine src/own.ts"},
        {"echo '{}' > package.json", ".", 1, "package.json' is there already; nothing was written",
         "test $(ls -A | wc -l) = 1 && grep -q '{}' package.json"},
        {"echo x > wrangler.toml", ".", 1, "wrangler.toml' is there already",
         "test ! -e Dockerfile"},
        {"ln -s nowhere Dockerfile", ".", 1, "Dockerfile' is there already",
         "test ! -e wrangler.jsonc && test ! -e nowhere"},
        {"echo x > src", ".", 1, "src' is not a directory; nothing was written",
         "test ! -e wrangler.jsonc"},
        {"echo x > file", "file", 1, "file' is not a directory", "grep -q x file"},
        {"mkdir inner; echo '{}' > wrangler.json", "inner", 0, "comes before this wrangler.jsonc",
         "test -f inner/wrangler.jsonc"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char dir[] = "/tmp/sandpit-init-XXXXXX", script[512];
        ASSERT(mkdtemp(dir));
        snprintf(script, sizeof script, "cd '%s' && { %s; }", dir, rows[i].before);
        ASSERT_EQm(rows[i].before, 0, shell(script));
        snprintf(script, sizeof script, "cd '%s' && exec '%s' init %s", dir, SANDPIT_BINARY,
                 rows[i].dir);
        const char *const argv[] = {"/bin/sh", "-c", script, NULL};
        CLEANUP_OUTPUT struct output made = run(argv);
        ASSERT_EQm(keep(made.errors), rows[i].status, made.status);
        ASSERTm(keep(made.errors), strstr(made.errors, rows[i].error));
        snprintf(script, sizeof script, "cd '%s' && %s", dir, rows[i].after);
        ASSERT_EQm(rows[i].after, 0, shell(script));
        snprintf(script, sizeof script, "rm -rf '%s'", dir);
        shell(script);
    }
    PASS();
}

TEST a_project_above_is_named_and_none_at_all_is_said(void)
{
    char dir[] = "/tmp/sandpit-doctor-XXXXXX", script[512], below[64], file[64];
    ASSERT(mkdtemp(dir));
    snprintf(below, sizeof below, "%s/a/b", dir);
    snprintf(file, sizeof file, "%s/wrangler.jsonc", dir);
    snprintf(script, sizeof script, "mkdir -p '%s'", below);
    ASSERT_EQ(0, shell(script));
    CLEANUP_OUTPUT struct output none = doctor(below, false);
    ASSERT_EQ(2, none.status);
    ASSERTm(keep(none.errors), strstr(none.errors, "there is no wrangler.json"));
    const char *const init[] = {SANDPIT_BINARY, "init", dir, NULL};
    CLEANUP_OUTPUT struct output made = run(init);
    CLEANUP_OUTPUT struct output text = doctor(below, false), json = doctor(below, true);
    ASSERT_EQ(0, text.status);
    ASSERTm(keep(text.out), strstr(text.out, file));
    json_t *report = json_loads(json.out, 0, NULL);
    ASSERT_STR_EQ(file, text_at(report, "config"));
    json_decref(report);
    snprintf(script, sizeof script, "rm -rf '%s'", dir);
    shell(script);
    PASS();
}

TEST what_cannot_be_read_is_a_finding_with_its_place(void)
{
    char dir[] = "/tmp/sandpit-doctor-XXXXXX", path[64];
    ASSERT(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/wrangler.toml", dir);
    FILE *file = fopen(path, "we");
    fputs("name = 'x'\nmain = src\n", file);
    fclose(file);
    int status;
    json_t *findings = findings_of(dir, &status);
    ASSERT_EQ(1, status);
    ASSERT_STR_EQ("config", text_at(findings, "0.id"));
    ASSERT_STR_EQ("wrangler.toml", text_at(findings, "0.file"));
    ASSERT_EQ(2, number_at(findings, "0.line"));
    ASSERT_EQ(8, number_at(findings, "0.column"));
    json_decref(findings);
    unlink(path);
    rmdir(dir);
    PASS();
}

SUITE(doctor_project)
{
    RUN_TEST(the_findings_of_every_project_are_frozen);
    RUN_TEST(a_bad_project_has_its_one_finding_and_a_good_one_has_none);
    RUN_TEST(every_fix_applies_as_a_patch_and_repairs_the_project);
    RUN_TEST(every_finding_has_its_part_of_the_document);
    RUN_TEST(every_check_has_a_bad_and_a_good_project);
    RUN_TEST(init_makes_a_project_that_doctor_finds_clean_and_overwrites_nothing);
    RUN_TEST(init_writes_everything_or_nothing);
    RUN_TEST(a_project_above_is_named_and_none_at_all_is_said);
    RUN_TEST(what_cannot_be_read_is_a_finding_with_its_place);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(doctor_project);
    GREATEST_MAIN_END();
}

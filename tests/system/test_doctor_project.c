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

/* Copies the project, applies the diff as a user would, and asks again. */
static const char *repair(const char *dir, const char *id, const char *kind)
{
    int status;
    char copy[] = "/tmp/sandpit-fix-XXXXXX", script[1024];
    json_t *findings = findings_of(dir, &status);
    const char *fix = text_at(findings, "0.fix");
    const char *problem = NULL;
    if (*fix && mkdtemp(copy)) {
        char path[64];
        snprintf(path, sizeof path, "%s/fix.diff", copy);
        FILE *file = fopen(path, "we");
        if (file) {
            fputs(fix, file);
            fclose(file);
        }
        snprintf(script, sizeof script, "cp -r '%s/.' '%s' && cd '%s' && patch -s -p1 < fix.diff",
                 dir, copy, copy);
        const char *const argv[] = {"/bin/sh", "-c", script, NULL};
        CLEANUP_OUTPUT struct output patched = run(argv);
        json_t *after = findings_of(copy, &status);
        if (patched.status != 0 || json_array_size(after) != 0)
            problem = keep(dir);
        json_decref(after);
        const char *const clean[] = {"/bin/rm", "-rf", copy, NULL};
        CLEANUP_OUTPUT struct output cleaned = run(clean);
    }
    json_decref(findings);
    return problem;
}

TEST every_fix_applies_as_a_patch_and_repairs_the_project(void)
{
    const char *const argv[] = {"/bin/sh", "-c", "command -v patch", NULL};
    CLEANUP_OUTPUT struct output has = run(argv);
    if (has.status != 0)
        SKIPm("patch is not installed");
    const char *problem = each_below(PROJECTS "/doctor", NULL, repair);
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
    RUN_TEST(what_cannot_be_read_is_a_finding_with_its_place);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(doctor_project);
    GREATEST_MAIN_END();
}

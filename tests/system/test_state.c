/* What is kept between two starts: as a file, back from it, and gone. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "support.h"

static struct emulator emulator;

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

/* A path in the scratch directory; good until the eighth call after it. */
static const char *scratch(const char *name)
{
    static char paths[8][160];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", emulator.dir, name);
    return path;
}

/* sandpit state ACTION [FILE] [--force], on the state below the scratch directory's `name`. */
static struct output state(const char *name, const char *action, const char *file, bool force)
{
    const char *argv[10] = {SANDPIT_BINARY, "state", action, "--persist-to", scratch(name)};
    int count = 5;
    if (file)
        argv[count++] = file;
    if (force)
        argv[count++] = "--force";
    struct output output = {0};
    output.status = run_command(&emulator, argv, &output.out, &output.errors);
    return output;
}

/* Runs sql on a file. */
static int change(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    int result = sqlite3_open(path, &db);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return result;
}

static long long file_size(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 ? -1 : (long long)status.st_size;
}

static int start_on(const char *name)
{
    const char *const extra[] = {"--persist-to", scratch(name), "--network", "none", NULL};
    return emulator_restart(&emulator, extra);
}

/* A sandbox with an option and an object in a bucket, in the state `name`. */
static const char *fill(const char *name)
{
    if (start_on(name) < 0)
        return "the emulator did not start";
    CLEANUP_REPLY struct reply a = post(&emulator, "/sandbox/box/setSleepAfter", "[\"42m\"]");
    CLEANUP_REPLY struct reply b =
        post(&emulator, "/api/bucket/put", "{\"key\": \"kept/a.txt\", \"content\": \"kept\"}");
    if (emulator_stop(&emulator) != 0)
        return "the emulator did not end";
    return a.status != 200 ? "setSleepAfter" : b.status != 200 ? "bucket put" : NULL;
}

/* NULL when the state `name` has what fill() made. */
static const char *is_filled(const char *name)
{
    if (start_on(name) < 0)
        return "the emulator did not start";
    CLEANUP_REPLY struct reply a = get(&emulator, "/cdn-cgi/local/sandboxes/box");
    CLEANUP_REPLY struct reply b = get(&emulator, "/api/bucket/get?key=kept/a.txt");
    emulator_stop(&emulator);
    if (a.status != 200 || number_at(a.json, "sleepAfterMs") != 42 * 60000)
        return "the sandbox or its option is not there";
    return b.status == 200 && strcmp(text_at(b.json, "content"), "kept") == 0
               ? NULL
               : "the object is not in its bucket";
}

TEST what_is_exported_comes_back_by_import_elsewhere(void)
{
    const char *problem = fill("a");
    ASSERT_EQm(problem, NULL, problem);
    CLEANUP_OUTPUT struct output out = state("a", "export", scratch("state.file"), false);
    ASSERT_EQm(keep(out.errors), 0, out.status);
    ASSERT(strstr(out.out, "1 sandbox, 1 object in buckets"));
    struct stat status;
    ASSERT_EQ(0, stat(scratch("state.file"), &status));
    ASSERT_EQm("it holds secrets", 0600, (int)(status.st_mode & 0777));
    CLEANUP_OUTPUT struct output in = state("b", "import", scratch("state.file"), false);
    ASSERT_EQm(keep(in.errors), 0, in.status);
    problem = is_filled("b");
    ASSERT_EQm(problem, NULL, problem);
    problem = is_filled("a");
    ASSERT_EQm(problem, NULL, problem);
    PASS();
}

TEST nothing_is_replaced_without_force(void)
{
    CLEANUP_OUTPUT struct output there = state("a", "export", scratch("state.file"), false);
    ASSERT_EQ(1, there.status);
    ASSERT(strstr(there.errors, "--force"));
    CLEANUP_OUTPUT struct output again = state("a", "export", scratch("state.file"), true);
    ASSERT_EQ(0, again.status);
    CLEANUP_OUTPUT struct output full = state("b", "import", scratch("state.file"), false);
    ASSERT_EQ(1, full.status);
    ASSERTm(keep(full.errors), strstr(full.errors, "1 sandboxes"));
    CLEANUP_OUTPUT struct output forced = state("b", "import", scratch("state.file"), true);
    ASSERT_EQm(keep(forced.errors), 0, forced.status);
    PASS();
}

/* A copy of the export, changed by sql. */
static const char *changed(const char *name, const char *sql)
{
    char command[512];
    snprintf(command, sizeof command, "cp '%s' '%s'", scratch("state.file"), scratch(name));
    const char *const argv[] = {"sh", "-c", command, NULL};
    struct output output = {0};
    output.status = run_command(&emulator, argv, &output.out, &output.errors);
    output_free(&output);
    if (output.status == 0 && sql && change(scratch(name), sql) != SQLITE_OK)
        return NULL;
    return scratch(name);
}

TEST bad_files_are_refused_and_nothing_is_lost(void)
{
    static const struct {
        const char *sql, *word;
    } rows[] = {
        {"PRAGMA user_version = 2", "newer"},
        {"PRAGMA application_id = 7", "not a file of"},
        {"DROP TABLE storage", "damaged"},
        {"CREATE TRIGGER t AFTER INSERT ON objects BEGIN DELETE FROM storage; END", "damaged"},
        {"CREATE VIEW v AS SELECT 1", "damaged"},
        {"UPDATE objects SET secret = 'short'", "secret"},
        {"UPDATE objects SET secret = '../../../../../x'", "secret"},
        {"UPDATE objects SET id = ''", "name"},
        {"UPDATE objects SET id = 'a' || char(0) || 'b'", "name"},
        {"UPDATE objects SET class = x'00ff'", "name"},
        {"UPDATE storage SET object = 99", "stored for no sandbox"},
        {"UPDATE bucket_objects SET size = 1000000", "bucket"},
        {"UPDATE bucket_objects SET key = zeroblob(2000)", "bucket"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *file = changed("bad.file", rows[i].sql);
        ASSERTm(rows[i].sql, file);
        CLEANUP_OUTPUT struct output in = state("b", "import", file, true);
        ASSERT_EQm(rows[i].sql, 1, in.status);
        ASSERTm(keep(in.errors), strstr(in.errors, rows[i].word));
        unlink(scratch("bad.file"));
    }
    const char *problem = is_filled("b");
    ASSERT_EQm(problem, NULL, problem);
    PASS();
}

TEST what_is_no_export_at_all_is_refused_by_name(void)
{
    CLEANUP_FILE FILE *text = fopen(scratch("text"), "w");
    fputs("not a database at all, but long enough to have a header of one hundred bytes and more, "
          "so that it could be one\n",
          text);
    fflush(text);
    CLEANUP_FILE FILE *empty = fopen(scratch("empty"), "w");
    const char *cut = changed("cut", NULL);
    ASSERT_EQ(0, truncate(cut, file_size(cut) / 2));
    ASSERT_EQ(0, mkfifo(scratch("fifo"), 0600));
    static const char *const names[] = {
        "text", "empty", "cut", "nowhere", "fifo", ".", "a/sandpit/objects.sqlite"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CLEANUP_OUTPUT struct output in = state("b", "import", scratch(names[i]), true);
        ASSERT_EQm(names[i], 1, in.status);
        ASSERTm(keep(in.errors), strstr(in.errors, names[i]));
    }
    const char *problem = is_filled("b");
    ASSERT_EQm(problem, NULL, problem);
    PASS();
}

/* $0 is the program, $1 the scratch directory. */
static const char full_disk[] =
    "set -e; cd \"$1\"; mkdir -p small; mount -t tmpfs -o size=500k none small\n"
    "$0 state import state.file --persist-to small\n"
    "! $0 state import big.file --persist-to small --force || exit 3\n"
    "! $0 state export small/copy.file --persist-to big || exit 4\n"
    "test \"$(ls small)\" = sandpit\n"
    "$0 state export same.file --persist-to small\n"
    "grep -q kept/a.txt same.file\n";

TEST a_full_disk_changes_nothing_and_leaves_no_half_of_a_file(void)
{
    ASSERT_EQ(0, start_on("big"));
    size_t size = 2 << 20;
    CLEANUP_FREE char *body = malloc(size + 64);
    int head = snprintf(body, 64, "{\"key\": \"big\", \"content\": \"");
    memset(body + head, 'x', size);
    snprintf(body + head + size, 8, "\"}");
    CLEANUP_REPLY struct reply put = post(&emulator, "/api/bucket/put", body);
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(200, put.status);
    CLEANUP_OUTPUT struct output out = state("big", "export", scratch("big.file"), false);
    ASSERT_EQ(0, out.status);
    const char *const argv[] = {"unshare", "-m",           "sh",         "-c",
                                full_disk, SANDPIT_BINARY, emulator.dir, NULL};
    CLEANUP_OUTPUT struct output small = {0};
    small.status = run_command(&emulator, argv, &small.out, &small.errors);
    ASSERT_EQm(keep(small.errors), 0, small.status);
    ASSERTm(keep(small.errors), strstr(small.errors, "full"));
    PASS();
}

TEST a_running_emulator_keeps_its_state_to_itself(void)
{
    ASSERT_EQ(0, start_on("a"));
    CLEANUP_OUTPUT struct output out = state("a", "export", scratch("other.file"), false);
    CLEANUP_OUTPUT struct output in = state("a", "import", scratch("state.file"), true);
    CLEANUP_OUTPUT struct output gone = state("a", "reset", NULL, false);
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(1, out.status);
    ASSERT_EQ(1, in.status);
    ASSERT_EQ(1, gone.status);
    ASSERTm(keep(out.errors), strstr(out.errors, "an emulator runs on"));
    ASSERT_EQ(-1, file_size(scratch("other.file")));
    const char *problem = is_filled("a");
    ASSERT_EQm(problem, NULL, problem);
    PASS();
}

TEST reset_removes_what_is_kept_also_when_it_is_damaged(void)
{
    ASSERT_EQ(0, truncate(scratch("b/sandpit/objects.sqlite"), 5000));
    CLEANUP_OUTPUT struct output out = state("b", "export", scratch("damaged.file"), false);
    ASSERT_EQm("it is damaged", 1, out.status);
    ASSERT_EQ(-1, file_size(scratch("damaged.file")));
    CLEANUP_OUTPUT struct output gone = state("b", "reset", NULL, false);
    ASSERT_EQm(keep(gone.errors), 0, gone.status);
    ASSERT_EQ(-1, file_size(scratch("b/sandpit/objects.sqlite")));
    ASSERT_EQ(-1, file_size(scratch("b/sandpit/buckets.sqlite")));
    CLEANUP_OUTPUT struct output none = state("b", "reset", NULL, false);
    ASSERT_EQ(0, none.status);
    CLEANUP_OUTPUT struct output empty = state("b", "export", scratch("damaged.file"), false);
    ASSERT_EQ(1, empty.status);
    ASSERT(strstr(empty.errors, "nothing is kept"));
    ASSERT_EQ(0, start_on("b"));
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/sandboxes");
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, (int)json_array_size(at(list.json, "sandboxes")));
    PASS();
}

TEST the_reset_command_empties_a_running_emulator(void)
{
    ASSERT_EQ(0, start_on("a"));
    CLEANUP_REPLY struct reply moved =
        post(&emulator, "/cdn-cgi/local/clock/advance", "{\"by\": \"1h\"}");
    CLEANUP_REPLY struct reply fault =
        post(&emulator, "/cdn-cgi/local/faults", "{\"on\": \"start\", \"do\": \"no-instance\"}");
    ASSERT(fault.status < 300);
    char port[16];
    snprintf(port, sizeof port, "%d", emulator.port);
    const char *const argv[] = {SANDPIT_BINARY, "reset", "--port", port, NULL};
    struct output output = {0};
    output.status = run_command(&emulator, argv, &output.out, &output.errors);
    ASSERT_EQm(keep(output.errors), 0, output.status);
    output_free(&output);
    CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/sandboxes");
    CLEANUP_REPLY struct reply clock = get(&emulator, "/cdn-cgi/local/clock");
    CLEANUP_REPLY struct reply faults = get(&emulator, "/cdn-cgi/local/faults");
    CLEANUP_REPLY struct reply object = get(&emulator, "/api/bucket/get?key=kept/a.txt");
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, (int)json_array_size(at(list.json, "sandboxes")));
    ASSERT_EQ(0, (int)number_at(clock.json, "offsetMs"));
    ASSERT_EQ(0, (int)json_array_size(at(faults.json, "faults")));
    ASSERT(object.status >= 400);
    PASS();
}

TEST mistakes_of_the_command_line_exit_2(void)
{
    static const char *const rows[][4] = {{"export", NULL},
                                          {"import", NULL},
                                          {"reset", "file", NULL},
                                          {"exprot", "file", NULL},
                                          {NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *argv[8] = {SANDPIT_BINARY, "state"};
        for (int j = 0; rows[i][j]; j++)
            argv[j + 2] = rows[i][j];
        struct output output = {0};
        output.status = run_command(&emulator, argv, &output.out, &output.errors);
        output_free(&output);
        ASSERT_EQ(2, output.status);
    }
    PASS();
}

SUITE(state_suite)
{
    RUN_TEST(what_is_exported_comes_back_by_import_elsewhere);
    RUN_TEST(nothing_is_replaced_without_force);
    RUN_TEST(bad_files_are_refused_and_nothing_is_lost);
    RUN_TEST(what_is_no_export_at_all_is_refused_by_name);
    RUN_TEST(a_full_disk_changes_nothing_and_leaves_no_half_of_a_file);
    RUN_TEST(a_running_emulator_keeps_its_state_to_itself);
    RUN_TEST(reset_removes_what_is_kept_also_when_it_is_damaged);
    RUN_TEST(the_reset_command_empties_a_running_emulator);
    RUN_TEST(mistakes_of_the_command_line_exit_2);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP state_suite: %s\n", missing);
        return 77;
    }
    if (emulator_start(&emulator, NULL) < 0 || emulator_stop(&emulator) != 0)
        return 1;
    RUN_SUITE(state_suite);
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}

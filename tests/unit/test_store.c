#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "greatest.h"
#include "objects/store.h"

static char dir[64], path[96];

static void set_up(void *arg)
{
    (void)arg;
    snprintf(dir, sizeof dir, "/tmp/sandpit-store-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    snprintf(path, sizeof path, "%s/objects.sqlite", dir);
}

static void tear_down(void *arg)
{
    (void)arg;
    static const char *const names[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", path, names[i]);
        unlink(name);
    }
    rmdir(dir);
}

static void count(void *arg, int64_t row, const char *class_name, const char *id,
                  const char *secret)
{
    ++*(int *)arg;
}

TEST what_was_put_is_there_after_reopening(void)
{
    struct error err = {0};
    struct store *store = store_open(path, &err);
    ASSERTm(err.text, store);
    int64_t row = store_create(store, "Sandbox", "a", "secret", 1, &err);
    ASSERT(row > 0);
    CLEANUP_JSON json_t *value = json_pack("{s:i}", "x", 1);
    ASSERT_EQ(0, store_put(store, row, "k", value, &err));
    ASSERT_EQ(0, store_put(store, row, "gone", value, &err));
    ASSERT_EQ(0, store_delete(store, row, "gone", &err));
    store_close(store);
    store = store_open(path, &err);
    CLEANUP_JSON json_t *again = store_get(store, row, "k", &err);
    ASSERT(json_equal(value, again));
    ASSERT_EQ(NULL, store_get(store, row, "gone", &err));
    ASSERT_EQ(0, err.code);
    int rows = 0;
    ASSERT_EQ(0, store_each(store, count, &rows, &err));
    ASSERT_EQ(1, rows);
    ASSERT_EQ(0, store_clear(store, &err));
    ASSERT_EQ(NULL, store_get(store, row, "k", &err));
    store_close(store);
    PASS();
}

static void add_up(void *arg, const json_t *value)
{
    *(int *)arg += (int)json_integer_value(value);
}

TEST several_keys_change_all_or_none(void)
{
    struct error err = {0};
    struct store *store = store_open(path, &err);
    ASSERTm(err.text, store);
    int64_t row = store_create(store, "Sandbox", "a", "secret", 1, &err);
    int64_t other = store_create(store, "Sandbox", "b", "secret", 1, &err);
    CLEANUP_JSON json_t *one = json_integer(1), *two = json_integer(2);
    ASSERT_EQ(0, store_put(store, row, "old", one, &err));
    ASSERT_EQ(0, store_put(store, other, "k", two, &err));
    const struct store_change good[] = {{"k", one}, {"old", NULL}};
    ASSERT_EQ(0, store_change(store, row, good, 2, &err));
    ASSERT_EQ(NULL, store_get(store, row, "old", &err));
    int sum = 0;
    ASSERT_EQ(0, store_each_value(store, "k", add_up, &sum, &err));
    ASSERT_EQ(3, sum);
    /* No object has this row, so nothing can be stored for it. */
    ASSERT(store_change(store, row + 1000, good, 1, &err) < 0);
    const struct store_change again[] = {{"k", two}};
    ASSERT_EQ(0, store_change(store, row, again, 1, &err)); /* nothing is left open */
    store_close(store);
    store = store_open(path, &err);
    CLEANUP_JSON json_t *kept = store_get(store, row, "k", &err);
    ASSERT_EQ(2, json_integer_value(kept));
    store_close(store);
    PASS();
}

TEST one_id_of_one_class_has_one_row(void)
{
    struct error err = {0};
    struct store *store = store_open(path, &err);
    ASSERT(store_create(store, "Sandbox", "a", "s", 1, &err) > 0);
    ASSERT(store_create(store, "Other", "a", "s", 1, &err) > 0);
    ASSERT(store_create(store, "Sandbox", "a", "s", 1, &err) < 0);
    store_close(store);
    PASS();
}

/* Everything acknowledged before a SIGKILL is there afterwards, whenever it comes. */
TEST a_killed_writer_loses_nothing_it_acknowledged(void)
{
    int told[2];
    ASSERT_EQ(0, pipe(told));
    int pid = fork();
    if (pid == 0) {
        struct store *store = store_open(path, NULL);
        int64_t row = store_create(store, "Sandbox", "a", "s", 1, NULL);
        for (int i = 0;; i++) {
            json_t *value = json_integer(i);
            if (store_put(store, row, "n", value, NULL) < 0)
                _exit(1);
            json_decref(value);
            if (write(told[1], &i, sizeof i) != sizeof i)
                _exit(1);
        }
    }
    close(told[1]);
    int acknowledged = -1;
    while (acknowledged < 500 && read(told[0], &acknowledged, sizeof acknowledged) > 0)
        ;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int more; read(told[0], &more, sizeof more) == sizeof more;)
        acknowledged = more;
    close(told[0]);
    struct error err = {0};
    struct store *store = store_open(path, &err);
    ASSERTm(err.text, store);
    CLEANUP_JSON json_t *value = store_get(store, 1, "n", &err);
    ASSERT(json_integer_value(value) >= acknowledged);
    store_close(store);
    PASS();
}

static void damage(long offset, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (pwrite(fd, bytes, size, offset) < 0)
        abort();
    close(fd);
}

TEST a_file_that_is_no_database_is_refused_and_kept(void)
{
    struct error err = {0};
    damage(0, "this is not a database, it is a text that somebody wrote here", 60);
    ASSERT_EQ(NULL, store_open(path, &err));
    ASSERT(strstr(err.text, path));
    ASSERT_EQ(0, access(path, F_OK));
    PASS();
}

TEST a_damaged_database_is_refused_with_what_to_do(void)
{
    struct error err = {0};
    struct store *store = store_open(path, &err);
    for (int i = 0; i < 200; i++) {
        char id[16];
        snprintf(id, sizeof id, "box-%d", i);
        store_create(store, "Sandbox", id, "secret", 1, &err);
    }
    store_close(store);
    char garbage[4096];
    memset(garbage, 0xa5, sizeof garbage);
    damage(4096, garbage, sizeof garbage);
    ASSERT_EQ(NULL, store_open(path, &err));
    ASSERTm(err.text, strstr(err.text, "damaged"));
    PASS();
}

TEST an_empty_file_is_a_new_database(void)
{
    struct error err = {0};
    damage(0, "", 0);
    struct store *store = store_open(path, &err);
    ASSERTm(err.text, store);
    store_close(store);
    PASS();
}

TEST a_newer_format_is_refused(void)
{
    struct error err = {0};
    store_close(store_open(path, &err));
    sqlite3 *db = NULL;
    sqlite3_open(path, &db);
    sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL);
    sqlite3_close(db);
    ASSERT_EQ(NULL, store_open(path, &err));
    ASSERTm(err.text, strstr(err.text, "newer"));
    PASS();
}

SUITE(store_suite)
{
    SET_SETUP(set_up, NULL);
    SET_TEARDOWN(tear_down, NULL);
    RUN_TEST(what_was_put_is_there_after_reopening);
    RUN_TEST(several_keys_change_all_or_none);
    RUN_TEST(one_id_of_one_class_has_one_row);
    RUN_TEST(a_killed_writer_loses_nothing_it_acknowledged);
    RUN_TEST(a_file_that_is_no_database_is_refused_and_kept);
    RUN_TEST(a_damaged_database_is_refused_with_what_to_do);
    RUN_TEST(an_empty_file_is_a_new_database);
    RUN_TEST(a_newer_format_is_refused);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(store_suite);
    GREATEST_MAIN_END();
}

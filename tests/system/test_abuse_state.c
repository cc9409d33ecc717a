/* The state directory under attack: full, read-only, damaged, locked by others, and an emulator
 * that is killed while it writes. What was acknowledged is there afterwards; who asks is told. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "greatest.h"
#include "support.h"

static struct emulator emulator;

static char *path_of(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/sandpit/%s", emulator.dir, name);
    return path;
}

static struct reply call(const char *box, const char *method, const char *arguments)
{
    char path[160];
    snprintf(path, sizeof path, "/sandbox/%s/%s", box, method);
    return post(&emulator, path, arguments);
}

static int status_of(const char *box, const char *method, const char *arguments)
{
    CLEANUP_REPLY struct reply reply = call(box, method, arguments);
    return reply.status;
}

static long long sleep_after_of(const char *box)
{
    char path[160];
    snprintf(path, sizeof path, "/cdn-cgi/local/sandboxes/%s", box);
    CLEANUP_REPLY struct reply reply = get(&emulator, path);
    return reply.status == 200 ? number_at(reply.json, "sleepAfterMs") : -reply.status;
}

static bool health(void)
{
    CLEANUP_REPLY struct reply reply = get(&emulator, "/cdn-cgi/local/health");
    return reply.status == 200;
}

/* Runs `sandpit dev` on the state directory in the expectation that it refuses; its words. */
static char *refusal(int *status)
{
    const char *const argv[] = {"timeout", "20",           SANDPIT_BINARY, "dev", "--port",
                                "0",       "--persist-to", emulator.dir,   NULL};
    char *errors = NULL;
    *status = run_command(&emulator, argv, NULL, &errors);
    return errors;
}

/* Full and read-only file systems, each in a mount namespace of its own. */

struct disk {
    const char *options;
    const char *(*test)(void);
};

static const char *on_a_disk(void *arg)
{
    const struct disk *disk = arg;
    struct emulator outer = emulator;
    emulator = (struct emulator){0};
    snprintf(emulator.dir, sizeof emulator.dir, "%s/disk-XXXXXX", outer.dir);
    if (!mkdtemp(emulator.dir))
        return "mkdtemp";
    mkdir(path_of(""), 0700);
    if (mount("tmpfs", path_of(""), "tmpfs", 0, disk->options) < 0)
        return "mount";
    const char *wrong = disk->test();
    if (!wrong && emulator.pid > 0 && emulator_stop(&emulator) != 0)
        wrong = "it did not end cleanly";
    return wrong;
}

static void fill(void)
{
    static char zeros[65536];
    int fd = open(path_of("fill"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    size_t step = sizeof zeros;
    while (step >= 1) {
        if (write(fd, zeros, step) <= 0)
            step /= 2;
    }
    close(fd);
}

/* Creates sandboxes until storage refuses one; 0 when that was said clearly. */
static const char *create_until_refused(int *created, const char *needle)
{
    for (*created = 0; *created < 20000; ++*created) {
        char id[32];
        snprintf(id, sizeof id, "box-%d", *created);
        CLEANUP_REPLY struct reply reply = call(id, "setSleepAfter", "[\"2h\"]");
        if (reply.status == 200)
            continue;
        if (reply.status != 500 || !strstr(reply.body, needle))
            return keep(reply.body);
        return NULL;
    }
    return "it was never full";
}

static const char *full_disk(void)
{
    const char *wrong;
    int created;
    if (emulator_start(&emulator, NULL) < 0)
        return "it did not start";
    if (status_of("early", "setSleepAfter", "[\"2h\"]") != 200 ||
        status_of("early", "exec", "[\"true\"]") != 200)
        return "before the disk was full";
    fill();
    if ((wrong = create_until_refused(&created, "disk is full")))
        return wrong;
    if (!health() || status_of("early", "exec", "[\"true\"]") != 200)
        return "others were not served";
    if (status_of("early", "setSleepAfter", "[\"3h\"]") == 200 &&
        sleep_after_of("early") != 10800000)
        return "an acknowledged option is not there";
    long long kept = sleep_after_of("early");
    emulator_kill(&emulator);
    unlink(path_of("fill"));
    if (emulator_restart(&emulator, NULL) < 0)
        return "it did not start again";
    if (sleep_after_of("early") != kept)
        return "an option was lost";
    for (int i = 0; i < created; i++) {
        char id[32];
        snprintf(id, sizeof id, "box-%d", i);
        if (sleep_after_of(id) != 7200000)
            return "an acknowledged sandbox was lost";
    }
    return status_of("late", "exec", "[\"true\"]") == 200 ? NULL : "not served after that";
}

static const char *full_disk_at_start(void)
{
    int status;
    fill();
    char *errors = refusal(&status);
    const char *wrong =
        status != 1 || !(strstr(errors, "No space left") || strstr(errors, "disk is full"))
            ? keep(errors)
            : NULL;
    free(errors);
    unlink(path_of("fill"));
    if (!wrong && emulator_start(&emulator, NULL) < 0)
        wrong = "it did not start when there was room again";
    return wrong;
}

static const char *no_inodes(void)
{
    int status, made = 0;
    for (; made < 100; made++) {
        char name[32];
        snprintf(name, sizeof name, "inode-%d", made);
        int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    char *errors = refusal(&status);
    const char *wrong = status != 1 || !strstr(errors, "No space left") ? keep(errors) : NULL;
    free(errors);
    if (wrong)
        return wrong;
    unlink(path_of("inode-0")); /* the lock, but no database */
    errors = refusal(&status);
    wrong = status != 1 || !strstr(errors, "objects.sqlite") ? keep(errors) : NULL;
    free(errors);
    return wrong;
}

static const char *read_only(void)
{
    int status;
    if (emulator_start(&emulator, NULL) < 0)
        return "it did not start";
    if (status_of("early", "setSleepAfter", "[\"2h\"]") != 200 ||
        status_of("early", "exec", "[\"true\"]") != 200)
        return "before it was read-only";
    emulator_stop(&emulator);
    if (mount(NULL, path_of(""), NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
        return "remount";
    char *errors = refusal(&status);
    const char *wrong =
        status != 1 || !strstr(errors, "Read-only file system") ? keep(errors) : NULL;
    free(errors);
    if (wrong)
        return wrong;
    const char *const ephemeral[] = {"--ephemeral", NULL};
    if (emulator_start(&emulator, ephemeral) < 0)
        return "--ephemeral needs no state directory";
    if (status_of("early", "exec", "[\"true\"]") != 200)
        return "not served with --ephemeral";
    emulator_stop(&emulator);
    mount(NULL, path_of(""), NULL, MS_REMOUNT, NULL);
    if (emulator_start(&emulator, NULL) < 0)
        return "it did not start when it was writable again";
    return sleep_after_of("early") == 7200000 ? NULL : "an option was lost";
}

static const char *with_disk(const char *options, const char *(*test)(void))
{
    struct disk disk = {options, test};
    return in_namespaces(CLONE_NEWNS, on_a_disk, &disk);
}

TEST a_full_disk_refuses_changes_serves_the_rest_and_loses_nothing(void)
{
    if (geteuid() != 0)
        SKIPm("only root mounts a disk");
    const char *wrong = with_disk("size=8m", full_disk);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_full_disk_at_the_start_is_named(void)
{
    if (geteuid() != 0)
        SKIPm("only root mounts a disk");
    const char *wrong = with_disk("size=8m", full_disk_at_start);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_disk_without_inodes_is_named(void)
{
    if (geteuid() != 0)
        SKIPm("only root mounts a disk");
    const char *wrong = with_disk("size=8m,nr_inodes=16", no_inodes);
    ASSERTm(wrong, !wrong);
    PASS();
}

TEST a_read_only_state_directory_is_named(void)
{
    if (geteuid() != 0)
        SKIPm("only root mounts a disk");
    const char *wrong = with_disk("size=8m", read_only);
    ASSERTm(wrong, !wrong);
    PASS();
}

/* Damage. */

static size_t slurp_file(const char *path, char **bytes)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) < 0)
        return 0;
    *bytes = malloc((size_t)info.st_size + 1);
    ssize_t size = read(fd, *bytes, (size_t)info.st_size);
    close(fd);
    return size > 0 ? (size_t)size : 0;
}

static void put_file(const char *path, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* A database with 200 sandboxes, and its log when it was left by a kill. */
struct saved {
    char *db, *wal;
    size_t db_size, wal_size;
};

static struct saved make_state(bool killed)
{
    struct saved saved = {0};
    emulator_restart(&emulator, NULL);
    for (int i = 0; i < 200; i++) {
        char id[32];
        snprintf(id, sizeof id, "box-%d", i);
        status_of(id, "setSleepAfter", "[\"2h\"]");
    }
    if (killed)
        emulator_kill(&emulator);
    else
        emulator_stop(&emulator);
    saved.db_size = slurp_file(path_of("objects.sqlite"), &saved.db);
    saved.wal_size = slurp_file(path_of("objects.sqlite-wal"), &saved.wal);
    return saved;
}

static void restore(const struct saved *saved)
{
    put_file(path_of("objects.sqlite"), saved->db, saved->db_size);
    unlink(path_of("objects.sqlite-wal"));
    unlink(path_of("objects.sqlite-shm"));
    if (saved->wal_size)
        put_file(path_of("objects.sqlite-wal"), saved->wal, saved->wal_size);
}

static void wipe(void)
{
    static const char *const names[] = {"objects.sqlite", "objects.sqlite-wal",
                                        "objects.sqlite-shm", "objects.sqlite-journal"};
    emulator_stop(&emulator);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
}

/* It either starts and answers, or refuses with words that name the file and keeps it as it is. */
static const char *starts_or_refuses(bool *started)
{
    char *before = NULL, *after = NULL;
    size_t size = slurp_file(path_of("objects.sqlite"), &before);
    const char *wrong = NULL;
    *started = emulator_restart(&emulator, NULL) == 0;
    if (*started) {
        CLEANUP_REPLY struct reply list = get(&emulator, "/cdn-cgi/local/sandboxes");
        if (list.status != 200 || !health())
            wrong = "it started and does not answer";
        if (emulator_stop(&emulator) != 0)
            wrong = "it did not end cleanly";
    } else {
        int status;
        char *errors = refusal(&status);
        if (status != 1 || !strstr(errors, "objects.sqlite"))
            wrong = keep(errors);
        free(errors);
        if (slurp_file(path_of("objects.sqlite"), &after) != size ||
            memcmp(before, after, size) != 0)
            wrong = "a refused file was changed";
    }
    free(before);
    free(after);
    return wrong;
}

TEST a_truncated_database_is_refused_or_read(void)
{
    struct saved saved = make_state(false);
    ASSERT(saved.db_size > 8192);
    static const long cuts[] = {15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, -1, -4096};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        bool started;
        restore(&saved);
        off_t to = cuts[i] < 0 ? (off_t)saved.db_size + cuts[i] : cuts[i];
        ASSERT_EQ(0, truncate(path_of("objects.sqlite"), to));
        const char *wrong = starts_or_refuses(&started);
        ASSERTm(wrong, !wrong);
        static char label[64];
        snprintf(label, sizeof label, "cut at %ld: taken for a whole one", cuts[i]);
        /* Less than a page is zeros to sqlite, and content that it does not check. */
        ASSERTm(label, !started || cuts[i] == -1);
    }
    /* A kill right after the first open leaves such a file; sqlite takes one byte for none. */
    for (off_t size = 0; size < 2; size++) {
        bool started;
        restore(&saved);
        ASSERT_EQ(0, truncate(path_of("objects.sqlite"), size));
        const char *wrong = starts_or_refuses(&started);
        ASSERTm(wrong, !wrong);
        ASSERTm("an empty file is a new one", started);
    }
    free(saved.db);
    free(saved.wal);
    wipe();
    PASS();
}

/* Flips one bit of `target`, which is part of `saved`, starts on it and puts the bit back. */
static const char *flip(const struct saved *saved, char *target, size_t size, unsigned *seed,
                        int *refused)
{
    bool started;
    /* Half of them in the first bytes, where the structure is. */
    size_t at = (size_t)rand_r(seed) % (rand_r(seed) % 2 && size > 100 ? 100 : size);
    char kept = target[at];
    target[at] ^= (char)(1 << (rand_r(seed) % 8));
    restore(saved);
    const char *wrong = starts_or_refuses(&started);
    target[at] = kept;
    *refused += !started;
    return wrong;
}

TEST flipped_bits_end_nothing(void)
{
    enum { ROUNDS = 12 };
    struct saved whole = make_state(false);
    wipe();
    struct saved killed = make_state(true);
    unsigned seed = 20261118;
    int refused = 0;
    printf("flipped_bits_end_nothing: seed %u\n", seed);
    ASSERTm("the kill left a log", killed.wal_size > 0);
    for (int i = 0; i < ROUNDS; i++) {
        const char *wrong = flip(&whole, whole.db, whole.db_size, &seed, &refused);
        ASSERTm(wrong, !wrong);
        wrong = flip(&killed, killed.db, killed.db_size, &seed, &refused);
        ASSERTm(wrong, !wrong);
        wrong = flip(&killed, killed.wal, killed.wal_size, &seed, &refused);
        ASSERTm(wrong, !wrong);
    }
    printf("flipped_bits_end_nothing: %d of %d refused\n", refused, 3 * ROUNDS);
    ASSERT(refused > 0);
    free(whole.db);
    free(whole.wal);
    free(killed.db);
    free(killed.wal);
    wipe();
    PASS();
}

TEST a_damaged_log_costs_no_more_than_itself(void)
{
    struct saved saved = make_state(true);
    static const long sizes[] = {0, 1, 31, 32, 33, 4000, -1, -100};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool started;
        restore(&saved);
        off_t to = sizes[i] < 0 ? (off_t)saved.wal_size + sizes[i] : sizes[i];
        ASSERT_EQ(0, truncate(path_of("objects.sqlite-wal"), to));
        const char *wrong = starts_or_refuses(&started);
        ASSERTm(wrong, !wrong);
    }
    restore(&saved);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    ASSERT_EQm("an undamaged log is read", 7200000, sleep_after_of("box-199"));
    free(saved.db);
    free(saved.wal);
    wipe();
    PASS();
}

TEST a_newer_or_foreign_file_is_refused_and_kept(void)
{
    static const struct {
        const char *sql, *said;
    } rows[] = {
        {"PRAGMA user_version = 99", "newer"},
        {"PRAGMA user_version = 2147483647", "newer"},
        {"PRAGMA application_id = 7", "not a sandpit database"},
    };
    struct saved saved = make_state(false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sqlite3 *db = NULL;
        int status;
        restore(&saved);
        ASSERT_EQ(SQLITE_OK, sqlite3_open(path_of("objects.sqlite"), &db));
        ASSERT_EQ(SQLITE_OK, sqlite3_exec(db, rows[i].sql, NULL, NULL, NULL));
        sqlite3_close(db);
        char *errors = refusal(&status);
        ASSERT_EQ(1, status);
        ASSERTm(keep(errors), strstr(errors, rows[i].said));
        free(errors);
    }
    unlink(path_of("objects.sqlite"));
    mkdir(path_of("objects.sqlite"), 0700);
    int status;
    char *errors = refusal(&status);
    ASSERT_EQm("a directory in its place", 1, status);
    ASSERTm(keep(errors), strstr(errors, "objects.sqlite"));
    free(errors);
    rmdir(path_of("objects.sqlite"));
    free(saved.db);
    free(saved.wal);
    wipe();
    PASS();
}

/* Kills. */

/* Writes without end from a process of its own, telling each acknowledgement through the pipe. */
static void write_until_killed(int to, int round)
{
    for (int i = 0;; i++) {
        char id[32], value[32];
        snprintf(id, sizeof id, "kill-%d-%d", round, i);
        snprintf(value, sizeof value, "[%d]", i + 1);
        CLEANUP_REPLY struct reply reply = call(id, "setSleepAfter", value);
        if (reply.status != 200 || write(to, &i, sizeof i) != sizeof i)
            _exit(0);
    }
}

/* One life: the emulator is killed `delay_us` after the first acknowledgement. */
static const char *one_kill(int round, int delay_us, int *acknowledged)
{
    int told[2], got;
    *acknowledged = -1;
    if (pipe(told) < 0 || emulator_restart(&emulator, NULL) < 0)
        return "it did not start again";
    int pid = fork();
    if (pid == 0) {
        close(told[0]);
        write_until_killed(told[1], round);
    }
    close(told[1]);
    if (read(told[0], acknowledged, sizeof *acknowledged) != sizeof *acknowledged)
        return "nothing was acknowledged";
    long long end = test_ms() * 1000 + delay_us;
    while (test_ms() * 1000 < end)
        ;
    emulator_kill(&emulator);
    while (read(told[0], &got, sizeof got) == sizeof got)
        *acknowledged = got;
    close(told[0]);
    waitpid(pid, NULL, 0);
    return NULL;
}

TEST what_was_acknowledged_survives_kills_at_any_moment(void)
{
    unsigned seed = 833;
    int total = 0, rounds = 0;
    printf("what_was_acknowledged_survives_kills_at_any_moment: seed %u\n", seed);
    long long end = test_ms() + 8000;
    for (; rounds < 100 && test_ms() < end; rounds++) {
        int acknowledged;
        const char *wrong = one_kill(rounds, (int)(rand_r(&seed) % 20000), &acknowledged);
        ASSERTm(wrong, !wrong);
        ASSERT_EQ(0, emulator_restart(&emulator, NULL));
        for (int i = 0; i <= acknowledged;
             i += acknowledged > 50 && i < acknowledged - 20 ? 7 : 1) {
            char id[32];
            snprintf(id, sizeof id, "kill-%d-%d", rounds, i);
            ASSERT_EQm(keep(id), (i + 1) * 1000LL, sleep_after_of(id));
        }
        total += acknowledged + 1;
        emulator_kill(&emulator);
    }
    printf("what_was_acknowledged_survives_kills_at_any_moment: %d kills, %d acknowledged\n",
           rounds, total);
    ASSERT(rounds >= 5);
    wipe();
    PASS();
}

/* Others at the database. */

TEST nobody_else_gets_a_lock_while_it_runs(void)
{
    sqlite3 *db = NULL;
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    ASSERT_EQ(200, status_of("mine", "setSleepAfter", "[\"2h\"]"));
    ASSERT_EQ(SQLITE_OK, sqlite3_open(path_of("objects.sqlite"), &db));
    ASSERT_EQ(SQLITE_BUSY, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    ASSERT_EQ(SQLITE_BUSY, sqlite3_exec(db, "SELECT * FROM objects", NULL, NULL, NULL));
    sqlite3_close(db);
    ASSERT_EQ(200, status_of("mine", "setSleepAfter", "[\"3h\"]"));
    ASSERT_EQ(10800000, sleep_after_of("mine"));
    emulator_stop(&emulator);
    PASS();
}

TEST a_reader_that_was_there_first_is_tolerated(void)
{
    sqlite3 *db = NULL;
    ASSERT_EQ(SQLITE_OK, sqlite3_open(path_of("objects.sqlite"), &db));
    ASSERT_EQ(SQLITE_OK, sqlite3_exec(db, "BEGIN; SELECT * FROM objects", NULL, NULL, NULL));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    ASSERT_EQ(10800000, sleep_after_of("mine"));
    ASSERT_EQ(200, status_of("yours", "setSleepAfter", "[\"1h\"]"));
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    ASSERT_EQ(200, status_of("yours", "setSleepAfter", "[\"2h\"]"));
    emulator_stop(&emulator);
    PASS();
}

TEST a_writer_that_was_there_first_costs_an_error_and_no_time(void)
{
    sqlite3 *db = NULL;
    ASSERT_EQ(SQLITE_OK, sqlite3_open(path_of("objects.sqlite"), &db));
    ASSERT_EQ(SQLITE_OK, sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    ASSERT_EQ(200, status_of("mine", "exec", "[\"true\"]"));
    for (int i = 0; i < 20; i++) {
        long long start = test_ms();
        CLEANUP_REPLY struct reply set = call("mine", "setSleepAfter", "[\"4h\"]");
        ASSERT_EQm(keep(set.body), 503, set.status);
        ASSERTm(keep(set.body), strstr(set.body, "locked"));
        CLEANUP_REPLY struct reply made = call("new-one", "exec", "[\"true\"]");
        ASSERT_EQm(keep(made.body), 503, made.status);
        ASSERT(health());
        ASSERTm("the loop does not wait for the lock", test_ms() - start < 1000);
    }
    CLEANUP_REPLY struct reply reset = post(&emulator, "/cdn-cgi/local/reset", "");
    ASSERT_EQm("a reset that could not be stored is no success", 500, reset.status);
    ASSERT_EQ(10800000, sleep_after_of("mine"));
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    ASSERT_EQ(200, status_of("mine", "setSleepAfter", "[\"4h\"]"));
    ASSERT_EQ(200, status_of("new-one", "exec", "[\"true\"]"));
    emulator_stop(&emulator);
    PASS();
}

TEST a_file_that_another_program_has_alone_is_refused_in_words(void)
{
    sqlite3 *db = NULL;
    int status;
    ASSERT_EQ(SQLITE_OK, sqlite3_open(path_of("objects.sqlite"), &db));
    ASSERT_EQ(SQLITE_OK,
              sqlite3_exec(db, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE", NULL, NULL, NULL));
    char *errors = refusal(&status);
    ASSERT_EQ(1, status);
    ASSERTm(keep(errors), strstr(errors, "locked"));
    free(errors);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    ASSERT_EQ(0, emulator_restart(&emulator, NULL));
    ASSERT_EQ(14400000, sleep_after_of("mine"));
    emulator_stop(&emulator);
    PASS();
}

TEST a_lock_file_with_nonsense_is_taken_over(void)
{
    static const char *const texts[] = {"", "{", "{\"pid\": 1, \"port\": 1}", "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_file(path_of("lock"), texts[i], strlen(texts[i]));
        ASSERT_EQ(0, emulator_restart(&emulator, NULL));
        ASSERT_EQ(0, emulator_stop(&emulator));
    }
    unlink(path_of("lock"));
    ASSERT_EQ(0, symlink("/etc/passwd", path_of("lock")));
    int status;
    char *errors = refusal(&status);
    ASSERT_EQm("a link is not followed", 1, status);
    free(errors);
    unlink(path_of("lock"));
    PASS();
}

SUITE(abuse_state_suite)
{
    RUN_TEST(a_full_disk_refuses_changes_serves_the_rest_and_loses_nothing);
    RUN_TEST(a_full_disk_at_the_start_is_named);
    RUN_TEST(a_disk_without_inodes_is_named);
    RUN_TEST(a_read_only_state_directory_is_named);
    RUN_TEST(a_truncated_database_is_refused_or_read);
    RUN_TEST(flipped_bits_end_nothing);
    RUN_TEST(a_damaged_log_costs_no_more_than_itself);
    RUN_TEST(a_newer_or_foreign_file_is_refused_and_kept);
    RUN_TEST(what_was_acknowledged_survives_kills_at_any_moment);
    RUN_TEST(nobody_else_gets_a_lock_while_it_runs);
    RUN_TEST(a_reader_that_was_there_first_is_tolerated);
    RUN_TEST(a_writer_that_was_there_first_costs_an_error_and_no_time);
    RUN_TEST(a_file_that_another_program_has_alone_is_refused_in_words);
    RUN_TEST(a_lock_file_with_nonsense_is_taken_over);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP abuse_state_suite: %s\n", missing);
        return 77;
    }
    if (emulator_start(&emulator, NULL) < 0 || emulator_stop(&emulator) != 0) {
        printf("the emulator did not start and stop: see %s\n", emulator.log);
        return 1;
    }
    RUN_SUITE(abuse_state_suite);
    emulator_clean(&emulator);
    GREATEST_MAIN_END();
}

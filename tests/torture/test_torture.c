/* Runs the emulator through a scripted session while one call of the C library after the other
 * fails. After each: it still runs, it answered in time, what it said is true, nothing leaked, and
 * the next request works. */
#include <fcntl.h>
#include <greatest.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "steps.h"
#include "torture.h"

enum { DEADLINE_MS = 25000, FAULTS_MAX = 25, SLOW_MS = 3000 };

static const char *const kinds[TORTURE_COUNT] = {
    [TORTURE_MEMORY] = "memory", [TORTURE_SQLITE] = "sqlite",   [TORTURE_OPEN] = "open",
    [TORTURE_CREATE] = "create", [TORTURE_READ] = "read",       [TORTURE_WRITE] = "write",
    [TORTURE_SEND] = "send",     [TORTURE_RECEIVE] = "receive", [TORTURE_WATCH] = "watch",
    [TORTURE_FORK] = "fork",     [TORTURE_SYSTEM] = "system",
};

static struct emulator emulator = {.binary = TORTURED_BINARY};
static struct torture *page;
static char page_path[] = "/tmp/sandpit-torture-XXXXXX";
static int tries, fired, faults, slow;
static int baseline; /* descriptors of an emulator at rest */

/* The page. */

static int page_open(void)
{
    int fd = mkstemp(page_path);
    if (fd < 0 || ftruncate(fd, sizeof *page) < 0)
        return -1;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return page == MAP_FAILED ? -1 : setenv(TORTURE_VARIABLE, page_path, 1);
}

static void arm(enum torture_kind kind, long number, long length)
{
    atomic_store(&page->kind, TORTURE_NONE);
    atomic_store(&page->failed, 0);
    memset(page->where, 0, sizeof page->where);
    atomic_store(&page->left, number);
    atomic_store(&page->length, length);
    atomic_store(&page->kind, kind);
}

static void disarm(void)
{
    atomic_store(&page->kind, TORTURE_NONE);
}

static void forget_calls(void)
{
    for (int kind = 0; kind < TORTURE_COUNT; kind++)
        atomic_store(&page->calls[kind], 0);
}

/* What is being tried, for the report. */
struct attempt {
    const char *step;
    enum torture_kind kind;
    long number, length;
};

static void print_callers(void)
{
    char offsets[TORTURE_FRAMES][24];
    const char *argv[TORTURE_FRAMES + 5] = {"addr2line", "-pfse", TORTURED_BINARY};
    for (int i = 0; i < TORTURE_FRAMES && page->where[i]; i++) {
        snprintf(offsets[i], sizeof offsets[i], "0x%lx", page->where[i] - 1);
        argv[3 + i] = offsets[i];
    }
    char *text = NULL;
    if (page->where[0] && run_command(&emulator, argv, &text, NULL) == 0)
        printf("%s", text);
    free(text);
}

static void fault(const struct attempt *attempt, const char *what, const struct reply *reply)
{
    faults++;
    printf("\n%s, %s call %ld%s failed: %s\n", attempt->step, kinds[attempt->kind], attempt->number,
           attempt->length > 1 ? " and those after it" : "", what);
    print_callers();
    if (reply && reply->status)
        printf("  answer: %d %.300s\n", reply->status, reply->body ? reply->body : "");
}

static bool alive(void)
{
    return emulator.pid > 0 && kill(emulator.pid, 0) == 0 &&
           waitpid(emulator.pid, NULL, WNOHANG) == 0;
}

static bool at_rest(void *arg)
{
    return emulator_files(&emulator) <= baseline; /* what only helps may be missing */
}

/* A fresh emulator, where every step can be made. */
static bool begin(void)
{
    disarm();
    if (emulator.pid > 0)
        emulator_kill(&emulator);
    if (emulator_start(&emulator, NULL) < 0 || !steps_prepare(&emulator) ||
        steps_sandbox_works(&emulator) != NULL)
        return false;
    CLEANUP_REPLY struct reply reply = get(&emulator, "/health");
    poll(NULL, 0, 100);
    baseline = emulator_files(&emulator);
    return true;
}

/* The answer must be whole, and true if it is good. */
static const char *judge(const struct step *step, const struct reply *reply, int number)
{
    if (!reply->status) /* closing is all that is left without memory for an answer */
        return atomic_load(&page->failed) ? NULL : "no answer";
    if ((reply->status >= 200 && reply->status < 300) ||
        (step->body == step_upgrade && reply->status == 101))
        return step->check(&emulator, reply, number);
    /* The one error that is a text, as the original's. */
    if (strcmp(reply->body, "Container suddenly disconnected, try again") == 0)
        return NULL;
    if (!json_is_object(reply->json))
        return "the error is not JSON";
    return atomic_load(&page->failed) ? NULL : "an error without a cause";
}

static const char *leaked(void)
{
    if (eventually(at_rest, NULL, 1500))
        return NULL;
    static char text[64];
    snprintf(text, sizeof text, "%d descriptors instead of %d", emulator_files(&emulator),
             baseline);
    return text;
}

static void try_step(const struct step *step, enum torture_kind kind, long call, long length)
{
    struct attempt attempt = {step->name, kind, call, length};
    int number = ++tries;
    if (step->prepare)
        step->prepare(&emulator, number);
    long long start = test_ms();
    arm(kind, call, length);
    CLEANUP_REPLY struct reply reply = step_run(&emulator, step, number);
    disarm();
    long long took = test_ms() - start;
    fired += atomic_load(&page->failed) > 0;
    slow += took > SLOW_MS;
    const char *wrong = took >= DEADLINE_MS ? "no answer in time" : judge(step, &reply, number);
    if (!alive())
        wrong = "the emulator ended";
    if (wrong)
        fault(&attempt, wrong, &reply);
    if (step->undo)
        step->undo(&emulator, number);
    const char *broken = alive() ? steps_sandbox_works(&emulator) : NULL;
    if (!broken && alive())
        broken = leaked();
    if (broken)
        fault(&attempt, broken, NULL);
    if (wrong || broken || !steps_prepare(&emulator)) {
        printf("  its log: %s\n", emulator.log);
        if (!begin())
            fault(&attempt, "the next emulator does not work", NULL);
    }
}

/* Every so many calls of the session one fails: where the last kind stopped, the next goes on. */
static void try_kind(const struct step *step, enum torture_kind kind, long calls, long length)
{
    static long skip;
    struct counts counts = counts_now();
    long every = counts.torture_step;
    if (calls / every > counts.torture_most) /* a step that does the same thing over and over */
        every = calls / counts.torture_most;
    for (long call = 1 + skip; call <= calls && faults < FAULTS_MAX; call += every)
        try_step(step, kind, call, length);
    skip = calls <= skip ? skip - calls : (every - (calls - skip) % every) % every;
}

static void try_kinds(const struct step *step)
{
    long calls[TORTURE_COUNT];
    if (step->prepare)
        step->prepare(&emulator, 0);
    forget_calls();
    CLEANUP_REPLY struct reply reply = step_run(&emulator, step, 0);
    for (int kind = 1; kind < TORTURE_COUNT; kind++)
        calls[kind] = atomic_load(&page->calls[kind]);
    if (step->undo)
        step->undo(&emulator, 0);
    steps_sandbox_works(&emulator);
    steps_prepare(&emulator);
    for (int kind = 1; kind < TORTURE_COUNT && faults < FAULTS_MAX; kind++)
        try_kind(step, (enum torture_kind)kind, calls[kind], 1);
    try_kind(step, TORTURE_MEMORY, calls[TORTURE_MEMORY], 1000000);
}

static bool wanted(const char *name, const char *variable)
{
    const char *only = getenv(variable);
    return !only || strstr(name, only);
}

static void try_steps(const struct step *step)
{
    for (; step->name && faults < FAULTS_MAX; step++) {
        if (wanted(step->name, "SANDPIT_TORTURE_STEP"))
            try_kinds(step);
    }
}

TEST every_call_may_fail_while_it_runs(void)
{
    ASSERT(begin());
    try_steps(process_steps);
    try_steps(steps);
    printf("# %d tries, %d calls failed, %d slow\n", tries, fired, slow);
    ASSERT_EQ(0, emulator_stop(&emulator));
    ASSERT_EQ(0, faults);
    PASS();
}

/* Starting and ending. */

/* What is left of an emulator that has ended. */
static const char *left_behind(void)
{
    return processes_become(emulator.dir, 0, 2000) ? NULL : "processes are left";
}

static void try_start(enum torture_kind kind, long call)
{
    struct attempt attempt = {"start", kind, call, 1};
    const char *wrong = NULL;
    tries++;
    arm(kind, call, 1);
    int result = emulator_start(&emulator, NULL);
    disarm();
    fired += atomic_load(&page->failed) > 0;
    if (result == 0)
        wrong = steps_sandbox_works(&emulator);
    else if (emulator.status <= 0 || emulator.status >= 128)
        wrong = emulator.status < 0 ? "it neither starts nor ends" : "it ends without an error";
    if (result == 0 && emulator_stop(&emulator) != 0 && !wrong)
        wrong = "it does not end cleanly";
    if (!wrong)
        wrong = left_behind();
    if (!wrong)
        return;
    fault(&attempt, wrong, NULL);
    printf("  status %d, its log: %s\n", emulator.status, emulator.log);
}

static void try_end(enum torture_kind kind, long call)
{
    struct attempt attempt = {"end", kind, call, 1};
    tries++;
    if (emulator_start(&emulator, NULL) < 0 || steps_sandbox_works(&emulator)) {
        fault(&attempt, "it does not work before it ends", NULL);
        return;
    }
    arm(kind, call, 1);
    int status = emulator_stop(&emulator);
    disarm();
    fired += atomic_load(&page->failed) > 0;
    const char *wrong = status == 0 || status == 1 ? left_behind() : "it does not end cleanly";
    if (wrong)
        fault(&attempt, wrong, NULL);
}

static void try_life(const char *name, void (*try)(enum torture_kind kind, long call),
                     const long *calls)
{
    int every = counts_now().torture_start;
    long skip = 0;
    for (int kind = 1; kind < TORTURE_COUNT; kind++) {
        for (long call = 1 + skip; call <= calls[kind] && faults < FAULTS_MAX; call += every)
            try((enum torture_kind)kind, call);
        skip = calls[kind] <= skip ? skip - calls[kind]
                                   : (every - (calls[kind] - skip) % every) % every;
    }
    printf("# %s: %d tries, %d calls failed\n", name, tries, fired);
}

static void calls_now(long *calls)
{
    for (int kind = 0; kind < TORTURE_COUNT; kind++)
        calls[kind] = atomic_load(&page->calls[kind]);
}

TEST every_call_may_fail_while_it_starts_and_ends(void)
{
    long start[TORTURE_COUNT], end[TORTURE_COUNT];
    disarm();
    if (faults) /* its log tells about them */
        emulator.dir[0] = '\0';
    emulator_clean(&emulator); /* with the many sandboxes of before */
    tries = fired = faults = 0;
    ASSERT_EQ(0, emulator_start(&emulator, NULL));
    ASSERT_EQ(NULL, steps_sandbox_works(&emulator));
    ASSERT_EQ(0, emulator_stop(&emulator));
    forget_calls();
    ASSERT_EQ(0, emulator_start(&emulator, NULL));
    calls_now(start);
    ASSERT_EQ(NULL, steps_sandbox_works(&emulator));
    forget_calls();
    ASSERT_EQ(0, emulator_stop(&emulator));
    calls_now(end);
    if (wanted("start", "SANDPIT_TORTURE_STEP"))
        try_life("start", try_start, start);
    tries = fired = 0;
    if (wanted("end", "SANDPIT_TORTURE_STEP"))
        try_life("end", try_end, end);
    ASSERT_EQ(0, faults);
    PASS();
}

SUITE(torture)
{
    RUN_TEST(every_call_may_fail_while_it_runs);
    RUN_TEST(every_call_may_fail_while_it_starts_and_ends);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    const char *missing = emulator_missing();
    if (missing) {
        printf("SKIP torture: %s\n", missing);
        return 77;
    }
    if (page_open() < 0) {
        perror("torture: shared page");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    answer_ms = DEADLINE_MS;
    RUN_SUITE(torture);
    unlink(page_path);
    if (!faults)
        emulator_clean(&emulator);
    GREATEST_MAIN_END();
}

/* The runtime's paths, listings and removals, in a real sandbox. */
#include "runtime_client.h"

#include <limits.h>
#include <sys/stat.h>

#include "greatest.h"

static struct reply answer;

static struct rt_stat answered_stat(void)
{
    struct rt_stat st;

    memcpy(&st, answer.payload, sizeof st);
    return st;
}

static int open_as(const char *path, uint32_t open_flags, uint32_t flags)
{
    struct rt_path how = {.flags = flags, .open_flags = open_flags};

    return box_path(RT_OPEN, how, path, NULL, &answer);
}

static int with_flags(enum rt_op op, const char *path, uint32_t flags)
{
    return box_path(op, (struct rt_path){.flags = flags}, path, NULL, &answer);
}

static int rename_as(const char *old, const char *target)
{
    return box_path(RT_RENAME, (struct rt_path){0}, old, target, &answer);
}

/* ---- open, stat, readlink ---- */

TEST open_creates_writes_and_reads(void)
{
    char text[32] = "";

    ASSERT_EQ(-ENOENT, open_as("a/b/file", O_WRONLY | O_CREAT | O_TRUNC, 0));
    ASSERT_EQ(0, open_as("a/b/file", O_WRONLY | O_CREAT | O_TRUNC, RT_PARENTS));
    ASSERT_EQ(1, answer.fd_count);
    ASSERT(S_ISREG(answered_stat().mode));
    ASSERT_EQ(5, write(answer.fds[0], "hello", 5));
    reply_close(&answer);
    ASSERT_STR_EQ("755 644 5", shell("echo $(stat -c %a a/b) $(stat -c '%a %s' a/b/file)"));
    ASSERT_EQ(0, open_as("/workspace/a/b/file", O_RDONLY, 0));
    ASSERT_EQ(5, answered_stat().size);
    ASSERT_EQ(5, read(answer.fds[0], text, sizeof text));
    ASSERT_STR_EQ("hello", text);
    ASSERT(fcntl(answer.fds[0], F_GETFL) & O_NONBLOCK);
    reply_close(&answer);
    ASSERT_EQ(0, open_as("a/b/file", O_WRONLY | O_TRUNC, 0)); /* a shorter one leaves no tail */
    ASSERT_EQ(0, answered_stat().size);
    reply_close(&answer);
    ASSERT_STR_EQ("0", shell("stat -c %s a/b/file"));
    PASS();
}

TEST open_says_whether_it_made_the_file(void)
{
    ASSERT_EQ(0, open_as("made/new", O_WRONLY | O_CREAT, RT_PARENTS));
    ASSERT_EQ(1, answered_stat().created);
    reply_close(&answer);
    ASSERT_EQ(0, open_as("made/new", O_WRONLY | O_CREAT, RT_PARENTS));
    ASSERT_EQ(0, answered_stat().created);
    reply_close(&answer);
    ASSERT_EQ(-EEXIST, open_as("made/new", O_WRONLY | O_CREAT | O_EXCL, 0));
    shell("ln -sfn there made/link");
    ASSERT_EQ(-EEXIST, open_as("made/link", O_WRONLY | O_CREAT | O_EXCL, 0));
    ASSERT_EQ(0, open_as("made/link", O_WRONLY | O_CREAT, 0)); /* what it leads to is made */
    reply_close(&answer);
    ASSERT_STR_EQ("there", shell("ls made | grep there"));
    ASSERT_EQ(0, open_as("made/new", O_RDONLY, 0));
    ASSERT_EQ(0, answered_stat().created);
    reply_close(&answer);
    PASS();
}

TEST an_exact_rename_never_moves_into_a_directory(void)
{
    struct rt_path exact = {.flags = RT_EXACT};

    shell("mkdir -p ex/dir; echo 1 > ex/a; ln -sfn dir ex/link");
    ASSERT_EQ(-EISDIR, box_path(RT_RENAME, exact, "ex/a", "ex/dir", &answer));
    ASSERT_EQ(-ENOENT, box_path(RT_RENAME, exact, "ex/none", "ex/b", &answer));
    ASSERT_EQ(0, box_path(RT_RENAME, exact, "ex/a", "ex/link", &answer)); /* the link is replaced */
    ASSERT_STR_EQ("1 0", shell("echo $(cat ex/link) $(ls ex/dir | wc -l)"));
    PASS();
}

TEST open_gives_an_asked_mode_exactly(void)
{
    struct rt_path how = {.open_flags = O_WRONLY | O_CREAT, .mode = 0666};

    ASSERT_EQ(0, box_path(RT_OPEN, how, "file", NULL, &answer));
    reply_close(&answer);
    how.mode = 0777;
    ASSERT_EQ(0, box_path(RT_MKDIR, how, "dir", NULL, &answer));
    ASSERT_STR_EQ("666\n777", shell("stat -c %a file dir"));
    ASSERT_STR_EQ("0022", shell("umask"));
    PASS();
}

TEST open_never_hangs_or_truncates_what_is_no_file(void)
{
    shell("mkfifo fifo; mkdir dir; ln -s loop loop; ln -s /workspace/real link; echo x >real");
    ASSERT_EQ(-EISDIR, open_as("dir", O_WRONLY | O_TRUNC, 0));
    ASSERT_EQ(-ENXIO, open_as("fifo", O_WRONLY | O_TRUNC, 0));
    ASSERT_EQ(-EINVAL, open_as("fifo", O_RDWR, 0));
    ASSERT_EQ(-EINVAL, open_as("/dev/zero", O_WRONLY | O_TRUNC, 0));
    ASSERT_EQ(-EACCES, open_as("/proc/self/comm", O_WRONLY, 0));
    ASSERT_EQ(-ELOOP, open_as("loop", O_RDONLY, 0));
    ASSERT_EQ(-EINVAL, open_as("real", O_RDONLY | O_TRUNC, 0));
    ASSERT_EQ(-EINVAL, open_as("dir", O_TMPFILE | O_RDWR, 0));
    ASSERT_EQ(0, open_as("fifo", O_RDONLY, 0));
    ASSERT(S_ISFIFO(answered_stat().mode));
    reply_close(&answer);
    ASSERT_EQ(0, open_as("dir", O_RDONLY, 0));
    ASSERT(S_ISDIR(answered_stat().mode));
    reply_close(&answer);
    ASSERT_EQ(0, open_as("link", O_RDONLY, 0));
    ASSERT_EQ(2, answered_stat().size);
    reply_close(&answer);
    PASS();
}

TEST long_and_empty_paths_are_refused(void)
{
    char path[PATH_MAX + 2];

    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    ASSERT_EQ(-ENAMETOOLONG, open_as(path, O_RDONLY, 0));
    ASSERT_EQ(-ENAMETOOLONG, rename_as("x", path));
    path[300] = '\0';
    ASSERT_EQ(-ENAMETOOLONG, open_as(path, O_RDONLY, 0)); /* one component */
    ASSERT_EQ(-ENOENT, open_as("", O_RDONLY, 0));
    ASSERT_EQ(-ENOENT, with_flags(RT_REMOVE, "", RT_RECURSIVE));
    PASS();
}

TEST relative_paths_start_where_the_process_is(void)
{
    struct rt_path how = {0};
    int out;
    int pid =
        shell_start("mkdir -p /tmp/deep; cd /tmp/deep; : >here; echo up; exec sleep 1000", &out);
    struct pollfd ready = {.fd = out, .events = POLLIN};

    ASSERT_EQ(1, poll(&ready, 1, CLIENT_PATIENCE_MS));
    ASSERT_EQ(-ENOENT, box_path(RT_STAT, how, "here", NULL, &answer));
    how.base_pid = pid;
    ASSERT_EQ(0, box_path(RT_STAT, how, "here", NULL, &answer));
    how.base_pid = 1; /* not one of those spawned on request */
    ASSERT_EQ(-ESRCH, box_path(RT_STAT, how, "here", NULL, &answer));
    ASSERT_EQ(1, box_signal(pid, SIGKILL, RT_SIGNAL_PROCESS));
    box_wait_exit(pid);
    how.base_pid = pid;
    ASSERT_EQ(-ESRCH, box_path(RT_STAT, how, "here", NULL, &answer));
    close(out);
    PASS();
}

TEST stat_and_readlink_see_the_link_itself_when_asked(void)
{
    shell("echo abc >file; ln -s file link; ln -s gone dangling");
    ASSERT_EQ(0, with_flags(RT_STAT, "link", 0));
    ASSERT_EQ(4, answered_stat().size);
    ASSERT(S_ISREG(answered_stat().mode));
    ASSERT_EQ(0, with_flags(RT_STAT, "link", RT_NOFOLLOW));
    ASSERT(S_ISLNK(answered_stat().mode));
    ASSERT_EQ(-ENOENT, with_flags(RT_STAT, "dangling", 0));
    ASSERT_EQ(4, with_flags(RT_READLINK, "dangling", 0));
    ASSERT_EQ(5, answer.head.size);
    ASSERT_STR_EQ("gone", answer.payload);
    ASSERT_EQ(-EINVAL, with_flags(RT_READLINK, "file", 0));
    PASS();
}

/* ---- mkdir, rename, remove ---- */

TEST mkdir_behaves_as_the_command(void)
{
    shell("mkdir real; ln -s real link; : >file");
    ASSERT_EQ(0, with_flags(RT_MKDIR, "one", 0));
    ASSERT_EQ(-EEXIST, with_flags(RT_MKDIR, "one", 0));
    ASSERT_EQ(-ENOENT, with_flags(RT_MKDIR, "x/y/z", 0));
    ASSERT_EQ(0, with_flags(RT_MKDIR, "x//y/z///", RT_PARENTS));
    ASSERT_EQ(0, with_flags(RT_MKDIR, "x/y/z", RT_PARENTS));
    ASSERT_EQ(0, with_flags(RT_MKDIR, "/workspace/link/a/b", RT_PARENTS));
    ASSERT_EQ(-EEXIST, with_flags(RT_MKDIR, "file", RT_PARENTS));
    ASSERT_EQ(-ENOTDIR, with_flags(RT_MKDIR, "file/below", RT_PARENTS));
    ASSERT_STR_EQ("real/a/b\nx/y/z", shell("ls -d real/a/b x/y/z"));
    PASS();
}

TEST rename_behaves_as_mv(void)
{
    shell("echo 1 >a; echo 2 >b; mkdir dir other; ln -s dir link; : >hard; ln hard hard2");
    ASSERT_EQ(-ENOENT, rename_as("nope", "a"));
    ASSERT_EQ(-ENOENT, rename_as("nope", "dir"));
    ASSERT_EQ(-EINVAL, rename_as("a", "a"));
    ASSERT_EQ(-EINVAL, rename_as("a", "./dir/../a"));
    ASSERT_EQ(0, rename_as("a", "b"));
    ASSERT_STR_EQ("1", shell("cat b; ls a 2>/dev/null"));
    ASSERT_EQ(0, rename_as("b", "dir"));
    ASSERT_EQ(0, rename_as("other///", "link"));
    ASSERT_STR_EQ("b\nother", shell("ls dir"));
    ASSERT_EQ(-EINVAL, rename_as("dir", "dir/other"));
    ASSERT_EQ(-EINVAL, rename_as("dir", "link")); /* into itself */
    ASSERT_EQ(-EXDEV, rename_as("hard", "hard2"));
    ASSERT_EQ(-EXDEV, rename_as("dir/b", "/tmp"));
    ASSERT_EQ(-EINVAL, rename_as("/", "dir"));
    PASS();
}

TEST remove_takes_files_and_refuses_directories(void)
{
    shell("mkdir -p dir/sub; : >file; ln -s dir link");
    ASSERT_EQ(-ENOENT, with_flags(RT_REMOVE, "nope", 0));
    ASSERT_EQ(-EISDIR, with_flags(RT_REMOVE, "dir", 0));
    ASSERT_EQ(0, with_flags(RT_REMOVE, "file", 0));
    ASSERT_EQ(0, with_flags(RT_REMOVE, "link", RT_RECURSIVE));
    ASSERT_EQ(-EINVAL, with_flags(RT_REMOVE, "/", RT_RECURSIVE));
    ASSERT_EQ(-EINVAL, with_flags(RT_REMOVE, ".", RT_RECURSIVE));
    ASSERT_EQ(-EINVAL, with_flags(RT_REMOVE, "dir/..", RT_RECURSIVE));
    ASSERT(with_flags(RT_REMOVE, "/proc/1/root/", RT_RECURSIVE) < 0);
    ASSERT_STR_EQ("dir/sub", shell("ls -d dir/sub"));
    PASS();
}

TEST a_tree_is_removed_without_following_links(void)
{
    shell("mkdir -p keep tree/.h/a/b tree/c; echo x >keep/file; : >tree/c/f; mkfifo tree/p;"
          "ln -s ../keep tree/c/out; ln -s /workspace/keep tree/out; for i in $(seq 300); do :"
          " >tree/.h/$i; done");
    ASSERT_EQ(0, with_flags(RT_REMOVE, "tree/", RT_RECURSIVE));
    ASSERT_STR_EQ("keep\nkeep/file", shell("ls -d * keep/*"));
    ASSERT_EQ(-EBUSY, with_flags(RT_REMOVE, "/tmp", RT_RECURSIVE)); /* a mount point */
    PASS();
}

/* ---- listing ---- */

/* "path type size" lines in the order they came, without the end record; *error is what that says.
 */
static const char *listed(const char *path, uint32_t flags, int *error)
{
    static char raw[4 * 1024 * 1024];
    static char lines[sizeof raw];
    size_t used = 0;
    size_t size;

    *error = with_flags(RT_LIST, path, flags);
    if (*error < 0)
        return "";
    size = read_all(answer.fds[0], raw, sizeof raw);
    for (size_t at = 0; at + sizeof(struct rt_entry) <= size;) {
        struct rt_entry entry;

        memcpy(&entry, raw + at, sizeof entry);
        at += sizeof entry;
        if (entry.path_size == 0) {
            *error = at == size ? -entry.error : -EPROTO;
            lines[used ? used - 1 : 0] = '\0';
            return lines;
        }
        used += (size_t)snprintf(lines + used, sizeof lines - used, "%.*s %s %lld\n",
                                 (int)entry.path_size, raw + at,
                                 S_ISDIR(entry.stat.mode)   ? "d"
                                 : S_ISLNK(entry.stat.mode) ? "l"
                                                            : "f",
                                 S_ISDIR(entry.stat.mode) ? 0LL : (long long)entry.stat.size);
        at += entry.path_size;
    }
    *error = -EPROTO;
    return "";
}

TEST a_listing_is_what_find_shows_in_its_order(void)
{
    const char *expected;
    int error;

    shell("mkdir -p t/.hid/in t/empty t/b/c; echo abc >t/.hid/in/file; ln -s .hid t/link; : >t/z");
    expected = shell("find t -mindepth 1 \\( -type d -printf '%P d 0\\n' -o"
                     " -printf '%P %y %s\\n' \\)");
    ASSERT_STR_EQ(expected, listed("t", RT_RECURSIVE, &error));
    ASSERT_EQ(0, error);
    expected = shell("find t -mindepth 1 -maxdepth 1 \\( -type d -printf '%P d 0\\n' -o"
                     " -printf '%P %y %s\\n' \\)");
    ASSERT_STR_EQ(expected, listed("/workspace/t/", 0, &error));
    ASSERT_EQ(0, error);
    ASSERT_STR_EQ("", listed("t/empty", RT_RECURSIVE, &error));
    ASSERT_EQ(0, error);
    PASS();
}

TEST a_listing_of_nothing_is_refused_at_once(void)
{
    int error;

    shell(": >file; ln -s loop loop");
    listed("nope", 0, &error);
    ASSERT_EQ(-ENOENT, error);
    listed("file", 0, &error);
    ASSERT_EQ(-ENOTDIR, error);
    listed("loop", 0, &error);
    ASSERT_EQ(-ELOOP, error);
    PASS();
}

TEST a_large_listing_does_not_hold_up_other_requests(void)
{
    struct reply pipe_end;
    static char raw[4 * 1024 * 1024];

    shell("mkdir big; cd big; seq 10000 | xargs touch");
    ASSERT_EQ(0, box_path(RT_LIST, (struct rt_path){0}, "big", NULL, &pipe_end));
    ASSERT_STR_EQ("still here", shell("echo still here")); /* while the pipe is full */
    /* 38,894 digits in the names, and the end record. */
    ASSERT_EQ(10001 * sizeof(struct rt_entry) + 38894, read_all(pipe_end.fds[0], raw, sizeof raw));
    ASSERT_EQ(0, box_path(RT_LIST, (struct rt_path){0}, "big", NULL, &pipe_end));
    reply_close(&pipe_end); /* a reader that leaves ends the worker */
    ASSERT_STR_EQ("2", shell("while set -- /proc/[0-9]*; [ $# -gt 2 ]; do :; done; echo $#"));
    PASS();
}

TEST a_very_deep_tree_is_listed_and_removed(void)
{
    const char *lines;
    int count = 0;
    int error;

    /* Beyond PATH_MAX and beyond the directories kept open, with files to come back to. */
    ASSERT_STR_EQ("made", shell("python3 -c '\n"
                                "import os\n"
                                "os.mkdir(\"deep\"); os.chdir(\"deep\")\n"
                                "for i in range(300):\n"
                                "  for n in (\"a\", \"z\"): open(n, \"w\").close()\n"
                                "  os.mkdir(\"d\" * 20); os.chdir(\"d\" * 20)\n"
                                "print(\"made\")'"));
    for (lines = listed("deep", RT_RECURSIVE, &error); (lines = strchr(lines, '\n')); lines++)
        count++;
    ASSERT_EQ(0, error);
    ASSERT_EQ(899, count); /* newlines between 900 entries */
    ASSERT_EQ(0, with_flags(RT_REMOVE, "deep", RT_RECURSIVE));
    ASSERT_STR_EQ("", shell("ls"));
    PASS();
}

SUITE(opening)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(open_creates_writes_and_reads);
    RUN_TEST(open_says_whether_it_made_the_file);
    RUN_TEST(an_exact_rename_never_moves_into_a_directory);
    RUN_TEST(open_gives_an_asked_mode_exactly);
    RUN_TEST(open_never_hangs_or_truncates_what_is_no_file);
    RUN_TEST(long_and_empty_paths_are_refused);
    RUN_TEST(relative_paths_start_where_the_process_is);
    RUN_TEST(stat_and_readlink_see_the_link_itself_when_asked);
}

SUITE(changing)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(mkdir_behaves_as_the_command);
    RUN_TEST(rename_behaves_as_mv);
    RUN_TEST(remove_takes_files_and_refuses_directories);
    RUN_TEST(a_tree_is_removed_without_following_links);
}

SUITE(listing)
{
    SET_SETUP(start_box, NULL);
    SET_TEARDOWN(stop_box, NULL);
    RUN_TEST(a_listing_is_what_find_shows_in_its_order);
    RUN_TEST(a_listing_of_nothing_is_refused_at_once);
    RUN_TEST(a_large_listing_does_not_hold_up_other_requests);
    RUN_TEST(a_very_deep_tree_is_listed_and_removed);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    if (!box_available())
        return BOX_SKIPPED;
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(opening);
    RUN_SUITE(changing);
    RUN_SUITE(listing);
    GREATEST_MAIN_END();
}

#include "cli/keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

struct keys {
    struct keys_config config;
    char *url;
    struct watch input;
    struct child browser;
    bool opening; /* the browser's child runs */
};

/* The terminal. There is one for the process, and a handler of a signal has to find it. */

static struct termios before;
static volatile sig_atomic_t is_raw;

/* Somebody in the background must not touch the terminal: it is another's. */
static bool in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Safe in a handler of a signal. */
static void restore_terminal(void)
{
    if (is_raw && in_foreground())
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    is_raw = 0;
}

/* Keys come one by one and unseen. Ctrl-C and Ctrl-Z stay what they are. */
static int make_raw(void)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return -errno;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
        return -errno;
    is_raw = 1;
    return 0;
}

static void die_restored(int number)
{
    restore_terminal();
    raise(number); /* the handler was for once: now it has its usual effect */
}

/* Signals that end the process before it can clean up. */
static void guard_signals(void)
{
    static const int fatal[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction old, guard = {.sa_handler = die_restored, .sa_flags = (int)SA_RESETHAND};
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(fatal[i], &guard, NULL);
    }
}

/* What the keys do. */

static void browser_ended(void *arg, int code, int status)
{
    struct keys *keys = arg;
    keys->opening = false;
    if (code != CLD_EXITED || status != 0)
        log_warn("no browser could be opened; the address is %s", keys->url);
}

static void become_browser(const char *url)
{
    static const char *const openers[] = {"xdg-open", "open"};
    const char *chosen = getenv("BROWSER");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid(); /* it outlives us, and the terminal's signals are not for it */
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nothing >= 0 && fd < 3; fd++)
        dup2(nothing, fd);
    if (chosen && *chosen)
        execlp(chosen, chosen, url, (char *)NULL);
    for (size_t i = 0; i < sizeof openers / sizeof *openers; i++)
        execlp(openers[i], openers[i], url, (char *)NULL);
    _exit(127);
}

static void open_browser(struct keys *keys)
{
    if (keys->opening)
        return;
    struct error err = {0};
    pid_t pid = fork();
    if (pid == 0)
        become_browser(keys->url);
    keys->browser = (struct child){.ended = browser_ended, .arg = keys};
    if (pid < 0)
        log_warn("no browser could be opened: %s", strerror(errno));
    else if (loop_child(keys->config.loop, &keys->browser, pid, &err) < 0)
        log_warn("%s", err.text);
    else
        keys->opening = true;
}

static void reload(struct keys *keys)
{
    keys->config.reload(keys->config.arg);
}

static void jumped(void *arg, bool settled, int error)
{
    char now[25];
    clock_format(clock_now_ms(arg), now);
    log_info("the clock is at %s%s", now, settled ? "" : "; not everything has settled yet");
}

static void fast_forward(struct keys *keys)
{
    struct error err = {0};
    if (clock_advance_next(keys->config.clock, jumped, keys->config.clock, &err) < 0)
        log_info("%s", err.text);
}

static void print_box(void);

static void clear_console(struct keys *keys)
{
    printf("\x1b[2J\x1b[3J\x1b[H");
    print_box();
}

static void quit(struct keys *keys)
{
    keys->config.quit(keys->config.arg);
}

/* In the order in which they are shown. */
static const struct row {
    char key;
    const char *label; /* NULL = another key of the row before */
    void (*press)(struct keys *keys);
} rows[] = {
    {'b', "open a browser", open_browser},
    {'r', "reload configuration", reload},
    {'f', "fast-forward to the next timer", fast_forward},
    {'c', "clear console", clear_console},
    {'x', "to exit", quit},
    {'q', NULL, quit},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void print_rule(const char *left, size_t width, const char *right)
{
    printf("%s", left);
    for (size_t i = 0; i < width; i++)
        printf("─");
    printf("%s\n", right);
}

/* One line where it fits, else one for each key, in a box as wrangler has it. */
static void print_box(void)
{
    size_t line = 0, longest = 0;
    for (size_t i = 0; i < ROWS; i++) {
        size_t size = rows[i].label ? strlen("[x] ") + strlen(rows[i].label) : 0;
        line += size + (size && line ? 1 : 0);
        longest = size > longest ? size : longest;
    }
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    bool stacked = line + 6 > (known ? size.ws_col : 80u);
    print_rule("╭", (stacked ? longest : line) + 4, "╮");
    for (size_t i = 0; i < ROWS; i++) {
        if (!rows[i].label)
            continue;
        int pad = stacked ? (int)(longest - strlen("[x] ") - strlen(rows[i].label)) : 0;
        printf("%s[%c] %s", i == 0 || stacked ? "│  " : " ", rows[i].key, rows[i].label);
        if (stacked)
            printf("%*s  │\n", pad, "");
    }
    if (!stacked)
        printf("  │\n");
    print_rule("╰", (stacked ? longest : line) + 4, "╯");
    fflush(stdout);
}

/* Listening. */

static void stop_listening(struct keys *keys)
{
    if (keys->input.fd >= 0)
        loop_unwatch(keys->config.loop, &keys->input);
    restore_terminal();
}

/* An arrow or a function key is none of ours, whatever letter it ends with: how many bytes it has.
 */
static ssize_t escape_size(const char *bytes, ssize_t size)
{
    ssize_t at = 1;
    if (at < size && (bytes[at] == '[' || bytes[at] == 'O')) {
        do
            at++;
        while (at < size && (bytes[at] < '@' || bytes[at] > '~'));
    }
    return at < size ? at + 1 : size;
}

static void input_ready(void *arg, uint32_t events)
{
    struct keys *keys = arg;
    char bytes[64];
    ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        stop_listening(keys);
        return;
    }
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] == '\x1b') {
            i += escape_size(bytes + i, got - i) - 1;
            continue;
        }
        for (size_t row = 0; row < ROWS; row++) {
            if (rows[row].key == tolower((unsigned char)bytes[i]))
                rows[row].press(keys);
        }
    }
}

static int listen_to(struct keys *keys)
{
    if (keys->input.fd >= 0 || !in_foreground())
        return 0;
    int result = make_raw();
    if (result == 0)
        result = loop_watch(keys->config.loop, &keys->input, STDIN_FILENO, EPOLLIN);
    if (result < 0)
        restore_terminal();
    return result;
}

static void suspended(void *arg, int number)
{
    stop_listening(arg);
    kill(getpid(), SIGSTOP);
}

/* In the background there is no reading; `fg` brings another one. */
static void continued(void *arg, int number)
{
    struct keys *keys = arg;
    stop_listening(keys);
    listen_to(keys);
}

struct keys *keys_new(const struct keys_config *config, struct error *err)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return NULL;
    struct keys *keys = calloc(1, sizeof *keys);
    if (!keys || !(keys->url = strdup(config->url))) {
        free(keys);
        error_errno(err, ENOMEM, "keys");
        return NULL;
    }
    keys->config = *config;
    keys->input = (struct watch){.ready = input_ready, .arg = keys, .fd = -1};
    guard_signals();
    atexit(restore_terminal);
    int result = loop_signal(config->loop, SIGTSTP, suspended, keys);
    if (result == 0)
        result = loop_signal(config->loop, SIGCONT, continued, keys);
    if (result == 0)
        result = listen_to(keys);
    if (result < 0)
        log_warn("no keys: terminal: %s",
                 strerror(-result)); /* the handlers still know the struct */
    if (keys->input.fd >= 0)
        print_box();
    return keys;
}

void keys_free(struct keys *keys)
{
    if (!keys)
        return;
    stop_listening(keys);
    if (keys->opening)
        loop_child_forget(&keys->browser);
    free(keys->url);
    free(keys);
}

#include "runtime/runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

void tree_add(struct tree *tree, pid_t pid)
{
    enum { TREE_MAX = 1 << 20 };

    if (tree->count == tree->room) {
        size_t room = tree->room ? tree->room * 2 : 64;
        pid_t *grown = room <= TREE_MAX ? realloc(tree->pids, room * sizeof *grown) : NULL;

        if (!grown)
            return;
        tree->pids = grown;
        tree->room = room;
    }
    tree->pids[tree->count++] = pid;
}

/* A children file is pids, each followed by a space. */
static void add_children_of_thread(struct tree *tree, int tasks, const char *thread)
{
    char path[64];
    char text[1024];
    CLEANUP_FD int fd = -1;
    pid_t pid = 0;
    ssize_t got;

    snprintf(path, sizeof path, "%s/children", thread);
    fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    while ((got = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9' && pid < INT_MAX / 10) {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                tree_add(tree, pid);
                pid = 0;
            }
        }
    }
}

void tree_add_children(struct tree *tree, pid_t pid)
{
    char path[64];
    struct dirent *entry;
    DIR *tasks;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (!tasks)
        return;
    while ((entry = readdir(tasks)))
        if (entry->d_name[0] != '.')
            add_children_of_thread(tree, dirfd(tasks), entry->d_name);
    closedir(tasks);
}

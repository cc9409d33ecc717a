#include "runtime/runtime.h"

#include <signal.h>
#include <stdlib.h>

/* A process that is told to stop finishes no fork after that, so stopping each one before its
 * children are read leaves no way to slip out of a SIGKILL. Milder signals are for processes that
 * still run, which may fork on; their sender escalates anyway. */
static int signal_tree(pid_t root, int number)
{
    struct tree tree = {0};
    pid_t self = getpid();
    int sent = 0;

    tree_add(&tree, root);
    for (size_t i = 0; i < tree.count; i++) {
        if (number == SIGKILL && tree.pids[i] != self)
            kill(tree.pids[i], SIGSTOP);
        tree_add_children(&tree, tree.pids[i]);
    }
    for (size_t i = tree.count; i-- > 0;)
        if (tree.pids[i] != self && kill(tree.pids[i], number) == 0)
            sent++;
    free(tree.pids);
    return sent;
}

/* As PID 1 one call reaches all the others at once; elsewhere (in a test) it would reach strangers,
 * and the tree below us is what we answer for. */
static int signal_all(uint32_t id, int number, struct answer *answer)
{
    int error;

    if (getpid() == 1)
        kill(-1, number);
    else
        signal_tree(getpid(), number);
    answer->later = true;
    error = reap_answer_when_empty(id);
    if (error)
        answer->later = false;
    return error;
}

int signals_request(const struct request *request, struct answer *answer)
{
    struct reader in = reader_of(request);
    struct rt_signal how;

    if (!reader_take(&in, &how, sizeof how) || in.left || how.scope > RT_SIGNAL_ALL)
        return -EBADMSG;
    if (how.signal < 0 || how.signal >= NSIG)
        return -EINVAL;
    if (how.scope == RT_SIGNAL_ALL)
        return signal_all(request->id, how.signal, answer);
    if (!reap_knows(how.pid))
        return -ESRCH;
    if (how.scope == RT_SIGNAL_TREE)
        return signal_tree(how.pid, how.signal);
    /* The kernel does not say how many a group has: 1 stands for "it had some". */
    if (kill(how.scope == RT_SIGNAL_GROUP ? -how.pid : how.pid, how.signal) < 0)
        return -errno;
    return 1;
}

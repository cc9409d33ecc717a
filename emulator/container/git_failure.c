#include "container/git_failure.h"

#include <stddef.h>
#include <string.h>

/* In the order in which the original looks. */
static const struct {
    const char *text;
    enum code code;
} rows[] = {
    {"permission denied", CODE_GIT_AUTH_FAILED},  {"access denied", CODE_GIT_AUTH_FAILED},
    {"not found", CODE_GIT_REPOSITORY_NOT_FOUND}, {"does not exist", CODE_GIT_REPOSITORY_NOT_FOUND},
    {"already exists", CODE_GIT_CLONE_FAILED},    {"did not match", CODE_GIT_BRANCH_NOT_FOUND},
    {"pathspec", CODE_GIT_BRANCH_NOT_FOUND},      {"authentication", CODE_GIT_AUTH_FAILED},
    {"credentials", CODE_GIT_AUTH_FAILED},
};

/* Nearly everything that goes wrong in a clone ends git with 128, and so with the same code. */
enum code git_failure_code(int exit_code, const char *said)
{
    if (exit_code == GIT_EXIT_TIMEOUT)
        return CODE_GIT_NETWORK_ERROR;
    if (exit_code == GIT_EXIT_FATAL)
        return strcasestr(said, "repository not found") ? CODE_GIT_REPOSITORY_NOT_FOUND
                                                        : CODE_GIT_OPERATION_FAILED;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcasestr(said, rows[i].text))
            return rows[i].code;
    }
    return CODE_GIT_CLONE_FAILED;
}

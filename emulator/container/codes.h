/* The error codes of the container API as one table: HTTP status on the container's own face, the
 * SDK's error class, and what the Worker makes of that class. */
#ifndef SANDPIT_CONTAINER_CODES_H
#define SANDPIT_CONTAINER_CODES_H

/* CODE(name, container status, SDK class, Worker status, Worker code or NULL, suggestion or NULL)
 */
#define CODES(CODE)                                                                                \
    CODE(FILE_NOT_FOUND, 404, "FileNotFoundError", 404, "FILE_NOT_FOUND",                          \
         "Check the path; relative paths start at the session's directory")                        \
    CODE(FILE_EXISTS, 409, "FileExistsError", 409, "FILE_EXISTS", "Use another name or delete it") \
    CODE(FILE_TOO_LARGE, 413, "FileTooLargeError", 500, NULL, NULL)                                \
    CODE(PERMISSION_DENIED, 403, "PermissionDeniedError", 403, "PERMISSION_DENIED",                \
         "Check the file's mode and owner")                                                        \
    CODE(IS_DIRECTORY, 400, "FileSystemError", 500, "FILESYSTEM_ERROR",                            \
         "Name a file, or use exec with rm -r for a directory")                                    \
    CODE(NOT_DIRECTORY, 400, "FileSystemError", 500, "FILESYSTEM_ERROR", "Name a directory")       \
    CODE(NO_SPACE, 500, "FileSystemError", 500, "FILESYSTEM_ERROR",                                \
         "Delete files, or start with a larger upper layer")                                       \
    CODE(TOO_MANY_FILES, 500, "FileSystemError", 500, "FILESYSTEM_ERROR", NULL)                    \
    CODE(TOO_MANY_LINKS, 500, "FileSystemError", 500, "FILESYSTEM_ERROR", NULL)                    \
    CODE(RESOURCE_BUSY, 409, "FileSystemError", 500, "FILESYSTEM_ERROR", "Try again later")        \
    CODE(READ_ONLY, 403, "FileSystemError", 500, "FILESYSTEM_ERROR",                               \
         "Write below /workspace or /tmp")                                                         \
    CODE(NAME_TOO_LONG, 400, "FileSystemError", 500, "FILESYSTEM_ERROR", NULL)                     \
    CODE(FILESYSTEM_ERROR, 500, "FileSystemError", 500, "FILESYSTEM_ERROR", NULL)                  \
    CODE(COMMAND_NOT_FOUND, 404, "CommandNotFoundError", 404, "COMMAND_NOT_FOUND",                 \
         "Check that the command is installed and still running")                                  \
    CODE(COMMAND_PERMISSION_DENIED, 403, "CommandError", 500, "COMMAND_EXECUTION_ERROR", NULL)     \
    CODE(COMMAND_EXECUTION_ERROR, 500, "CommandError", 500, "COMMAND_EXECUTION_ERROR", NULL)       \
    CODE(INVALID_COMMAND, 400, "CommandError", 500, "COMMAND_EXECUTION_ERROR", NULL)               \
    CODE(STREAM_START_ERROR, 500, "CommandError", 500, "COMMAND_EXECUTION_ERROR", NULL)            \
    CODE(PROCESS_NOT_FOUND, 404, "ProcessNotFoundError", 404, "PROCESS_NOT_FOUND",                 \
         "listProcesses names those that there are; they end with their container")                \
    CODE(PROCESS_READY_TIMEOUT, 408, "ProcessReadyTimeoutError", 408, "PROCESS_READY_TIMEOUT",     \
         "See what it printed with getProcessLogs, or wait longer")                                \
    CODE(PROCESS_EXITED_BEFORE_READY, 500, "ProcessExitedBeforeReadyError", 500,                   \
         "PROCESS_EXITED_BEFORE_READY", "See what it printed with getProcessLogs")                 \
    CODE(SESSION_ALREADY_EXISTS, 409, "SessionAlreadyExistsError", 409, "SESSION_ALREADY_EXISTS",  \
         "Use another id, or the session that exists")                                             \
    CODE(SESSION_DESTROYED, 410, "SessionDestroyedError", 410, "SESSION_DESTROYED",                \
         "Create the session again")                                                               \
    CODE(SESSION_TERMINATED, 410, "SessionTerminatedError", 410, "SESSION_TERMINATED",             \
         "The next call with this id starts a fresh shell; wrap `exit` in a subshell: (exit 1)")   \
    CODE(CONTEXT_NOT_FOUND, 404, "ContextNotFoundError", 404, "CONTEXT_NOT_FOUND",                 \
         "Contexts end with their container; create it again")                                     \
    CODE(CODE_EXECUTION_ERROR, 500, "CodeExecutionError", 500, "CODE_EXECUTION_ERROR", NULL)       \
    CODE(PYTHON_NOT_AVAILABLE, 501, "SandboxError", 500, NULL, NULL)                               \
    CODE(VALIDATION_FAILED, 400, "ValidationFailedError", 400, "VALIDATION_FAILED",                \
         "See context.validationErrors")                                                           \
    CODE(INVALID_GIT_URL, 400, "InvalidGitUrlError", 400, "INVALID_GIT_URL", NULL)                 \
    CODE(GIT_AUTH_FAILED, 401, "GitAuthenticationError", 401, "GIT_AUTH_FAILED",                   \
         "Check the credentials in the URL")                                                       \
    CODE(GIT_REPOSITORY_NOT_FOUND, 404, "GitRepositoryNotFoundError", 404,                         \
         "GIT_REPOSITORY_NOT_FOUND", "Check the URL, and that you may read it")                    \
    CODE(GIT_BRANCH_NOT_FOUND, 404, "GitBranchNotFoundError", 404, "GIT_BRANCH_NOT_FOUND",         \
         "Check the name of the branch")                                                           \
    CODE(GIT_NETWORK_ERROR, 502, "GitNetworkError", 502, "GIT_NETWORK_ERROR", NULL)                \
    CODE(GIT_CLONE_FAILED, 500, "GitCloneError", 500, "GIT_CLONE_FAILED", NULL)                    \
    CODE(GIT_CHECKOUT_FAILED, 500, "GitCheckoutError", 500, "GIT_CHECKOUT_FAILED", NULL)           \
    CODE(GIT_OPERATION_FAILED, 500, "GitError", 500, "GIT_OPERATION_FAILED", NULL)                 \
    CODE(INVALID_PORT_NUMBER, 400, "InvalidPortError", 400, "INVALID_PORT",                        \
         "Use a port from 1024 to 65535 other than 3000")                                          \
    CODE(PORT_ALREADY_EXPOSED, 409, "PortAlreadyExposedError", 409, "PORT_ALREADY_EXPOSED",        \
         "Unexpose it first, or use what is exposed")                                              \
    CODE(PORT_NOT_EXPOSED, 404, "PortNotExposedError", 404, "PORT_NOT_EXPOSED",                    \
         "Expose it first")                                                                        \
    CODE(CUSTOM_DOMAIN_REQUIRED, 400, "CustomDomainRequiredError", 400, "CUSTOM_DOMAIN_REQUIRED",  \
         "Pass a domain of your own as hostname; here it is found by the Host header")             \
    CODE(SERVICE_NOT_RESPONDING, 502, "ServiceNotRespondingError", 502, "SERVICE_NOT_RESPONDING",  \
         "Start the server first, and wait for it with waitForPort")                               \
    CODE(SECURITY_VALIDATION_FAILED, 500, "SandboxError", 500, NULL, NULL)                         \
    CODE(CONTAINER_UNAVAILABLE, 503, "ContainerUnavailableError", 503, "CONTAINER_UNAVAILABLE",    \
         "Try again shortly")                                                                      \
    CODE(OPERATION_INTERRUPTED, 409, "OperationInterruptedError", 409, "OPERATION_INTERRUPTED",    \
         "The container went away while this ran; check what was done, then try again")            \
    CODE(SECURITY_ERROR, 400, "SandboxSecurityError", 400, "SECURITY_ERROR", NULL)                 \
    CODE(PLAIN_ERROR, 500, "Error", 500, NULL, NULL)                                               \
    CODE(UNKNOWN_ERROR, 500, "SandboxError", 500, NULL, NULL)                                      \
    CODE(INTERNAL_ERROR, 500, "SandboxError", 500, NULL, NULL)

enum code {
    CODE_OK,
#define CODE(name, ...) CODE_##name,
    CODES(CODE)
#undef CODE
        CODE_COUNT
};

struct code_row {
    const char *name;
    int status;
    const char *sdk_class;
    int worker_status;
    const char *worker_code;
    const char *suggestion;
};
const struct code_row *code_row(enum code code);

#endif

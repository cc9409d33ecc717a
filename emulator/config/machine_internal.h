/* What the files of the machine's checks share. */
#ifndef SANDPIT_CONFIG_MACHINE_INTERNAL_H
#define SANDPIT_CONFIG_MACHINE_INTERNAL_H

#include "config/machine.h"

/* The checks. */
void machine_check_kernel(const struct machine *machine, struct machine_result *result);
void machine_check_user_namespaces(const struct machine *machine, struct machine_result *result);
void machine_check_apparmor(const struct machine *machine, struct machine_result *result);
void machine_check_subids(const struct machine *machine, struct machine_result *result);
void machine_check_bubblewrap(const struct machine *machine, struct machine_result *result);
void machine_check_links(const struct machine *machine, struct machine_result *result);
void machine_check_overlay(const struct machine *machine, struct machine_result *result);
void machine_check_idmapped(const struct machine *machine, struct machine_result *result);
void machine_check_cgroups(const struct machine *machine, struct machine_result *result);
void machine_check_memory(const struct machine *machine, struct machine_result *result);
void machine_check_egress(const struct machine *machine, struct machine_result *result);
void machine_check_names(const struct machine *machine, struct machine_result *result);
void machine_check_port(const struct machine *machine, struct machine_result *result);
void machine_check_state(const struct machine *machine, struct machine_result *result);
void machine_check_locator(const struct machine *machine, struct machine_result *result);
void machine_check_tools(const struct machine *machine, struct machine_result *result);
void machine_check_docker(const struct machine *machine, struct machine_result *result);

/* What is tried (machine_try.c, machine_network.c). */
int machine_try_user_namespace(const struct machine *machine);
int machine_try_overlay(const struct machine *machine);
int machine_try_idmapped(const struct machine *machine);
const char *machine_try_calls(const struct machine *machine);
int machine_try_port(const struct machine *machine, uint16_t port);
int machine_try_resolve(const struct machine *machine, const char *name, char *to, size_t size);

/* Results (machine_facts.c). */
void machine_ok(struct machine_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void machine_find(struct machine_result *result, enum machine_severity severity, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));
void machine_fix(struct machine_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void machine_could_not(struct machine_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Facts. Paths are absolute; `root` is put in front. */
void machine_path(const struct machine *machine, const char *path, char to[PATH_MAX]);
/* The beginning of a file, without trailing white space; the length or a negative errno. */
ssize_t machine_read(const struct machine *machine, const char *path, char *to, size_t size);
/* A file that holds one number; `otherwise` when there is no such file. */
long machine_number(const struct machine *machine, const char *path, long otherwise);
bool machine_has(const struct machine *machine, const char *path);
/* Whether this runs in a Docker or podman container. */
bool machine_contained(const struct machine *machine);
/* Where a program is, found along machine->path. */
bool machine_program(const struct machine *machine, const char *name, char to[PATH_MAX]);
/* "sudo apt install NAME" in the words of this system's package manager. A name is NULL where that
 * system has no such package. */
struct machine_package {
    const char *apt, *dnf, *pacman, *apk;
};
void machine_install(const struct machine *machine, const struct machine_package *packages,
                     size_t count, char *to, size_t size);

/* Runs a program and keeps the beginning of what it says on either output; its exit status, or a
 * negative errno. */
int machine_capture(const char *const *argv, char *to, size_t size);
/* Calls `try` in a child and gives its result, which must be 0 or a negative errno above -128. */
int machine_in_child(int (*try)(const struct machine *machine), const struct machine *machine);

#endif

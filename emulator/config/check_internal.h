/* What the files of the project's checks share. */
#ifndef SANDPIT_CONFIG_CHECK_INTERNAL_H
#define SANDPIT_CONFIG_CHECK_INTERNAL_H

#include "config/check.h"
#include "config/npm.h"
#include "config/patch.h"
#include "config/script.h"
#include "config/wrangler.h"

enum { INSPECTION_FILES_MAX = 64 };

/* One file of the Worker: main, or what it imports. */
struct script_file {
    char path[PATH_MAX];  /* absolute */
    const char *relative; /* below the project's directory */
    struct buf text;
    struct script script;
    bool open; /* it re-exports what is not here */
};

struct inspection {
    struct project project;
    struct error error; /* why the project could not be read; code 0 when it could */
    bool has_sdk, old_wrangler;
    bool has_main; /* the file is there, though it may be more than is read */
    struct npm_sdk sdk;
    struct script_file *files[INSPECTION_FILES_MAX]; /* the first is main */
    size_t file_count;
    struct findings *findings;
    bool lost; /* there was no memory for a finding */
};

/* check_files.c: reads main and what it imports by relative paths. */
void inspection_read_scripts(struct inspection *inspection);
void inspection_free(struct inspection *inspection);
/* Whether any file calls the function; *file and *call tell where. `from` continues a search: the
 * call after *call in *file. */
bool inspection_call(const struct inspection *inspection, const char *name,
                     const struct script_file **file, size_t *call, bool from);
bool inspection_names(const struct inspection *inspection, const char *name);
/* Whether main exports it; true when that cannot be known. */
bool inspection_exports(const struct inspection *inspection, const char *name);

/* check.c: findings. Each returns it for more to be filled in, or NULL without memory. */
struct finding *find_in_config(struct inspection *inspection, const struct project_check *check,
                               struct where where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct finding *find_in_script(struct inspection *inspection, const struct project_check *check,
                               const struct script_file *file, size_t token, const char *format,
                               ...) __attribute__((format(printf, 5, 6)));
struct finding *find_in_dockerfile(struct inspection *inspection, const struct project_check *check,
                                   const struct project_class *class, int line, const char *format,
                                   ...) __attribute__((format(printf, 5, 6)));

/* check_fix.c: changes that repair. A finding of NULL is passed over. */
void fix_splice(struct finding *finding, const char *text, size_t size,
                const struct splice *splice);
/* Tokens of a script are replaced. */
void fix_tokens(struct finding *finding, const struct script_file *file, struct tokens tokens,
                const char *insert);
/* A member for an object of the configuration, or an element for an array, in front of the others.
 */
void fix_add(const struct inspection *inspection, struct finding *finding, struct where where,
             const char *json);
/* A member for containers[class], whatever way it is written. */
void fix_add_member(const struct inspection *inspection, struct finding *finding, size_t class,
                    const char *name, const char *value);
/* Another name for the member whose value stands at `where`. */
void fix_rename(const struct inspection *inspection, struct finding *finding, struct where where,
                const char *old, const char *new);
/* At the top level: the JSON member, or TOML lines at the beginning (a key) or the end (a table).
 */
void fix_add_section(const struct inspection *inspection, struct finding *finding, const char *json,
                     const char *toml, bool at_end);
/* Another text in the place of a string of the configuration. */
void fix_string(const struct inspection *inspection, struct finding *finding, struct where where,
                const char *text);
/* The image of a class, wherever it is named. */
void fix_image(const struct inspection *inspection, struct finding *finding, size_t class,
               const char *image);
/* A line at the end of a Dockerfile. */
void fix_dockerfile(struct finding *finding, const struct project_class *class, const char *text);

/* The comment behind the instruction in a line goes to a line of its own, in front. */
void fix_comment(struct finding *finding, const struct project_class *class, int line);

/* The way to containers[class], and to a member of it. */
struct where where_class(const struct inspection *inspection, size_t class, const char *member);

/* The checks: check_config.c, check_image.c, check_script.c. */
#define CHECKS(CHECK)                                                                              \
    CHECK(config)                                                                                  \
    CHECK(nodejs_compat)                                                                           \
    CHECK(main)                                                                                    \
    CHECK(class_export)                                                                            \
    CHECK(class_binding)                                                                           \
    CHECK(binding_class)                                                                           \
    CHECK(binding_container)                                                                       \
    CHECK(migrations)                                                                              \
    CHECK(max_instances)                                                                           \
    CHECK(instance_type)                                                                           \
    CHECK(version)                                                                                 \
    CHECK(python)                                                                                  \
    CHECK(expose)                                                                                  \
    CHECK(expose_comment)                                                                          \
    CHECK(expose_port)                                                                             \
    CHECK(reserved_port)                                                                           \
    CHECK(workers_dev)                                                                             \
    CHECK(hostname)                                                                                \
    CHECK(token)                                                                                   \
    CHECK(proxy)                                                                                   \
    CHECK(preview_binding)                                                                         \
    CHECK(id_case)                                                                                 \
    CHECK(id_length)                                                                               \
    CHECK(id_characters)                                                                           \
    CHECK(injection)                                                                               \
    CHECK(leak)
#define CHECK(name)                                                                                \
    void check_##name(struct inspection *inspection, const struct project_check *check);
CHECKS(CHECK)
#undef CHECK

#endif

/* The project: what the emulator needs of wrangler.json, wrangler.jsonc or
 * wrangler.toml, and of the Dockerfiles they name. */
#ifndef SANDPIT_CONFIG_WRANGLER_H
#define SANDPIT_CONFIG_WRANGLER_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "config/dockerfile.h"
#include "config/instance_type.h"
#include "config/source.h"

enum { PROJECT_CLASSES_MAX = 64, PROJECT_IMAGE_MAX = 512 };

/* One element of containers[]. */
struct project_class {
    char name[64];                 /* class_name */
    char image[PROJECT_IMAGE_MAX]; /* as written; "" for the built-in class */
    char from[PROJECT_IMAGE_MAX];  /* the reference that decides: image, or its
                                      Dockerfile's FROM */
    char *dockerfile;              /* path, or NULL when image is a reference */
    struct dockerfile facts;       /* of the Dockerfile; empty without one */
    char version[32];              /* of the tag; "" = the default */
    bool python;
    char network[16];       /* the word for it in "sandpit", or "" */
    char instance_type[32]; /* "" when not given or not a word */
    bool sized;             /* it was given, as a word or as an object */
    struct instance_size size;
    int max_instances; /* 0 when not given */
};

struct project {
    bool found;                    /* a configuration file was read */
    char dir[PATH_MAX];            /* absolute; relative paths of the configuration start
                                      here */
    char file[PATH_MAX];           /* absolute; "" when none was found */
    bool above;                    /* it was found above the directory that was asked for */
    struct source source;          /* of the file */
    char environment[64];          /* of --env, or "" */
    char name[128];                /* the directory's name when the file has none */
    char main[PATH_MAX];           /* as written; "" when not given */
    struct project_class *classes; /* at least one; without containers[] the built-in "Sandbox" */
    size_t class_count;
    json_t *vars;        /* of the Worker, or NULL */
    json_t *buckets;     /* names of the bindings of r2_buckets, or NULL */
    json_t *git_mirrors; /* URL prefix to directory, or NULL */
};

#define CLEANUP_PROJECT __attribute__((cleanup(project_free)))

/* Reads the configuration of `dir` or the nearest directory above it:
 * wrangler.json before wrangler.jsonc before wrangler.toml, as wrangler itself
 * does. A config_file (relative to the current directory) is read instead, and
 * its directory is the project's; NULL = look. Errors name file, line and column. The struct may be
 * uninitialised; it must be freed also after an error. */
int project_load(const char *dir, const char *config_file, struct project *project,
                 struct error *err);
/* The same for one of the environments below "env"; NULL or "" = the top level.
 */
int project_load_environment(const char *dir, const char *config_file, const char *environment,
                             struct project *project, struct error *err);
void project_free(struct project *project);
/* The directory of the project that `dir` belongs to; `dir` itself, resolved,
 * when it belongs to none. */
int project_locate(const char *dir, char to[PATH_MAX], struct error *err);
/* A path below the project's directory as people see it; others stay as they
 * are. */
const char *project_relative(const struct project *project, const char *path);

/* A section by its key, of the environment or, where wrangler inherits it, of
 * the top level; NULL when there is none. *where tells the way to it, or to
 * where it would stand; may be NULL. */
json_t *project_section(const struct project *project, const char *key, struct where *where);

#endif

#include "objects/hints.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/jsonstr.h"
#include "base/log.h"
#include "objects/internal.h"
#include "objects/lives.h"

enum {
    PATH_LONGEST = 4096,
    PORT_LONGEST = 5, /* digits */
};

json_t *hints_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    CLEANUP_BUF struct buf clean = BUF_INIT(4 * PATH_LONGEST);
    jsonstr_clean(&clean, text, strlen(text), true);
    return json_stringn(buf_text(&clean), clean.size);
}

/* Files. */

/* Absolute, without "." and ".." and doubled slashes; false when it is too long. A relative path
 * starts where sessions do. */
static bool resolve(const char *path, char to[PATH_LONGEST])
{
    CLEANUP_BUF struct buf whole = BUF_INIT(2 * PATH_LONGEST);
    if (path[0] != '/')
        buf_adds(&whole, "/workspace/");
    if (buf_adds(&whole, path) < 0)
        return false;
    size_t size = 0;
    for (const char *at = buf_text(&whole); *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        if (part == 2 && strncmp(at, "..", 2) == 0) {
            while (size > 0 && to[--size] != '/')
                ;
        } else if (part > 0 && !(part == 1 && *at == '.')) {
            if (size + part + 2 > PATH_LONGEST)
                return false;
            to[size++] = '/';
            memcpy(to + size, at, part);
            size += part;
        }
        at += part;
    }
    to[size] = '\0';
    return true;
}

/* The path that the call was about, or NULL. */
static const char *path_of(const json_t *args)
{
    static const char *const names[] = {"path", "oldPath", "sourcePath"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = json_string_value(json_object_get(args, names[i]));
        if (path)
            return path;
    }
    return NULL;
}

static void explain_missing(const struct pending *pending, struct answer *answer)
{
    const struct life *last = life_before(pending->object);
    const char *path = path_of(pending->inner.args);
    char whole[PATH_LONGEST], at[25];
    if (answer->code != CODE_FILE_NOT_FOUND || answer->hint || !last || !path ||
        !resolve(path, whole) || !written_has(&last->written, whole))
        return;
    clock_format(last->ended_ms, at);
    if (asprintf(&answer->hint, "existed until the container %s at %s", life_end_phrase(last->end),
                 at) < 0)
        answer->hint = NULL;
}

/* Sessions. */

/* The default ones begin anew with every container; nobody named them. */
bool hints_session_recreated(struct object *object, const char *id)
{
    if (strcmp(id, object->session_id) == 0 || strcmp(id, "default") == 0)
        return false;
    object_note(object, "session.recreated",
                "the container was replaced: the directory is /workspace again, variables and "
                "functions are gone",
                json_pack("{s:s}", "sessionId", id));
    return true;
}

static void explain_session(struct pending *pending, struct answer *answer)
{
    json_t *recreated = pending->object->life ? pending->object->life->now.recreated : NULL;
    const char *id = json_string_value(json_object_get(pending->inner.args, "sessionId"));
    if (!id || json_object_size(recreated) == 0 || json_object_del(recreated, id) < 0)
        return;
    if (!answer->hint)
        answer->hint = strdup("session re-created, cwd reset to /workspace");
}

void hints_answer(struct pending *pending, struct answer *answer)
{
    explain_missing(pending, answer);
    explain_session(pending, answer);
    if (!pending->object->objects->config.faithful)
        return;
    free(answer->hint);
    answer->hint = NULL;
}

/* Ids. */

void hints_id(struct object *object)
{
    static bool warned;
    const char *problem = NULL;
    for (const char *at = object->id; *at; at++) {
        if (isupper((unsigned char)*at))
            problem = "host names have no upper case, so no preview URL will lead here: use "
                      "normalizeId or a lower-case id";
        else if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_' && !problem)
            problem =
                "a host name holds letters, digits and hyphens only, so previews may not work";
    }
    if (strlen(object->id) > PREVIEW_LABEL_MAX - PORT_LONGEST - TOKEN_LENGTH - 2)
        problem = "{port}-{id}-{token} becomes longer than the 63 characters that a part of a host "
                  "name may have: use an id of at most 40";
    if (!problem)
        return;
    object_note(object, "hint.id", problem, json_pack("{s:s}", "problem", problem));
    if (!warned)
        log_warn("sandbox %s: %s", object->id, problem);
    warned = true;
}

/* The first change is a wish; a second one says that callers may not agree. */
void hints_keep_alive(struct object *object, bool on)
{
    object->keep_alive_changes++;
    if (object->keep_alive_changes != 2)
        return;
    const char *text =
        on ? "keepAlive was switched back on: the last caller's option counts"
           : "keepAlive was switched off again: the last caller's option counts, and "
             "the container sleeps when idle";
    object_note(object, "hint.keepAlive", text, json_pack("{s:b}", "keepAlive", on));
    log_warn("sandbox %s: %s", object->id, text);
}

/* A Worker's script as tokens: enough of JavaScript and TypeScript to tell code from comments and
 * strings, and to find calls and their arguments. Nothing is evaluated. */
#ifndef SANDPIT_CONFIG_SCRIPT_H
#define SANDPIT_CONFIG_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_TEMPLATE, TOKEN_OTHER };

struct token {
    enum token_kind kind;
    bool holes; /* of a template: it has ${…} */
    size_t at, size;
    size_t pair; /* of a bracket: the other one's index; else its own */
};

struct script {
    const char *text; /* borrowed */
    size_t size;
    struct token *tokens;
    size_t count;
};

/* Some tokens in a row: those from `from` up to, without, `until`. */
struct tokens {
    size_t from, until;
};

int script_read(struct script *script, const char *text, size_t size);
void script_free(struct script *script);

bool script_is(const struct script *script, size_t at, const char *text);
/* The inside of a string or template without holes, as it is written; false for other tokens. */
bool script_text(const struct script *script, size_t at, char *to, size_t room);
/* The index of the next call of a function or method by this name, from `from` on: that of its
 * name; count when there is none. The name must be followed by an opening parenthesis. */
size_t script_call(const struct script *script, const char *name, size_t from);
/* Whether the name occurs outside strings and comments. */
bool script_names(const struct script *script, const char *name);
/* The n-th argument of the call at `call`; empty when there is none. */
struct tokens script_argument(const struct script *script, size_t call, size_t n);
/* The value of a member of an object literal; of a shorthand the name itself. Empty when it is not
 * there. */
struct tokens script_member(const struct script *script, struct tokens object, const char *name);
/* The index of `class NAME`, of its first word; count when there is none. */
size_t script_class(const struct script *script, const char *name);
/* The value of a variable whose name is the token: what stands behind its `=`, up to the end of the
 * statement. Empty when it is not declared here. */
struct tokens script_value(const struct script *script, size_t name);
/* A whole number written in decimal, also as a variable, which is followed once; -1 for anything
 * else. */
long script_number(const struct script *script, struct tokens value);
/* Whether a module exports the name: export { A }, export { B as A }, export class A, export const
 * A. */
bool script_exports(const struct script *script, const char *name);

#endif

/* JSON strings, fast: jansson takes 11.5 ms to load and 5.8 ms to dump 1 MiB of text, too slow for
 * file contents and command output. These walk eight bytes at a time and allocate nothing
 * themselves. */
#ifndef SANDPIT_BASE_JSONSTR_H
#define SANDPIT_BASE_JSONSTR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Where a JSON string literal ends: the offset of its closing quote, `text` starting after the
 * opening one; -1 when it does not end within size. Does not check the contents. */
long jsonstr_end(const char *text, size_t size);

/* Unescapes the inside of a string literal piece by piece: each call fills `to` (room >= 16) with
 * at most `room` bytes of checked UTF-8 and moves *from on. Returns the bytes written, 0 at the
 * end, -1 when the literal is not valid JSON (bad escape, lone surrogate, control character, bad
 * UTF-8). \u0000 gives a NUL byte. */
long jsonstr_unescape(const char **from, const char *end, char *to, size_t room);

/* Appends text as the inside of a JSON string: quotes, backslashes and control characters escaped,
 * bytes that are not UTF-8 replaced by U+FFFD as WHATWG decoders do (one for each maximal part),
 * all else as it is. 0, -EMSGSIZE or -ENOMEM. */
int jsonstr_escape(struct buf *to, const char *text, size_t size);

/* Replaces what is not UTF-8 by U+FFFD, and drops NUL bytes when asked: command output on its way
 * into a JSON string. */
int jsonstr_clean(struct buf *to, const char *text, size_t size, bool drop_nul);

/* Standard base64 with padding, appended. */
int base64_encode(struct buf *to, const void *data, size_t size);
/* Decodes piece by piece: *from moves on, at most `room` (>= 3) bytes are written; 0 at the end, -1
 * when a character is not of A-Za-z0-9+/= or the padding is wrong. */
long base64_decode(const char **from, const char *end, char *to, size_t room);

/* Appends a JSON value, compact, keys in order. When `content` is not NULL, the member "content" of
 * the outermost object is written as content(arg, to) inside quotes instead of its value. */
int json_write(struct buf *to, const json_t *value, int (*content)(void *arg, struct buf *to),
               void *arg);

/* The same with a member of any name, written as the JSON text given. */
int json_write_member(struct buf *to, const json_t *object, const char *key,
                      const struct buf *text);

/* Finds large strings before jansson sees them. `text` is a JSON object (member = "content") or
 * array (index >= 0, member NULL). When the top-level value there is a string literal of at least
 * `least` bytes, gives its inside in *inside and *inside_size, and a malloc'd copy of the text with
 * that literal replaced by null. Returns 1 when found, 0 when not (or when the text is not plainly
 * well-formed: jansson will say what is wrong), -ENOMEM. */
int jsonstr_cut(const char *text, size_t size, const char *member, int index, size_t least,
                const char **inside, size_t *inside_size, char **rest);

#endif

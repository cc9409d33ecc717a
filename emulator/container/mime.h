/* What kind of file this is: by its extension, else by its first bytes. */
#ifndef SANDPIT_CONTAINER_MIME_H
#define SANDPIT_CONTAINER_MIME_H

#include <stdbool.h>
#include <stddef.h>

#define MIME_UNKNOWN "application/octet-stream"
#define MIME_EMPTY "inode/x-empty"

/* MIME_UNKNOWN when the extension says nothing. */
const char *mime_by_name(const char *path);
/* The type as a Content-Type: with a character set where the original gives one. */
const char *mime_with_charset(const char *type);
/* Whether its content is given as text. */
bool mime_is_text(const char *type);
/* From the content alone, for where `file` is missing: MIME_EMPTY, text/plain or MIME_UNKNOWN. */
const char *mime_sniff(const char *data, size_t size);
/* Takes "text/plain; charset=x\n" as `file` prints it; false when it is no type. */
bool mime_parse(const char *text, size_t size, char *type, size_t room);

#endif

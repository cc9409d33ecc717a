/* Words for a POSIX shell. */
#ifndef SANDPIT_BASE_QUOTE_H
#define SANDPIT_BASE_QUOTE_H

#include "base/buf.h"

/* Appends a word so that a shell reads it back as it is; plain words stay unquoted. */
int quote_word(struct buf *to, const char *word);

#endif

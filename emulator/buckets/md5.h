/* MD5 (RFC 1321): what buckets give as an object's etag. Not for anything that must be safe. */
#ifndef SANDPIT_BUCKETS_MD5_H
#define SANDPIT_BUCKETS_MD5_H

#include <stddef.h>

/* 32 lower-case hexadecimal digits and a NUL. */
void md5_text(const void *data, size_t size, char to[33]);

#endif

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return -code;
}

int error_errno(struct error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        int used = vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        if (used >= 0 && (size_t)used < sizeof err->text)
            snprintf(err->text + used, sizeof err->text - (size_t)used, ": %s", strerror(code));
        err->code = code;
    }
    return -code;
}

int error_wrap(struct error *err, const char *format, ...)
{
    if (!err)
        return -EIO; /* whoever gave no struct kept no number to repeat */
    char context[sizeof err->text];
    char inner[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    memcpy(inner, err->text, sizeof inner);
    size_t length = strlen(context);
    if (length > sizeof err->text - 3)
        length = sizeof err->text - 3;
    memcpy(err->text, context, length);
    snprintf(err->text + length, sizeof err->text - length, ": %.*s",
             (int)(sizeof inner - length - 3), inner);
    return -err->code;
}

/* JavaScript's syntax of regular expressions is smaller than PCRE2's: what only the other knows is
 * an error there, or an ordinary character. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "objects/pattern.h"

struct translation {
    const char *at, *end;
    struct buf *to;
    unsigned long groups; /* that have a number */
    bool unicode;
    bool in_class;
    bool quantified; /* what was last read is a quantifier */
};

/* "\c" and a letter is a control character. */
static void escape_control(struct translation *translation)
{
    const char *next = translation->at;
    if (next < translation->end && isalpha((unsigned char)*next)) {
        buf_addf(translation->to, "\\x%02x", *next & 0x1f);
        translation->at++;
    } else {
        buf_adds(translation->to, "\\\\c");
    }
}

/* A letter after a backslash: one of JavaScript's escapes, else the letter itself. */
static void escape_letter(struct translation *translation, char letter)
{
    bool name_follows = translation->at < translation->end && *translation->at == '<';
    bool keep = strchr("dDwWsSbnrtfxu", letter) || (letter == 'B' && !translation->in_class) ||
                (letter == 'k' && name_follows) ||
                ((letter == 'p' || letter == 'P') && translation->unicode);
    if (letter == 'v')
        buf_adds(translation->to, "\\x0b");
    else if (letter == 'c')
        escape_control(translation);
    else if (keep)
        buf_addf(translation->to, "\\%c", letter);
    else
        buf_addc(translation->to, letter);
}

/* Digits after a backslash are the number of a group, if there is one; else, as long ago, up to
 * three octal digits of a character. */
static void escape_digits(struct translation *translation)
{
    const char *from = --translation->at, *end = translation->end, *at = from;
    unsigned long number = 0;
    while (at < end && isdigit((unsigned char)*at) && number < 100000)
        number = number * 10 + (unsigned long)(*at++ - '0');
    if (*from != '0' && !translation->in_class && number <= translation->groups) {
        buf_addf(translation->to, "(?:\\%lu)", number); /* a digit may follow */
        translation->at = at;
        return;
    }
    for (at = from, number = 0; at < end && at < from + 3 && *at >= '0' && *at <= '7'; at++) {
        if (number * 8 + (unsigned long)(*at - '0') > 0377)
            break;
        number = number * 8 + (unsigned long)(*at - '0');
    }
    if (at == from)
        buf_addc(translation->to, *at++); /* 8 or 9 */
    else
        buf_addf(translation->to, "\\x%02lx", number);
    translation->at = at;
}

static int escape(struct translation *translation, struct error *err)
{
    if (translation->at == translation->end)
        return error_set(err, EINVAL, "\\ at the end");
    char c = *translation->at++;
    if (isalpha((unsigned char)c))
        escape_letter(translation, c);
    else if (isdigit((unsigned char)c))
        escape_digits(translation);
    else
        buf_addf(translation->to, "\\%c", c);
    return 0;
}

static unsigned long count_groups(const char *at, const char *end)
{
    unsigned long count = 0;
    bool in_class = false;
    for (; at < end; at++) {
        bool named = end - at > 3 && at[1] == '?' && at[2] == '<' && !strchr("=!", at[3]);
        if (*at == '\\')
            at++;
        else if (in_class || *at == '[')
            in_class = *at != ']';
        else if (*at == '(' && (end - at < 2 || at[1] != '?' || named))
            count++;
    }
    return count;
}

/* What may follow "(?": a group without a number, looking ahead or back, or a name. */
static int check_group(const struct translation *translation, struct error *err)
{
    const char *at = translation->at;
    size_t left = (size_t)(translation->end - at);
    if (left >= 1 && *at == '*')
        return error_set(err, EINVAL, "nothing to repeat");
    if (left < 1 || *at != '?')
        return 0;
    if (left >= 2 && strchr(":=!", at[1]))
        return 0;
    if (left >= 3 && at[1] == '<' && (strchr("=!_$", at[2]) || isalpha((unsigned char)at[2])))
        return 0;
    return error_set(err, EINVAL, "invalid group");
}

/* The size of "{2}", "{2,}" or "{2,3}", or 0 when the brace is an ordinary character. */
static size_t braces_size(const struct translation *translation)
{
    const char *at = translation->at, *end = translation->end;
    const char *digits = at;
    while (at < end && isdigit((unsigned char)*at))
        at++;
    if (at == digits)
        return 0;
    if (at < end && *at == ',')
        at++;
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at < end && *at == '}' ? (size_t)(at + 1 - translation->at) : 0;
}

/* "a++" is possessive in PCRE2 and an error here; "a+?" is lazy in both. */
static int quantifier(struct translation *translation, char c, struct error *err)
{
    if (translation->quantified && c != '?')
        return error_set(err, EINVAL, "nothing to repeat");
    buf_addc(translation->to, c);
    translation->quantified = !translation->quantified;
    return 0;
}

static int brace(struct translation *translation, struct error *err)
{
    size_t size = braces_size(translation);
    if (!size) {
        buf_adds(translation->to, "\\{");
        translation->quantified = false;
        return 0;
    }
    if (translation->quantified)
        return error_set(err, EINVAL, "nothing to repeat");
    buf_addc(translation->to, '{');
    buf_add(translation->to, translation->at, size);
    translation->at += size;
    translation->quantified = true;
    return 0;
}

static int one(struct translation *translation, struct error *err)
{
    char c = *translation->at++;
    if (!translation->in_class && strchr("*+?", c) && c)
        return quantifier(translation, c, err);
    if (!translation->in_class && c == '{')
        return brace(translation, err);
    translation->quantified = false;
    if (c == '\\')
        return escape(translation, err);
    if (c == '\0')
        return buf_adds(translation->to, "\\x00");
    if (translation->in_class) {
        translation->in_class = c != ']';
        return buf_adds(translation->to, c == '[' ? "\\[" : (char[]){c, '\0'});
    }
    if (c == '[') {
        translation->in_class = true;
        buf_addc(translation->to, '[');
        if (translation->at < translation->end && *translation->at == '^') {
            buf_addc(translation->to, '^');
            translation->at++;
        }
        return 0;
    }
    buf_addc(translation->to, c);
    return c == '(' ? check_group(translation, err) : 0;
}

int pattern_translate(struct buf *to, const char *source, size_t size, bool unicode,
                      struct error *err)
{
    struct translation translation = {
        .at = source, .end = source + size, .to = to, .unicode = unicode};
    translation.groups = count_groups(source, source + size);
    while (translation.at < translation.end) {
        char before = *translation.at;
        int result = one(&translation, err);
        if (result < 0)
            return result;
        /* The question mark of a group is no quantifier. */
        if (before == '(' && translation.at < translation.end && *translation.at == '?' &&
            !translation.in_class) {
            buf_addc(to, '?');
            translation.at++;
        }
    }
    return to->error ? error_errno(err, -to->error, "pattern") : 0;
}

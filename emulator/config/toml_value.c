/* The leaves of TOML: strings, numbers, booleans, dates, and the parts of keys.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/toml_internal.h"

enum { STRING_BYTES_MAX = 1 << 20, WORD_MAX = 64 };

/* Strings. */

static int add_code_point(struct buf *to, unsigned long code)
{
    if (code < 0x80)
        return buf_addc(to, (char)code);
    if (code < 0x800) {
        buf_addc(to, (char)(0xC0 | code >> 6));
    } else {
        if (code < 0x10000) {
            buf_addc(to, (char)(0xE0 | code >> 12));
        } else {
            buf_addc(to, (char)(0xF0 | code >> 18));
            buf_addc(to, (char)(0x80 | (code >> 12 & 0x3F)));
        }
        buf_addc(to, (char)(0x80 | (code >> 6 & 0x3F)));
    }
    return buf_addc(to, (char)(0x80 | (code & 0x3F)));
}

/* \uXXXX or \UXXXXXXXX, from behind the letter on. */
static int unicode_escape(struct toml *toml, size_t digits, struct buf *to)
{
    unsigned long code = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = toml_peek(toml, i);
        if (!isxdigit((unsigned char)c))
            return toml_error(toml, toml->at, "\\%c needs %zu hexadecimal digits",
                              digits == 4 ? 'u' : 'U', digits);
        int digit = isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
        code = code << 4 | (unsigned long)digit;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return toml_error(toml, toml->at, "this is no character");
    toml->at += digits;
    return add_code_point(to, code);
}

/* A backslash at the end of a line takes all white space up to the next text
 * away. */
static bool line_continues(struct toml *toml)
{
    size_t at = toml->at;
    while (at < toml->size && (toml->text[at] == ' ' || toml->text[at] == '\t'))
        at++;
    if (at >= toml->size || (toml->text[at] != '\n' && toml->text[at] != '\r'))
        return false;
    while (at < toml->size && strchr(" \t\r\n", toml->text[at]))
        at++;
    toml->at = at;
    return true;
}

static int escape(struct toml *toml, bool lines, struct buf *to)
{
    static const char letters[] = "btnfre\"\\", bytes[] = "\b\t\n\f\r\x1b\"\\";
    toml->at++;
    if (lines && line_continues(toml))
        return 0;
    char c = toml_peek(toml, 0);
    const char *letter = c ? strchr(letters, c) : NULL;
    if (c == 'u' || c == 'U') {
        toml->at++;
        return unicode_escape(toml, c == 'u' ? 4 : 8, to);
    }
    if (!letter)
        return toml_error(toml, toml->at - 1, "unknown escape in a string");
    toml->at++;
    return buf_addc(to, bytes[letter - letters]);
}

/* How many of the closing quotes of a multi-line string stand here; up to two
 * more belong to the text. */
static size_t quotes_here(const struct toml *toml, char quote)
{
    size_t count = 0;
    while (count < 5 && toml_peek(toml, count) == quote)
        count++;
    return count;
}

static int string_byte(struct toml *toml, bool lines, struct buf *to)
{
    unsigned char c = (unsigned char)toml->text[toml->at];
    bool newline = c == '\n' || (c == '\r' && toml_peek(toml, 1) == '\n');
    if (newline && !lines)
        return toml_error(toml, toml->at, "the string does not end in its line");
    if ((c < 0x20 && c != '\t' && !newline) || c == 0x7F)
        return toml_error(toml, toml->at, "a control character in a string");
    toml->at++;
    return buf_addc(to, (char)c);
}

static int string_multi(struct toml *toml, char quote, struct buf *to)
{
    size_t start = toml->at;
    toml->at += 3;
    if (toml_peek(toml, 0) == '\r' && toml_peek(toml, 1) == '\n')
        toml->at++;
    if (toml_peek(toml, 0) == '\n')
        toml->at++;
    while (toml->at < toml->size) {
        size_t quotes = quotes_here(toml, quote);
        int result = 0;
        if (quotes >= 3) {
            for (size_t i = 3; i < quotes; i++)
                buf_addc(to, quote);
            toml->at += quotes;
            return 0;
        }
        if (quote == '"' && toml_peek(toml, 0) == '\\')
            result = escape(toml, true, to);
        else
            result = string_byte(toml, true, to);
        if (result < 0)
            return result;
    }
    return toml_error(toml, start, "the string does not end");
}

int toml_string(struct toml *toml, struct buf *to)
{
    size_t start = toml->at;
    char quote = toml_peek(toml, 0);
    if (toml_peek(toml, 1) == quote && toml_peek(toml, 2) == quote)
        return string_multi(toml, quote, to);
    toml->at++;
    while (toml->at < toml->size) {
        char c = toml->text[toml->at];
        int result = 0;
        if (c == quote) {
            toml->at++;
            return 0;
        }
        if (quote == '"' && c == '\\')
            result = escape(toml, false, to);
        else
            result = string_byte(toml, false, to);
        if (result < 0)
            return result;
    }
    return toml_error(toml, start, "the string does not end");
}

int toml_key_part(struct toml *toml, char **key)
{
    size_t start = toml->at;
    char c = toml_peek(toml, 0);
    CLEANUP_BUF struct buf text = BUF_INIT(STRING_BYTES_MAX);
    if (c == '"' || c == '\'') {
        if (toml_peek(toml, 1) == c && toml_peek(toml, 2) == c)
            return toml_error(toml, start, "a key has one line");
        int result = toml_string(toml, &text);
        if (result < 0)
            return result;
        if (memchr(buf_text(&text), '\0', text.size))
            return toml_error(toml, start, "a key without NUL is expected");
    } else {
        while (isalnum((unsigned char)(c = toml_peek(toml, 0))) || c == '_' || c == '-') {
            buf_addc(&text, c);
            toml->at++;
        }
        if (text.size == 0)
            return toml_error(toml, start, "a key is expected");
    }
    buf_adds(&text, ""); /* an empty one is a key too */
    *key = text.error ? NULL : strndup(buf_text(&text), text.size);
    return *key ? 0 : toml_error(toml, start, "out of memory");
}

/* Numbers and dates. */

/* Takes the underscores out; each must stand between digits. */
static bool take_digits(const char *word, char to[WORD_MAX])
{
    const char *digits = strncmp(word, "0x", 2) == 0 ? "0123456789abcdefABCDEF" : "0123456789";
    size_t size = 0;
    for (const char *at = word; *at; at++) {
        if (*at == '_' &&
            (at == word || !at[1] || !strchr(digits, at[-1]) || !strchr(digits, at[1])))
            return false;
        if (*at != '_')
            to[size++] = *at;
    }
    to[size] = '\0';
    return true;
}

static const char *unsigned_part(const char *word)
{
    return *word == '+' || *word == '-' ? word + 1 : word;
}

/* 0x…, 0o…, 0b… */
static bool parse_based(const char *word, json_t **to)
{
    static const struct {
        const char *prefix, *digits;
        int base;
    } bases[] = {{"0x", "0123456789abcdefABCDEF", 16}, {"0o", "01234567", 8}, {"0b", "01", 2}};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (strncmp(word, bases[i].prefix, 2) != 0)
            continue;
        if (!word[2] || word[2 + strspn(word + 2, bases[i].digits)])
            return false;
        errno = 0;
        long long number = strtoll(word + 2, NULL, bases[i].base);
        if (errno)
            return false;
        *to = json_integer(number);
        return true;
    }
    return false;
}

/* Digits, one point with digits on both sides, an exponent; no zero in front.
 */
static bool parse_decimal(const char *word, json_t **to)
{
    const char *digits = unsigned_part(word);
    size_t whole = strspn(digits, "0123456789");
    if (whole == 0 || (whole > 1 && *digits == '0'))
        return false;
    const char *rest = digits + whole;
    errno = 0;
    if (!*rest) {
        *to = json_integer(strtoll(word, NULL, 10));
        return errno == 0;
    }
    if (*rest == '.') {
        size_t part = strspn(rest + 1, "0123456789");
        if (part == 0)
            return false;
        rest += 1 + part;
    }
    if (*rest == 'e' || *rest == 'E') {
        rest = unsigned_part(rest + 1);
        size_t part = strspn(rest, "0123456789");
        if (part == 0)
            return false;
        rest += part;
    }
    if (*rest)
        return false;
    *to = json_real(strtod(word, NULL)); /* NULL for what is too large */
    return *to != NULL;
}

/* A pattern where 0 stands for a digit, matched at the beginning. */
static const char *match(const char *text, const char *pattern)
{
    for (; *pattern; text++, pattern++) {
        bool fits = *pattern == '0' ? isdigit((unsigned char)*text) : *text == *pattern;
        if (!fits)
            return NULL;
    }
    return text;
}

static bool is_time(const char *text)
{
    const char *rest = match(text, "00:00:00");
    if (rest && *rest == '.')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (rest && (*rest == 'Z' || *rest == 'z'))
        return rest[1] == '\0';
    if (rest && (*rest == '+' || *rest == '-'))
        rest = match(rest + 1, "00:00");
    return rest && *rest == '\0';
}

static bool is_date(const char *text)
{
    const char *rest = match(text, "0000-00-00");
    if (!rest)
        return is_time(text);
    return *rest == '\0' || (strchr("Tt ", *rest) && is_time(rest + 1));
}

/* The characters up to what ends a value. A date and its time may be parted by
 * one space. */
static size_t word_here(const struct toml *toml, char to[WORD_MAX])
{
    size_t size = 0;
    for (char c; size < WORD_MAX - 1 && (c = toml_peek(toml, size)) != '\0'; size++) {
        bool of_date = c == ' ' && size == 10 && match(to, "0000-00-00") &&
                       isdigit((unsigned char)toml_peek(toml, size + 1));
        if (!isalnum((unsigned char)c) && !strchr("+-_.:", c) && !of_date)
            break;
        to[size] = c;
        to[size + 1] = '\0';
    }
    to[size] = '\0';
    return size;
}

static bool is_special(const char *word)
{
    const char *name = unsigned_part(word);
    return strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0;
}

int toml_scalar(struct toml *toml, json_t **to)
{
    char word[WORD_MAX], digits[WORD_MAX];
    size_t start = toml->at, size = word_here(toml, word);
    if (size == 0)
        return toml_error(toml, start, "a value is expected");
    *to = NULL;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        *to = json_boolean(*word == 't');
    else if (is_special(word) || is_date(word))
        *to = json_string(word);
    else if (!take_digits(word, digits) ||
             (!parse_based(digits, to) && !parse_decimal(digits, to)) || !*to) {
        json_decref(*to);
        *to = NULL;
        return toml_error(toml, start, "'%s' is no value; strings need quotes", word);
    }
    toml->at += size;
    return *to ? 0 : toml_error(toml, start, "out of memory");
}

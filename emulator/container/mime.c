#include "container/mime.h"

#include <ctype.h>
#include <string.h>

#define OFFICE "application/vnd.openxmlformats-officedocument."
#define OPEN "application/vnd.oasis.opendocument."
#define MIME_PLAIN "text/plain"

/* As the original's runtime (Bun 1.3.12) was seen to report them. Several of these surprise (rs, sql,
 * tex, bat, pl, json5); clients see them that way. */
static const struct {
    const char *extensions; /* separated by spaces */
    const char *type;
} table[] = {
    {"txt text log ini conf", MIME_PLAIN},
    {"md markdown", "text/markdown"},
    {"html htm", "text/html"},
    {"css", "text/css"},
    {"js mjs cjs jsx ts tsx mts cts", "text/javascript"},
    {"json map", "application/json"},
    {"json5", "application/json5"},
    {"jsonld", "application/ld+json"},
    {"geojson", "application/geo+json"},
    {"webmanifest", "application/manifest+json"},
    {"xml", "application/xml"},
    {"xhtml", "application/xhtml+xml"},
    {"xsl xslt", "application/xslt+xml"},
    {"atom", "application/atom+xml"},
    {"rss", "application/rss+xml"},
    {"wsdl", "application/wsdl+xml"},
    {"gpx", "application/gpx+xml"},
    {"kml", "application/vnd.google-earth.kml+xml"},
    {"csv", "text/csv"},
    {"tsv", "text/tab-separated-values"},
    {"ics", "text/calendar"},
    {"vcf", "text/x-vcard"},
    {"yaml yml", "text/yaml"},
    {"toml", "application/toml"},
    {"sh", "application/x-sh"},
    {"c h cc cpp", "text/x-c"},
    {"java", "text/x-java-source"},
    {"lua", "text/x-lua"},
    {"php", "application/x-httpd-php"},
    {"pl", "application/x-perl"},
    {"rtf", "text/rtf"},
    {"svg", "image/svg+xml"},
    {"rs", "application/rls-services+xml"},
    {"sql", "application/x-sql"},
    {"tex", "application/x-tex"},
    {"bat exe dll", "application/x-msdownload"},
    {"png", "image/png"},
    {"apng", "image/apng"},
    {"jpg jpeg", "image/jpeg"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"avif", "image/avif"},
    {"heic", "image/heic"},
    {"heif", "image/heif"},
    {"bmp", "image/x-ms-bmp"},
    {"tif tiff", "image/tiff"},
    {"ico", "image/x-icon"},
    {"psd", "image/vnd.adobe.photoshop"},
    {"pdf", "application/pdf"},
    {"ps eps ai", "application/postscript"},
    {"epub", "application/epub+zip"},
    {"zip", "application/zip"},
    {"gz", "application/gzip"},
    {"bz2", "application/x-bzip2"},
    {"xz", "application/x-xz"},
    {"7z", "application/x-7z-compressed"},
    {"tar", "application/x-tar"},
    {"jar", "application/java-archive"},
    {"class", "application/java-vm"},
    {"deb", "application/x-debian-package"},
    {"rpm", "application/x-redhat-package-manager"},
    {"iso", "application/x-iso9660-image"},
    {"dmg", "application/x-apple-diskimage"},
    {"apk", "application/vnd.android.package-archive"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
    {"mov", "video/quicktime"},
    {"avi", "video/x-msvideo"},
    {"mkv", "video/x-matroska"},
    {"mpg", "video/mpeg"},
    {"3gp", "video/3gpp"},
    {"mp3", "audio/mpeg"},
    {"wav", "audio/x-wav"},
    {"ogg opus", "audio/ogg"},
    {"weba", "audio/webm"},
    {"m4a", "audio/x-m4a"},
    {"aac", "audio/x-aac"},
    {"flac", "audio/x-flac"},
    {"mid midi", "audio/midi"},
    {"wasm", "application/wasm"},
    {"swf", "application/x-shockwave-flash"},
    {"torrent", "application/x-bittorrent"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"ttf", "font/ttf"},
    {"otf", "font/otf"},
    {"eot", "application/vnd.ms-fontobject"},
    {"doc", "application/msword"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", OFFICE "spreadsheetml.sheet"},
    {"docx", OFFICE "wordprocessingml.document"},
    {"pptx", OFFICE "presentationml.presentation"},
    {"odt", OPEN "text"},
    {"ods", OPEN "spreadsheet"},
    {"odp", OPEN "presentation"},
};

/* Types outside text/ whose content is text all the same. */
static const char *const text_types[] = {
    "application/ecmascript",    "application/javascript",
    "application/json",          "application/json-seq",
    "application/rtf",           "application/sql",
    "application/toml",          "application/typescript",
    "application/x-empty",       "application/x-httpd-php",
    "application/x-javascript",  "application/x-sh",
    "application/x-shellscript", "application/x-typescript",
    "application/x-yaml",        "application/xml",
    "application/xml-dtd",       "application/xml-external-parsed-entity",
    "application/yaml",          MIME_EMPTY,
};

static bool listed(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; *at;) {
        size_t size = strcspn(at, " ");
        if (size == length && memcmp(at, word, size) == 0)
            return true;
        at += size + (at[size] == ' ');
    }
    return false;
}

const char *mime_by_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name || !dot[1]) /* ".json" is a name without an extension */
        return MIME_UNKNOWN;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (listed(table[i].extensions, dot + 1))
            return table[i].type;
    }
    return MIME_UNKNOWN;
}

/* The types that the original gives with a character set where it does not strip it. */
const char *mime_with_charset(const char *type)
{
    static const struct {
        const char *type, *full;
    } rows[] = {
        {MIME_PLAIN, MIME_PLAIN ";charset=utf-8"},
        {"text/html", "text/html;charset=utf-8"},
        {"text/css", "text/css;charset=utf-8"},
        {"text/javascript", "text/javascript;charset=utf-8"},
        {"application/json", "application/json;charset=utf-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].type, type) == 0)
            return rows[i].full;
    }
    return type;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

bool mime_is_text(const char *type)
{
    if (strncmp(type, "text/", 5) == 0 || ends_with(type, "+json") || ends_with(type, "+xml"))
        return true;
    for (size_t i = 0; i < sizeof text_types / sizeof *text_types; i++) {
        if (strcmp(type, text_types[i]) == 0)
            return true;
    }
    return false;
}

/* How many bytes the UTF-8 sequence at `at` takes; 0 when it is none, -1 when it is cut off. */
static int sequence(const unsigned char *at, size_t left)
{
    int size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] > 0xf4)
        return 0;
    for (int i = 1; i < size; i++) {
        if ((size_t)i >= left)
            return -1;
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

const char *mime_sniff(const char *data, size_t size)
{
    enum { LOOK_AT = 64 * 1024 };
    if (size == 0)
        return MIME_EMPTY;
    bool cut = size > LOOK_AT;
    const unsigned char *at = (const unsigned char *)data;
    const unsigned char *end = at + (cut ? LOOK_AT : size);
    while (at < end) {
        /* The control characters that texts have: BEL to CR, and ESC. */
        if (*at == 0x7f || (*at < 0x20 && !(*at >= 7 && *at <= 13) && *at != 27))
            return MIME_UNKNOWN;
        int step = sequence(at, (size_t)(end - at));
        if (step < 0 && cut)
            break;
        if (step <= 0)
            return MIME_UNKNOWN;
        at += step;
    }
    return MIME_PLAIN;
}

bool mime_parse(const char *text, size_t size, char *type, size_t room)
{
    size_t used = 0;
    bool slash = false;
    while (used < size && (isalnum((unsigned char)text[used]) || strchr("/.+-_", text[used]))) {
        if (text[used] == '\0' || used + 1 >= room)
            return false;
        slash |= text[used] == '/' && used > 0;
        type[used] = text[used];
        used++;
    }
    type[used] = '\0';
    return slash && (used == size || text[used] == ';' || text[used] == '\n');
}

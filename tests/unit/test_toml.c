#include "greatest.h"

#include <string.h>

#include "base/cleanup.h"
#include "config/toml.h"

static const struct {
    const char *text;
    const char *compact; /* NULL: refused with `error` */
    const char *error;
} rows[] = {
    {"", "{}", NULL},
    {"\xEF\xBB\xBF# only\r\n\r\n", "{}", NULL},
    {"a = 1 # one\nb = 'x'", "{\"a\":1,\"b\":\"x\"}", NULL},
    {"a.b.c = 1\na.b.d = 2", "{\"a\":{\"b\":{\"c\":1,\"d\":2}}}", NULL},
    {"\"a b\" = 1\n'c.d' = 2\n\"\" = 3\n1-2_x = 4", "{\"\":3,\"1-2_x\":4,\"a b\":1,\"c.d\":2}",
     NULL},
    {"a . b = 1", "{\"a\":{\"b\":1}}", NULL},
    {"[t]\na=1\n[t.u]\nb=2\n[ v . w ]\n", "{\"t\":{\"a\":1,\"u\":{\"b\":2}},\"v\":{\"w\":{}}}",
     NULL},
    {"[t.u]\nb=2\n[t]\na=1", "{\"t\":{\"a\":1,\"u\":{\"b\":2}}}", NULL},
    {"[[l]]\na=1\n[[l]]\n[l.t]\nb=2\n[[l.m]]\nc=3",
     "{\"l\":[{\"a\":1},{\"m\":[{\"c\":3}],\"t\":{\"b\":2}}]}", NULL},
    {"a = [1, 2, # two\n 3,\n]\nb = []\nc = [[1], ['x', {y = 1}]]",
     "{\"a\":[1,2,3],\"b\":[],\"c\":[[1],[\"x\",{\"y\":1}]]}", NULL},
    {"a = { b = 1, c.d = 'x' }\nb = {}", "{\"a\":{\"b\":1,\"c\":{\"d\":\"x\"}},\"b\":{}}", NULL},
    {"a = {\n b = 1,\n}", "{\"a\":{\"b\":1}}", NULL},
    {"a = true\nb = false", "{\"a\":true,\"b\":false}", NULL},
    {"a = +1_000\nb = -0\nc = 0xdead_BEEF\nd = 0o17\ne = 0b101",
     "{\"a\":1000,\"b\":0,\"c\":3735928559,\"d\":15,\"e\":5}", NULL},
    {"a = 1.5\nb = -2e3\nc = 6.25E-1\nd = 1_0.5",
     "{\"a\":1.5,\"b\":-2000.0,\"c\":0.625,\"d\":10.5}", NULL},
    {"a = 2026-01-02\nb = 1979-05-27T07:32:00Z\nc = 1979-05-27 07:32:00.5+01:00\nd = 07:32:00",
     "{\"a\":\"2026-01-02\",\"b\":\"1979-05-27T07:32:00Z\","
     "\"c\":\"1979-05-27 07:32:00.5+01:00\",\"d\":\"07:32:00\"}",
     NULL},
    {"a = inf\nb = -nan", "{\"a\":\"inf\",\"b\":\"-nan\"}", NULL},
    {"a = \"t\\tq\\\"u\\u00e9U\\U0001F600\"\nb = 'c:\\d'",
     "{\"a\":\"t\\tq\\\"u\xC3\xA9U\xF0\x9F\x98\x80\",\"b\":\"c:\\\\d\"}", NULL},
    {"a = \"\"\"\nx\ny\\\n   z\"\"\"\nb = '''\n'q' \\n'''\nc = \"\"\"\"q\"\"\"\"\"",
     "{\"a\":\"x\\nyz\",\"b\":\"'q' \\\\n\",\"c\":\"\\\"q\\\"\\\"\"}", NULL},
    {"a = \"\"\nb = ''\nc = \"\"\"\"\"\"", "{\"a\":\"\",\"b\":\"\",\"c\":\"\"}", NULL},
    {"a", NULL, "f:1:2: = is expected after the key a"},
    {"= 1", NULL, "f:1:1: a key is expected"},
    {"a = ", NULL, "f:1:5: a value is expected"},
    {"a = 1 b = 2", NULL, "f:1:7: the line should end here"},
    {"a = 1\na = 2", NULL, "f:2:1: a is defined already"},
    {"a.b = 1\na = 2", NULL, "f:2:1: a is defined already"},
    {"a = 1\na.b = 2", NULL, "f:2:1: a is defined already"},
    {"[a]\n[a]", NULL, "f:2:2: a is defined already"},
    {"a.b = 1\n[a]", NULL, "f:2:2: a is defined already"},
    {"a = {b = 1}\n[a.c]", NULL, "f:2:2: a is defined already, and not as a table"},
    {"a = [{}]\n[[a]]", NULL, "f:2:3: a is defined already, and not with [[…]]"},
    {"[[a]]\n[a]", NULL, "f:2:2: a is defined already"},
    {"a = [1, 2", NULL, "f:1:5: the array does not end"},
    {"a = [1 2]", NULL, "f:1:8: a comma or ] is expected"},
    {"a = {b = 1", NULL, "f:1:5: the table does not end"},
    {"[a", NULL, "f:1:3: ] is expected"},
    {"[[a]", NULL, "f:1:4: ]] is expected"},
    {"[]", NULL, "f:1:2: a key is expected"},
    {"a = \"x\nb = 1", NULL, "f:1:7: the string does not end in its line"},
    {"a = \"x", NULL, "f:1:5: the string does not end"},
    {"a = '''x", NULL, "f:1:5: the string does not end"},
    {"a = \"\\q\"", NULL, "f:1:6: unknown escape in a string"},
    {"a = \"\\u12\"", NULL, "f:1:8: \\u needs 4 hexadecimal digits"},
    {"a = \"\\uD800\"", NULL, "f:1:8: this is no character"},
    {"a = \"\x01\"", NULL, "f:1:6: a control character in a string"},
    {"a = \"\xFF\"", NULL, "f:1:5: the string is not UTF-8"},
    {"a = 012", NULL, "f:1:5: '012' is no value; strings need quotes"},
    {"a = 1__0", NULL, "f:1:5: '1__0' is no value; strings need quotes"},
    {"a = 1e_5", NULL, "f:1:5: '1e_5' is no value; strings need quotes"},
    {"a = 1_", NULL, "f:1:5: '1_' is no value; strings need quotes"},
    {"[a.b.c]\n[a]\nb.c.d = 1", NULL, "f:3:3: c is defined already"},
    {"[a]\nb.c = 1\n[a.b]", NULL, "f:3:4: b is defined already"},
    {"[a]\nb.c = 1\n[a.b.d]", "{\"a\":{\"b\":{\"c\":1,\"d\":{}}}}", NULL},
    {"a = {b = {}, b.c = 1}", NULL, "f:1:14: b is defined already"},
    {"[[a.b]]\n[a]\nb.c = 1", NULL, "f:3:1: b is defined already"},
    {"a = 1.", NULL, "f:1:5: '1.' is no value; strings need quotes"},
    {"a = 9223372036854775808", NULL,
     "f:1:5: '9223372036854775808' is no value; strings need quotes"},
    {"a = 1e999", NULL, "f:1:5: '1e999' is no value; strings need quotes"},
    {"\n\n  main = src", NULL, "f:3:10: 'src' is no value; strings need quotes"},
    {"\"\\u0000\" = 1", NULL, "f:1:1: a key without NUL is expected"},
    {"a = @", NULL, "f:1:5: a value is expected"},
};

TEST toml_is_read_into_the_tree_of_json_and_errors_are_placed(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {0};
        const char *text = rows[i].text;
        CLEANUP_JSON json_t *value = toml_parse(text, strlen(text), "f", &err);
        if (!rows[i].compact) {
            ASSERTm(text, value == NULL);
            ASSERT_STR_EQm(text, rows[i].error, err.text);
            continue;
        }
        ASSERTm(err.text, value != NULL);
        CLEANUP_FREE char *compact = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
        ASSERT_STR_EQm(text, rows[i].compact, compact);
    }
    PASS();
}

TEST what_is_nested_without_end_or_without_number_is_refused(void)
{
    static char deep[20000], many[200000];
    struct error err = {0};
    memset(deep, '[', sizeof deep);
    memcpy(deep, "a = ", 4);
    CLEANUP_JSON json_t *value = toml_parse(deep, sizeof deep, "f", &err);
    ASSERT(!value && strstr(err.text, "nested too deeply"));
    for (size_t i = 0; i < sizeof deep; i += 2)
        memcpy(deep + i, "a.", 2);
    value = toml_parse(deep, sizeof deep, "f", &err);
    ASSERT(!value && strstr(err.text, "nested too deeply"));
    size_t size = 0;
    for (int i = 0; size < sizeof many - 16; i++)
        size += (size_t)snprintf(many + size, 16, "k%d=1\n", i);
    value = toml_parse(many, size, "f", &err);
    ASSERT(!value && strstr(err.text, "too many values"));
    PASS();
}

TEST toml_finds_where_a_value_stands(void)
{
    const char *text =
        "# é\n[[list]]\nk = 1\n[[list]]\nk = 'é'  # x\nt = { v = true, w.x = [1, 2] }\n"
        "[other.deep]\nz = 0\n";
    struct place_step path[] = {{.name = "list"}, {.index = 1}, {.name = "t"}, {.name = "v"}};
    struct place place = toml_locate(text, strlen(text), path, 4);
    ASSERT_EQ(6, place.line);
    ASSERT_EQ(11, place.column);
    place = toml_locate(text, strlen(text), path, 2);
    ASSERT_EQ(4, place.line);
    ASSERT_EQ(3, place.column);
    path[3].name = "none";
    ASSERT_EQ(0, toml_locate(text, strlen(text), path, 4).line);
    struct place_step deep[] = {{.name = "other"}, {.name = "deep"}, {.name = "z"}};
    place = toml_locate(text, strlen(text), deep, 3);
    ASSERT_EQ(8, place.line);
    ASSERT_EQ(5, place.column);
    PASS();
}

SUITE(toml)
{
    RUN_TEST(toml_is_read_into_the_tree_of_json_and_errors_are_placed);
    RUN_TEST(what_is_nested_without_end_or_without_number_is_refused);
    RUN_TEST(toml_finds_where_a_value_stands);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(toml);
    GREATEST_MAIN_END();
}

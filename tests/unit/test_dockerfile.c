#include "greatest.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "config/dockerfile.h"

static const struct {
    const char *text;
    const char *image; /* NULL: refused with `error` */
    const char *error;
} dockerfile_rows[] = {
    {"FROM a:1", "a:1", NULL},
    {"from a:1 as x\n", "a:1", NULL},
    {"# FROM no\n\n  FROM a:1 # not a comment here\n", NULL,
     "D:3:3: FROM takes an image and perhaps AS and a name"},
    {"FROM --platform=linux/amd64 a:1 AS x\r\nRUN true\r\n", "a:1", NULL},
    {"FROM \\\n  # why\n\n  --platform=$BUILDPLATFORM \\\n a:1\n", "a:1", NULL},
    {"ARG V=0.7.4\nFROM r/s:${V}\n", "r/s:0.7.4", NULL},
    {"ARG V=\"0.7.4\" W='x'\nFROM r/s:$V-$W\n", "r/s:0.7.4-x", NULL},
    {"ARG V\nFROM r/s:${V:-1.2}\n", "r/s:1.2", NULL},
    {"ARG V=\nFROM r/s:${V:-1.2}${V-3}\n", "r/s:1.2", NULL},
    {"ARG A=1\nARG B=${A}.5\nFROM r/s:${C:-${B}}\n", "r/s:1.5", NULL},
    {"ARG V=1\nFROM r/s:1${V:+-python}\n", "r/s:1-python", NULL},
    {"ARG B=a:1\nFROM $B AS base\nARG B=c:3\nFROM base\n", "a:1", NULL},
    {"FROM a:1 AS one\nFROM b:2 AS two\nFROM ONE\n", "a:1", NULL},
    {"FROM a:1 AS a\nFROM a AS b\nFROM b AS c\n", "a:1", NULL},
    {"FROM a:1\nRUN <<EOF\nFROM z:9\nEOF\nRUN echo <<<x\n", "a:1", NULL},
    {"FROM a:1\nCOPY <<-\"E\" /x\nFROM z:9\n\tE\n", "a:1", NULL},
    {"FROM a:1\nRUN echo \\\nFROM b:2\n", "a:1", NULL},
    {"# escape=`\nFROM `\n a:1\nCOPY x C:\\\nFROM b:2\n", "b:2", NULL},
    {"\xEF\xBB\xBF"
     "FROM a:1",
     "a:1", NULL},
    {"RUN true\n", NULL, "D:1:1: there is no FROM"},
    {"\n\nFROM\n", NULL, "D:3:1: FROM needs an image"},
    {"ARG V\nFROM $V\n", NULL, "D:2:1: FROM has an empty image: an ARG it uses has no default"},
    {"FROM ${V\n", NULL, "D:1:1: cannot read '${V'"},
    {"FROM a:${V?x}\n", NULL, "D:1:1: cannot read 'a:${V?x}'"},
    {"ARG V=2\nFROM a:${V?x}${V:?y}\n", "a:22", NULL},
    {"ARG V=v0.7.4-python\nFROM a:${V#v}\n", "a:0.7.4-python", NULL},
    {"ARG V=0.7.4-a-b\nFROM a:${V%-*}.${V%%-*}.${V#*.}.${V##*.}\n", "a:0.7.4-a.0.7.4.7.4-a-b.4-a-b",
     NULL},
    {"ARG V=a_b_c\nFROM ${V/_/-}:${V//_/.}\n", "a-b_c:a.b.c", NULL},
    {"FROM a:${V/x}\n", NULL, "D:1:1: cannot read 'a:${V/x}'"},
    {"FROM a AS on-amd64\nFROM b AS on-arm64\nFROM on-${TARGETARCH}\n", "a", NULL},
    {"FROM a:1\nRUN <<EOF\n  EOF\nFROM z:9\nEOF\n", "a:1", NULL},
    {"FROM a:1\nRUN echo $((1<<SHIFT)) 'x <<EOF'\nFROM b:2\n", "b:2", NULL},
    {"FROM a:1\nONBUILD RUN <<EOF\nFROM z:9\nEOF\n", "a:1", NULL},
    {"FROM a:1\n  RUN <<EOF\nx\n", NULL, "D:2:3: the here-document EOF does not end"},
    {"FROM a:1\nRUN echo \\\\\nFROM b:2\n", "b:2", NULL},
    {"FROM a:\\\n1\n", "a:1", NULL},
    {"", NULL, "D:1:1: there is no FROM"},
};

TEST dockerfile_gives_the_image_of_its_final_stage(void)
{
    for (size_t i = 0; i < sizeof dockerfile_rows / sizeof *dockerfile_rows; i++) {
        const char *text = dockerfile_rows[i].text;
        CLEANUP_DOCKERFILE struct dockerfile dockerfile = {0};
        struct error err = {0};
        int result = dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err);
        if (dockerfile_rows[i].image) {
            ASSERT_EQm(err.text, 0, result);
            ASSERT_STR_EQm(text, dockerfile_rows[i].image, dockerfile.image);
        } else {
            ASSERTm(text, result < 0);
            ASSERT_STR_EQm(text, dockerfile_rows[i].error, err.text);
        }
    }
    PASS();
}

/* The ports as "8080 9000-9010 53/udp", then "; comment LINE" or "; WORD LINE" for problems. */
static const struct {
    const char *text, *ports;
} expose_rows[] = {
    {"FROM a", ""},
    {"FROM a\nEXPOSE 8080", "8080"},
    {"FROM a\nexpose 8080 9000-9010/tcp 53/udp", "8080 9000-9010 53/udp"},
    {"FROM a\nEXPOSE 8080/TCP\nEXPOSE 8081", "8080 8081"},
    {"FROM a\nEXPOSE \\\n  8080 \\\n# why\n  8081\n", "8080 8081"},
    {"FROM a\nARG P=8080\nEXPOSE $P ${P}/udp", "8080 8080/udp"},
    {"FROM a\nENV P=8080\nARG P=1\nEXPOSE ${P}", "8080"},
    {"ARG P=8080\nFROM a\nEXPOSE $P", "; $P 3"},
    {"ARG P=8080\nFROM a\nARG P\nEXPOSE $P", "8080"},
    {"FROM a\nARG PORTS=\"80 443\"\nEXPOSE $PORTS", "80 443"},
    {"FROM a\nEXPOSE ${P:-8080}", "8080"},
    {"FROM a\nEXPOSE \"8080\"", "8080"},
    {"FROM a AS x\nEXPOSE 1\nFROM b\nEXPOSE 2", "2"},
    {"FROM a AS x\nEXPOSE 1\nFROM x AS y\nEXPOSE 2\nFROM y", "1 2"},
    {"FROM a AS x\nENV P=7\nFROM x\nEXPOSE $P", "7"},
    {"FROM a AS x\nARG P=7\nFROM x\nEXPOSE ${P:-8}", "7"},
    {"FROM a AS x\nARG P=7\nFROM b\nEXPOSE ${P:-8}", "8"},
    {"FROM a\nEXPOSE 80\\\n81", "8081"},
    {"FROM a\nONBUILD EXPOSE 1\nEXPOSE 2", "2"},
    {"# escape=`\nFROM a\nENV P=C:\\ Q=80\nEXPOSE `\n $Q", "80"},
    {"FROM a\nEXPOSE 8080  # local only", "8080; comment 2"},
    {"FROM a\nEXPOSE 8080 #x\nEXPOSE 1", "8080 1; comment 2"},
    {"FROM a\nEXPOSE # 8080", "; comment 2"},
    {"FROM a AS x\nEXPOSE 1 # x\nFROM x", "1; comment 2"},
    {"FROM a\nEXPOSE http", "; http 2"},
    {"FROM a\nEXPOSE 0 65536 80-70 80/icmp 80x 8-",
     "; 0 2; 65536 2; 80-70 2; 80/icmp 2; 80x 2; 8- 2"},
    {"FROM a\nRUN <<EOF\nEXPOSE 1\nEOF\nEXPOSE 2", "2"},
    {"FROM a\nRUN echo \\\nEXPOSE 1\n", ""},
    {"# EXPOSE 1\nFROM a\n# EXPOSE 2\n", ""},
};

static void describe(const struct dockerfile *dockerfile, char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < dockerfile->port_count; i++) {
        const struct dockerfile_ports *ports = &dockerfile->ports[i];
        used += (size_t)snprintf(to + used, size - used, "%s%u", i ? " " : "", ports->first);
        if (ports->last != ports->first)
            used += (size_t)snprintf(to + used, size - used, "-%u", ports->last);
        used += (size_t)snprintf(to + used, size - used, "%s", ports->tcp ? "" : "/udp");
    }
    for (size_t i = 0; i < dockerfile->note_count; i++) {
        const struct dockerfile_note *note = &dockerfile->notes[i];
        used += (size_t)snprintf(to + used, size - used, "; %s %d",
                                 note->problem == DOCKERFILE_COMMENT ? "comment" : note->text,
                                 note->line);
    }
}

TEST the_ports_are_those_of_the_final_stage_and_what_it_inherits(void)
{
    for (size_t i = 0; i < sizeof expose_rows / sizeof *expose_rows; i++) {
        const char *text = expose_rows[i].text;
        CLEANUP_DOCKERFILE struct dockerfile dockerfile;
        struct error err = {0};
        char ports[256];
        ASSERT_EQm(text, 0, dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err));
        describe(&dockerfile, ports, sizeof ports);
        ASSERT_STR_EQm(text, expose_rows[i].ports, ports);
    }
    PASS();
}

TEST a_port_is_exposed_when_a_tcp_range_holds_it(void)
{
    const char *text = "FROM a\nEXPOSE 9000-9010 53/udp 80\n";
    CLEANUP_DOCKERFILE struct dockerfile dockerfile;
    struct error err = {0};
    ASSERT_EQ(0, dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err));
    ASSERT(dockerfile_exposes(&dockerfile, 9000));
    ASSERT(dockerfile_exposes(&dockerfile, 9010));
    ASSERT(dockerfile_exposes(&dockerfile, 80));
    ASSERT_FALSE(dockerfile_exposes(&dockerfile, 9011));
    ASSERT_FALSE(dockerfile_exposes(&dockerfile, 53));
    ASSERT_EQ(2, dockerfile.ports[0].line);
    ASSERT_EQ(2, dockerfile.expose_line);
    ASSERT_EQ(1, dockerfile.from_line);
    PASS();
}

static const struct {
    const char *text;
    const char *env; /* compact JSON; NULL: refused with `error` */
    const char *error;
} env_rows[] = {
    {"FROM a", "{}", NULL},
    {"FROM a\nENV A=1 B=\"two words\" C='$A'", "{\"A\":\"1\",\"B\":\"two words\",\"C\":\"$A\"}",
     NULL},
    {"FROM a\nENV A the rest  of it", "{\"A\":\"the rest  of it\"}", NULL},
    {"FROM a\nENV A=b\\ c D=\\$x", "{\"A\":\"b c\",\"D\":\"$x\"}", NULL},
    {"FROM a\nENV A=1\nENV A=2 B=$A", "{\"A\":\"2\",\"B\":\"1\"}", NULL},
    {"FROM a AS x\nENV A=1\nFROM x\nENV B=${A}2", "{\"A\":\"1\",\"B\":\"12\"}", NULL},
    {"FROM a AS x\nENV A=1\nFROM b", "{}", NULL},
    {"FROM a\nENV PATH=/opt/bin:$PATH", "{\"PATH\":\"/opt/bin:${PATH}\"}", NULL},
    {"FROM a\nENV PATH=/a:$PATH\nENV PATH=/b:${PATH}", "{\"PATH\":\"/b:/a:${PATH}\"}", NULL},
    {"FROM a\nENV A=", "{\"A\":\"\"}", NULL},
    {"FROM a\nENV A={ B=1", "{\"A\":\"{\",\"B\":\"1\"}", NULL},
    {"# escape=`\nFROM a\nENV A=C:\\ B=x` y", "{\"A\":\"C:\\\\\",\"B\":\"x y\"}", NULL},
    {"FROM a\nENV A", NULL, "D:2:1: ENV takes NAME=value"},
    {"FROM a\nENV A=1 B", NULL, "D:2:1: ENV takes NAME=value"},
    {"FROM a\nENV =1", NULL, "D:2:1: ENV takes NAME=value"},
    {"FROM a\nENV A=\xFF", NULL, "D:2:1: a variable is not UTF-8"},
};

TEST the_variables_are_those_of_env_with_others_put_in(void)
{
    for (size_t i = 0; i < sizeof env_rows / sizeof *env_rows; i++) {
        const char *text = env_rows[i].text;
        CLEANUP_DOCKERFILE struct dockerfile dockerfile;
        struct error err = {0};
        int result = dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err);
        if (!env_rows[i].env) {
            ASSERTm(text, result < 0);
            ASSERT_STR_EQm(text, env_rows[i].error, err.text);
            continue;
        }
        ASSERT_EQm(text, 0, result);
        CLEANUP_FREE char *env = json_dumps(dockerfile.env, JSON_COMPACT | JSON_SORT_KEYS);
        ASSERT_STR_EQm(text, env_rows[i].env, env);
    }
    PASS();
}

static const struct {
    const char *text;
    bool python;
} python_rows[] = {
    {"FROM a\nRUN apt-get install -y python3-pip\n", true},
    {"FROM a\nRUN <<EOF\napt-get install -y python3\nEOF\n", true},
    {"FROM a\nCOPY --from=python:3.12 /usr/local /usr/local\n", true},
    {"FROM a AS x\nRUN install python\nFROM x\n", true},
    {"FROM a AS x\nRUN install python\nFROM b\n", false},
    {"FROM a\nCOPY --from=b python /x\n", false},
    {"FROM a\nRUN x\n", false},
};

TEST a_run_that_speaks_of_python_brings_it(void)
{
    for (size_t i = 0; i < sizeof python_rows / sizeof *python_rows; i++) {
        const char *text = python_rows[i].text;
        CLEANUP_DOCKERFILE struct dockerfile dockerfile;
        struct error err = {0};
        ASSERT_EQm(text, 0, dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err));
        ASSERT_EQm(text, python_rows[i].python, dockerfile.python);
    }
    PASS();
}

TEST more_ports_than_there_is_room_for_are_refused_not_forgotten(void)
{
    static char text[4096] = "FROM a\nEXPOSE";
    CLEANUP_DOCKERFILE struct dockerfile dockerfile, other;
    struct error err = {0};
    for (int i = 0; i < DOCKERFILE_PORTS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %d", 2000 + i);
    ASSERT_EQm(err.text, 0, dockerfile_read(text, strlen(text), "D", NULL, &dockerfile, &err));
    ASSERT(dockerfile_exposes(&dockerfile, 2000 + DOCKERFILE_PORTS_MAX - 1));
    snprintf(text + strlen(text), sizeof text - strlen(text), " 9000");
    ASSERT(dockerfile_read(text, strlen(text), "D", NULL, &other, &err) < 0);
    ASSERTm(err.text, strstr(err.text, "D:2:1: there are more than 256 ports"));
    PASS();
}

SUITE(dockerfile)
{
    RUN_TEST(dockerfile_gives_the_image_of_its_final_stage);
    RUN_TEST(the_ports_are_those_of_the_final_stage_and_what_it_inherits);
    RUN_TEST(a_port_is_exposed_when_a_tcp_range_holds_it);
    RUN_TEST(the_variables_are_those_of_env_with_others_put_in);
    RUN_TEST(a_run_that_speaks_of_python_brings_it);
    RUN_TEST(more_ports_than_there_is_room_for_are_refused_not_forgotten);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(dockerfile);
    GREATEST_MAIN_END();
}

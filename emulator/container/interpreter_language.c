#include "container/interpreter_language.h"

#include <string.h>

/* interpreter_drivers.S */
extern const char interpreter_python[], interpreter_python_end[];
extern const char interpreter_javascript[], interpreter_javascript_end[];

/* The driver comes through the memory at descriptor 9 once its size stands in the pipe at 8, so
 * that nothing of it is in the container's file system. A json.py of the user must not stand in for
 * the one that the driver imports: it puts the directory back on the path itself. */
static const char python_start[] =
    "import sys\n"
    "if sys.path[:1]==['']:del sys.path[0]\n"
    "import os;exec(compile(os.pread(9,int(os.read(8,64)),0),'<sandpit>','exec'),"
    "{'__name__':'sandpit'})";
static const char node_start[] =
    "const f=require('fs'),b=Buffer.alloc(64),n=Number(b.latin1Slice(0,f.readSync(8,b))),"
    "s=Buffer.alloc(n);f.readSync(9,s,0,n,0);require('vm').compileFunction(s.toString(),"
    "['require','language'],{filename:'sandpit'})(require,process.argv[1])";

static const char *const python_argv[] = {"python3", "-c", python_start, NULL};
static const char *const javascript_argv[] = {"node",     "--expose-internals", "-e",
                                              node_start, "javascript",         NULL};
static const char *const typescript_argv[] = {"node",     "--expose-internals", "-e",
                                              node_start, "typescript",         NULL};

static const struct language_row rows[] = {
    [LANGUAGE_PYTHON] = {"python", "python3", "PYTHON", python_argv, interpreter_python,
                         interpreter_python_end},
    [LANGUAGE_JAVASCRIPT] = {"javascript", "node", "JAVASCRIPT", javascript_argv,
                             interpreter_javascript, interpreter_javascript_end},
    [LANGUAGE_TYPESCRIPT] = {"typescript", "node", "TYPESCRIPT", typescript_argv,
                             interpreter_javascript, interpreter_javascript_end},
};

const struct language_row *language_row(enum language language)
{
    return &rows[language];
}

bool language_find(const char *name, enum language *language)
{
    static const struct {
        const char *name;
        enum language language;
    } names[] = {
        {"", LANGUAGE_PYTHON},
        {"python", LANGUAGE_PYTHON},
        {"python3", LANGUAGE_PYTHON},
        {"javascript", LANGUAGE_JAVASCRIPT},
        {"js", LANGUAGE_JAVASCRIPT},
        {"node", LANGUAGE_JAVASCRIPT},
        {"typescript", LANGUAGE_TYPESCRIPT},
        {"ts", LANGUAGE_TYPESCRIPT},
    };
    *language = LANGUAGE_PYTHON;
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) == 0) {
            *language = names[i].language;
            return true;
        }
    }
    return false;
}

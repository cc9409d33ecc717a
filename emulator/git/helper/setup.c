#include <stdlib.h>

#include "git/helper/helper.h"

/* The search paths of every kind of configuration lead nowhere, here and in the container. */
static void forget_configuration(void)
{
    static const git_config_level_t levels[] = {GIT_CONFIG_LEVEL_PROGRAMDATA,
                                                GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
                                                GIT_CONFIG_LEVEL_GLOBAL};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "") < 0)
            fatal_git("configuration");
    }
}

void setup_libgit2(void)
{
    if (git_libgit2_init() < 0)
        fatal_git("libgit2");
    forget_configuration();
    git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "");
    /* Whose repository it is does not matter to a reader that executes nothing of it. */
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECTS, (size_t)20000000);
#ifdef HAVE_PACK_MAX_OBJECT_SIZE
    git_libgit2_opts(GIT_OPT_SET_PACK_MAX_OBJECT_SIZE, (size_t)1 << 30);
#endif
    /* The indexer has checked what a server sent; git does not check again either. */
    git_libgit2_opts(GIT_OPT_ENABLE_STRICT_HASH_VERIFICATION, 0);
}

/* Reading a directory of certificates takes 100 ms, so that only those who need them do it. */
void setup_certificates(void)
{
    const char *file = getenv("SSL_CERT_FILE"), *dir = getenv("SSL_CERT_DIR");
    if ((file || dir) && git_libgit2_opts(GIT_OPT_SET_SSL_CERT_LOCATIONS, file, dir) < 0)
        fatal_git("certificates");
}

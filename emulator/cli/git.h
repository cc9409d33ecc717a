/* What clones need, from the options and the project's configuration. */
#ifndef SANDPIT_CLI_GIT_H
#define SANDPIT_CLI_GIT_H

#include "cli/options.h"
#include "config/wrangler.h"
#include "git/clone.h"

struct git_options {
    struct opt_list mirrors; /* --git-mirror PREFIX=DIR */
    bool ssh_agent;          /* --git-ssh-agent */
};

#define GIT_OPTION_ROWS(OPTIONS)                                                                   \
    OPT_LIST("git-mirror", 0, &(OPTIONS)->mirrors, "PREFIX=DIR",                                   \
             "clone URLs with PREFIX from bare repositories below DIR"),                           \
        OPT_FLAG("git-ssh-agent", 0, &(OPTIONS)->ssh_agent,                                        \
                 "let clones over ssh use your ssh agent")

/* Options come before the configuration. `run_dir` may be NULL where nothing is cloned. */
int git_settings_make(struct git_settings *settings, const struct git_options *options,
                      const struct project *project, const char *run_dir, struct error *err);
void git_settings_free(struct git_settings *settings);

#endif

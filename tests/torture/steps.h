/* The scripted session: what is done while calls fail, and how a good answer is checked. */
#ifndef SANDPIT_TORTURE_STEPS_H
#define SANDPIT_TORTURE_STEPS_H

#include "support.h"

struct step {
    const char *name;
    const char *path; /* of a GET when there is no body; %d is the number of the try */
    const char *body;
    /* Brings the emulator to where the step starts; NULL = a sandbox that runs. */
    void (*prepare)(const struct emulator *emulator, int number);
    /* After an answer with 2xx: NULL, or what is not so. */
    const char *(*check)(const struct emulator *emulator, const struct reply *reply, int number);
    /* Puts back what the step may have done; may be NULL. */
    void (*undo)(const struct emulator *emulator, int number);
};

/* As the body: a GET that asks for a tunnel. Then 101 is a good answer. */
extern const char step_upgrade[];

/* Each ends with a step without name. */
extern const struct step steps[], process_steps[];

struct reply step_run(const struct emulator *emulator, const struct step *step, int number);
/* Whether the sandbox that all steps use runs a command, in a session and without; else why not. */
const char *steps_sandbox_works(const struct emulator *emulator);
/* Files that the steps read. */
bool steps_prepare(const struct emulator *emulator);

#endif

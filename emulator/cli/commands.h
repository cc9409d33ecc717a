/* The subcommands, one file each. argv[0] is the subcommand's name; the result is the exit code:
 * 0, 1 when it failed, 2 when it was called wrongly. */
#ifndef SANDPIT_CLI_COMMANDS_H
#define SANDPIT_CLI_COMMANDS_H

int cmd_dev(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_clock(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_fault(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_reset(int argc, char **argv);
int cmd_state(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_destroy(int argc, char **argv);
int cmd_replace(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_demo(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_git(int argc, char **argv);
int cmd_methods(int argc, char **argv);

#endif

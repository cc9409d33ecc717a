/* What the SDK makes of the container's answers about processes. */
#ifndef SANDPIT_WORKER_PROCESS_SHAPES_H
#define SANDPIT_WORKER_PROCESS_SHAPES_H

#include "worker/methods.h"

shape_function shape_process_started, shape_process, shape_process_list, shape_process_logs,
    shape_killed_count, shape_cleaned_count;

#endif

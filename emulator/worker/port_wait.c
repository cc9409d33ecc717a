#include "worker/port_wait.h"

void port_wait_begin(struct port_wait *wait)
{
    struct object_port_wait how = object_port_wait(wait->object);
    if (!object_is_healthy(wait->object))
        wait->until_ns = loop_now_ns() + MS_NS(how.timeout_ms);
}

bool port_wait_more(struct port_wait *wait, const struct answer *answer, const char *what)
{
    if (answer->code != CODE_SERVICE_NOT_RESPONDING || loop_now_ns() >= wait->until_ns)
        return false;
    if (!wait->hold->object && object_hold(wait->object, wait->hold, what) < 0)
        return false;
    struct object_port_wait how = object_port_wait(wait->object);
    return loop_arm(wait->loop, &wait->again, MS_NS(how.interval_ms)) == 0;
}

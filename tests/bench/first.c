/* The static program of the bare chain: its first instruction is seen as one byte. */
#include <unistd.h>

int main(void)
{
    return write(STDOUT_FILENO, "1", 1) == 1 ? 0 : 1;
}

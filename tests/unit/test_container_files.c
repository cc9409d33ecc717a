#include "container_client.h"
int main(void) { return 0; }

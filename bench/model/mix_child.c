/* mix_child TURNS: so many turns of a loop that nothing can shorten, and out. The child of an item of mix_worker.py. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int n_arguments, char **arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a layout that is stopped leaves nothing */
    unsigned long turns = n_arguments > 1 ? strtoul(arguments[1], NULL, 10) : 0;
    uint64_t x = turns;
    for (unsigned long turn = 0; turn < turns; turn++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        __asm__ volatile("" : "+r"(x)); /* every turn is made: the compiler may not know what it gives */
    }
    return 0;
}

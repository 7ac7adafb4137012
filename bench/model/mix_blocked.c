/* A wait in state D, as the load average counts it, without a disk: the parent of a vfork waits so until its child
 * is gone. The child runs on the parent's memory, so it sleeps and ends by bare system calls, and touches nothing. */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Returns 0, or the errno of what failed. To be called without the GIL (ctypes.CDLL lets go of it). */
int wait_blocked(double seconds)
{
    struct timespec wait;
    wait.tv_sec = (time_t)seconds;
    wait.tv_nsec = (long)((seconds - (double)wait.tv_sec) * 1e9);
    pid_t child = vfork();
    if (child < 0)
        return errno;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a layout that is stopped leaves nothing */
        nanosleep(&wait, NULL);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

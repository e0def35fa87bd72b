/* A clock that is off, for a server that is started with this in LD_PRELOAD: RL_LAB_CLOCK_MS is how many
 * milliseconds it is ahead. Only the time of day moves; what is measured with the monotonic clock does not.
 *
 * Raw system calls and nothing of a C library but `environ` and `errno`, so that one file serves servers
 * that are linked to glibc and to musl, of any version. */

struct timespec64 {
    long seconds;
    long nanoseconds;
};

struct timeval64 {
    long seconds;
    long microseconds;
};

enum { REALTIME = 0, REALTIME_COARSE = 5 };

extern char **environ;
extern int *__errno_location(void);

static long now(long clock, struct timespec64 *at) {
#if defined(__x86_64__)
    long outcome;
    __asm__ volatile("syscall"
                     : "=a"(outcome)
                     : "a"(228L), "D"(clock), "S"(at)
                     : "rcx", "r11", "memory");
    return outcome;
#elif defined(__aarch64__)
    register long number __asm__("x8") = 113;
    register long first __asm__("x0") = clock;
    register void *second __asm__("x1") = at;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
    return first;
#else
#error "this processor's system calls are not known here"
#endif
}

static long from_environment(void) {
    static const char name[] = "RL_LAB_CLOCK_MS=";
    for (char **variable = environ; variable && *variable; variable++) {
        const char *text = *variable;
        int i = 0;
        while (name[i] && text[i] == name[i]) i++;
        if (name[i]) continue;
        long sign = text[i] == '-' ? -1 : 1;
        if (text[i] == '-' || text[i] == '+') i++;
        long ms = 0;
        for (; text[i] >= '0' && text[i] <= '9'; i++) ms = ms * 10 + (text[i] - '0');
        return sign * ms;
    }
    return 0;
}

/* Read once: a server may move its environment later. Two threads that read it at once read the same. */
static long offset(void) {
    static volatile int read;
    static volatile long ms;
    if (!read) {
        ms = from_environment();
        read = 1;
    }
    return ms;
}

int clock_gettime(int clock, struct timespec64 *at) {
    long outcome = now(clock, at);
    if (outcome < 0) {
        *__errno_location() = (int)-outcome;
        return -1;
    }
    if (clock == REALTIME || clock == REALTIME_COARSE) {
        long ms = offset();
        at->seconds += ms / 1000;
        at->nanoseconds += ms % 1000 * 1000000;
        if (at->nanoseconds < 0) {
            at->nanoseconds += 1000000000;
            at->seconds--;
        } else if (at->nanoseconds >= 1000000000) {
            at->nanoseconds -= 1000000000;
            at->seconds++;
        }
    }
    return 0;
}

int gettimeofday(struct timeval64 *at, void *zone) {
    struct timespec64 exact;
    (void)zone;
    if (clock_gettime(REALTIME, &exact) != 0) return -1;
    if (at) {
        at->seconds = exact.seconds;
        at->microseconds = exact.nanoseconds / 1000;
    }
    return 0;
}

long time(long *at) {
    struct timespec64 exact;
    if (clock_gettime(REALTIME, &exact) != 0) return -1;
    if (at) *at = exact.seconds;
    return exact.seconds;
}

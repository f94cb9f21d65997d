/* A date that steps: loaded into a process before the C library (LD_PRELOAD), it adds to the clock that tells the date the
   nanoseconds at the start of the file that STEPPED_CLOCK names, whatever they are at the moment. Monotonic clocks go on. Waits
   until a date of the stepped clock end when that clock gets there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t none = 0;
static const volatile int64_t *step = &none;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("STEPPED_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) step = found;
}

static void move(struct timespec *time, int64_t by) {
    int64_t at = time->tv_sec * SECOND + time->tv_nsec + by;
    time->tv_sec = at / SECOND;
    time->tv_nsec = at % SECOND;
}

static int dates(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI; }

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, time);
    if (!failed && dates(clock)) move(time, *step);
    return failed;
}

int timespec_get(struct timespec *time, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, time) ? base : 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

/* Monotonic deadlines are seconds since the machine was booted: none comes near the date. */
static struct timespec unstepped(const struct timespec *until) {
    struct timespec at = *until;
    if (at.tv_sec > 900000000) move(&at, -*step);
    return at;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    struct timespec at = flags & TIMER_ABSTIME && dates(clock) ? unstepped(until) : *until;
    return syscall(SYS_clock_nanosleep, clock, flags, &at, left) ? errno : 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    /* The plain name may find a version that is incompatible with today's condition variables. */
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec at = unstepped(until);
    return real(condition, mutex, &at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    struct timespec at = unstepped(until);
    return real(mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec at = unstepped(until);
    return real(semaphore, &at);
}

/* The C library's threads do not come by the functions above; librdkafka waits by these. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(cnd_t *, mtx_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec at = unstepped(until);
    return real(condition, mutex, &at);
}

int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(mtx_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "mtx_timedlock");
    struct timespec at = unstepped(until);
    return real(mutex, &at);
}

/* Sits between a node and its machine: controls the disk and the clocks of one process for the harness.
 *
 * Loaded with LD_PRELOAD. The two sides share only one file: it has the settings, the counters of what was seen, and a table
 * with the length of each file at its last sync. A folder next to it keeps the files of removed names whose folders were not
 * synced since. The offsets are those of shim.rs. The library never reports a sync that was not done, and never answers in
 * place of the disk.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 131072
#define TABLE_AT 4096
#define SECOND 1000000000LL

struct page {
    _Atomic uint64_t sync_delay_us;
    _Atomic uint64_t sync_held;
    _Atomic uint64_t disk_full;
    /* Odd while the five fields below are being changed. */
    _Atomic uint64_t clock_round;
    _Atomic int64_t wall_offset;
    _Atomic int64_t wall_frozen_at;
    _Atomic int64_t drift_since;
    _Atomic int64_t drift_before;
    _Atomic int64_t drift_ppm;
    _Atomic uint64_t making_held;
    uint64_t unused[6];
    /* The fields from here on are written by the process. */
    _Atomic uint64_t syncs;
    _Atomic uint64_t syncs_delayed;
    _Atomic uint64_t syncs_waiting;
    _Atomic uint64_t writes_refused;
    _Atomic uint64_t wall_reads_shifted;
    _Atomic uint64_t steady_reads_drifted;
    _Atomic int64_t drift_seen;
    _Atomic uint64_t table_full;
    _Atomic uint64_t loaded;
};

struct slot {
    _Atomic uint64_t key;
    _Atomic uint64_t size;
    _Atomic int64_t synced_at;
    uint64_t unused;
};

static struct page none;
static struct page *page = &none;
static struct slot *slots;
static char data_folder[PATH_MAX];
static char grave_folder[PATH_MAX - 64];
static size_t data_length;
static struct in_addr source;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_linkat)(int, const char *, int, const char *, int);
static int (*real_renameat2)(int, const char *, int, const char *, unsigned);
static int (*real_connect)(int, const struct sockaddr *, socklen_t);
static long (*real_syscall)(long, ...);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

#define FIND(what)                                                                                                             \
    do {                                                                                                                       \
        if (!real_##what) *(void **)&real_##what = dlsym(RTLD_NEXT, #what);                                                    \
    } while (0)

__attribute__((constructor)) static void load(void) {
    FIND(clock_gettime);
    FIND(fsync);
    FIND(fdatasync);
    FIND(write);
    FIND(pwrite);
    FIND(writev);
    FIND(pwritev);
    FIND(fallocate);
    FIND(openat);
    FIND(unlinkat);
    FIND(linkat);
    FIND(renameat2);
    FIND(connect);
    FIND(syscall);
    /* This symbol has two versions; the older one uses another structure. */
    *(void **)&real_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond_timedwait) *(void **)&real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    *(void **)&real_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");

    const char *folder = getenv("JEPSEN_DATA");
    const char *control = getenv("JEPSEN_CONTROL");
    const char *from = getenv("JEPSEN_SOURCE");
    if (from) inet_pton(AF_INET, from, &source);
    if (!folder || !control || strlen(folder) >= sizeof data_folder) return;
    strcpy(data_folder, folder);
    data_length = strlen(folder);
    int fd = open(control, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *all = mmap(NULL, TABLE_AT + SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (all == MAP_FAILED) return;
    slots = (struct slot *)((char *)all + TABLE_AT);
    if (snprintf(grave_folder, sizeof grave_folder, "%s.graves", control) >= (int)sizeof grave_folder) grave_folder[0] = 0;
    page = all;
    atomic_fetch_add(&page->loaded, 1);
}

/* Clocks. */

static int64_t read_real(clockid_t clock) {
    struct timespec now;
    if (real_clock_gettime)
        real_clock_gettime(clock, &now);
    else
        syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

struct shift {
    int64_t offset, frozen_at, since, before, ppm;
};

static struct shift shift_now(void) {
    for (;;) {
        uint64_t round = atomic_load_explicit(&page->clock_round, memory_order_acquire);
        struct shift shift = {
            atomic_load_explicit(&page->wall_offset, memory_order_relaxed),
            atomic_load_explicit(&page->wall_frozen_at, memory_order_relaxed),
            atomic_load_explicit(&page->drift_since, memory_order_relaxed),
            atomic_load_explicit(&page->drift_before, memory_order_relaxed),
            atomic_load_explicit(&page->drift_ppm, memory_order_relaxed),
        };
        atomic_thread_fence(memory_order_acquire);
        if (!(round & 1) && round == atomic_load_explicit(&page->clock_round, memory_order_relaxed)) return shift;
    }
}

/* How far the wall clock is ahead of the real one. */
static int64_t wall_ahead(int64_t real) {
    struct shift shift = shift_now();
    return shift.frozen_at ? shift.frozen_at - real : shift.offset;
}

/* How far the monotonic clocks are ahead of the real ones. */
static int64_t steady_ahead(int64_t real) {
    struct shift shift = shift_now();
    return shift.before + (shift.ppm ? (real - shift.since) / 1000 * shift.ppm / 1000 : 0);
}

static int is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static int is_steady(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW ||
           clock == CLOCK_BOOTTIME;
}

static struct timespec spec_of(int64_t nanos) {
    struct timespec spec = {nanos / SECOND, nanos % SECOND};
    if (spec.tv_nsec < 0) {
        spec.tv_nsec += SECOND;
        spec.tv_sec -= 1;
    }
    return spec;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    FIND(clock_gettime);
    int failed = real_clock_gettime(clock, out);
    if (failed) return failed;
    int64_t now = out->tv_sec * SECOND + out->tv_nsec;
    if (is_wall(clock)) {
        int64_t ahead = wall_ahead(now);
        if (ahead) {
            atomic_fetch_add_explicit(&page->wall_reads_shifted, 1, memory_order_relaxed);
            *out = spec_of(now + ahead);
        }
    } else if (is_steady(clock)) {
        int64_t ahead = steady_ahead(now);
        if (ahead) {
            atomic_fetch_add_explicit(&page->steady_reads_drifted, 1, memory_order_relaxed);
            atomic_store_explicit(&page->drift_seen, ahead, memory_order_relaxed);
            *out = spec_of(now + ahead);
        }
    }
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *out, int base) {
    if (base != TIME_UTC) return 0;
    clock_gettime(CLOCK_REALTIME, out);
    return base;
}

/* Converts a deadline on the shown clocks to one on the kernel's clocks. */
static struct timespec real_deadline(clockid_t clock, const struct timespec *shown) {
    int64_t now = read_real(clock);
    int64_t ahead = is_wall(clock) ? wall_ahead(now) : steady_ahead(now);
    if (!ahead) return *shown;
    int64_t at = shown->tv_sec * SECOND + shown->tv_nsec - ahead;
    return spec_of(at > 0 ? at : 0);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec real = real_deadline(CLOCK_REALTIME, until);
    return real_cond_timedwait(cond, mutex, &real);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    struct timespec real = real_deadline(clock, until);
    return real_cond_clockwait(cond, mutex, clock, &real);
}

/* Rust's locks wait with this call, with absolute deadlines. */
long syscall(long number, ...) {
    FIND(syscall);
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    struct timespec real;
    if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && d) {
        clockid_t clock = b & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
        real = real_deadline(clock, (const struct timespec *)d);
        d = (long)&real;
    }
    return real_syscall(number, a, b, c, d, e, f);
}

/* The disk. */

static void rest_real(uint64_t micros) {
    struct timespec rest = {micros / 1000000, micros % 1000000 * 1000};
    real_syscall(SYS_nanosleep, &rest, NULL, 0L, 0L, 0L, 0L);
}

/* Whether the file belongs to a snapshot that this node takes of its own state. */
static int is_of_making(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)data_length) return 0;
    path[length] = 0;
    return !strncmp(path, data_folder, data_length) && strstr(path + data_length, "/making");
}

static void dawdle(int fd) {
    if (atomic_load(&page->making_held) && is_of_making(fd)) {
        atomic_fetch_add(&page->syncs_delayed, 1);
        atomic_fetch_add(&page->syncs_waiting, 1);
        while (atomic_load(&page->making_held)) rest_real(1000);
        atomic_fetch_sub(&page->syncs_waiting, 1);
    }
    uint64_t delay = atomic_load(&page->sync_delay_us);
    if (!delay && !atomic_load(&page->sync_held)) return;
    atomic_fetch_add(&page->syncs_delayed, 1);
    atomic_fetch_add(&page->syncs_waiting, 1);
    if (delay) rest_real(delay);
    while (atomic_load(&page->sync_held)) rest_real(1000);
    atomic_fetch_sub(&page->syncs_waiting, 1);
}

static struct slot *slot_of(uint64_t key, int is_new) {
    for (uint64_t probe = 0; probe < 4096; probe++) {
        struct slot *slot = &slots[(key + probe) % SLOTS];
        uint64_t found = atomic_load(&slot->key);
        if (!found && !is_new) return NULL;
        if (!found) {
            uint64_t empty = 0;
            found = atomic_compare_exchange_strong(&slot->key, &empty, key) ? key : empty;
        }
        if (found == key) return slot;
    }
    return NULL;
}

/* Inode numbers are used again after a file is deleted, so the key of a file includes its creation time. */
static uint64_t key_of(const struct statx *about) {
    uint64_t born = about->stx_mask & STATX_BTIME ? about->stx_btime.tv_sec * SECOND + about->stx_btime.tv_nsec : 0;
    return (about->stx_ino * 0x9E3779B97F4A7C15ULL ^ born) | 1;
}

static int look(int fd, struct statx *about) {
    return statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE | STATX_BTIME | STATX_TYPE, about) == 0;
}

/* Names. The file of a removed name is kept until its folder is synced: a power loss may bring it back. */

#define GRAVES 4096
/* File systems write name changes by themselves after a while. */
#define SETTLES_AFTER (30 * SECOND)

struct grave {
    uint64_t number;
    int64_t at;
    char *folders[2];
};

static struct grave graves[GRAVES];
static size_t graves_open;
static uint64_t graves_made;
static pthread_mutex_t graves_lock = PTHREAD_MUTEX_INITIALIZER;

/* The full path, if it is below the node's directory. */
static int is_ours(int folder, const char *path, char *at) {
    if (!grave_folder[0] || !path) return 0;
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(folder == AT_FDCWD ? "/proc/self/cwd" : link, base, sizeof base - 1);
        if (length <= 0) return 0;
        base[length] = 0;
    }
    int length = snprintf(at, PATH_MAX, path[0] == '/' ? "%s%s" : "%s/%s", base, path);
    return length > 0 && length < PATH_MAX && !strncmp(at, data_folder, data_length) && at[data_length] == '/';
}

static void grave_path(char *path, uint64_t number, const char *kind) {
    snprintf(path, PATH_MAX, "%s/%llu.%s", grave_folder, (unsigned long long)number, kind);
}

static void close_grave(size_t nth) {
    char path[PATH_MAX];
    for (int kind = 0; kind < 2; kind++) {
        grave_path(path, graves[nth].number, kind ? "done" : "file");
        real_unlinkat(AT_FDCWD, path, 0);
        free(graves[nth].folders[kind]);
    }
    graves[nth] = graves[--graves_open];
}

static char *folder_of(const char *path) {
    const char *last = path ? strrchr(path, '/') : NULL;
    return last ? strndup(path, last - path) : NULL;
}

/* Keeps the current file of a name under another name. */
static int bury(uint64_t number, const char *at) {
    char path[PATH_MAX];
    grave_path(path, number, "file");
    return real_linkat(AT_FDCWD, at, AT_FDCWD, path, 0) == 0;
}

/* Records a name change that was made, so that it can be undone. */
static void note(uint64_t number, const char *what, const char *from, const char *to) {
    int64_t now = read_real(CLOCK_MONOTONIC);
    for (size_t nth = graves_open; nth-- > 0;)
        if (graves[nth].at + SETTLES_AFTER < now) close_grave(nth);
    if (graves_open == GRAVES) close_grave(0);
    char path[PATH_MAX], line[2 * PATH_MAX + 32];
    int length = snprintf(line, sizeof line, "%s\n%s\n%s\n", what, from, to ? to : "");
    grave_path(path, number, "done");
    int fd = real_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return;
    ssize_t written = real_write(fd, line, length);
    close(fd);
    graves[graves_open].number = number;
    graves[graves_open].at = now;
    graves[graves_open].folders[0] = folder_of(from);
    graves[graves_open].folders[1] = folder_of(to);
    graves_open++;
    if (written != length) close_grave(graves_open - 1);
}

/* The folder was synced after these changes: they are final. */
static void settle(int fd, uint64_t upto) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    pthread_mutex_lock(&graves_lock);
    for (size_t nth = graves_open; nth-- > 0;) {
        int is_here = 0;
        for (int end = 0; end < 2; end++)
            is_here |= graves[nth].folders[end] && !strcmp(graves[nth].folders[end], path);
        if (is_here && graves[nth].number <= upto) close_grave(nth);
    }
    pthread_mutex_unlock(&graves_lock);
}

static int unlinked(int folder, const char *path, int flags) {
    FIND(unlinkat);
    FIND(linkat);
    FIND(openat);
    FIND(write);
    char at[PATH_MAX];
    if (!is_ours(folder, path, at)) return real_unlinkat(folder, path, flags);
    pthread_mutex_lock(&graves_lock);
    uint64_t number = ++graves_made;
    int is_folder = flags & AT_REMOVEDIR;
    int is_kept = !is_folder && bury(number, at);
    int failed = real_unlinkat(folder, path, flags);
    int why = errno;
    if (!failed && (is_kept || is_folder)) {
        note(number, is_folder ? "rmdir" : "unlink", at, NULL);
    } else if (is_kept) {
        grave_path(at, number, "file");
        real_unlinkat(AT_FDCWD, at, 0);
    }
    pthread_mutex_unlock(&graves_lock);
    errno = why;
    return failed;
}

int unlink(const char *path) { return unlinked(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinked(AT_FDCWD, path, AT_REMOVEDIR); }

int unlinkat(int folder, const char *path, int flags) { return unlinked(folder, path, flags); }

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    FIND(renameat2);
    FIND(unlinkat);
    FIND(linkat);
    FIND(openat);
    FIND(write);
    char from_at[PATH_MAX], to_at[PATH_MAX];
    if (flags & RENAME_EXCHANGE || !is_ours(from_folder, from, from_at) || !is_ours(to_folder, to, to_at))
        return real_renameat2(from_folder, from, to_folder, to, flags);
    pthread_mutex_lock(&graves_lock);
    uint64_t number = ++graves_made;
    int is_kept = bury(number, to_at);
    int failed = real_renameat2(from_folder, from, to_folder, to, flags);
    int why = errno;
    if (!failed) {
        note(number, "rename", from_at, to_at);
    } else if (is_kept) {
        grave_path(to_at, number, "file");
        real_unlinkat(AT_FDCWD, to_at, 0);
    }
    pthread_mutex_unlock(&graves_lock);
    errno = why;
    return failed;
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return renamed(from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    return renamed(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    FIND(unlinkat);
    FIND(linkat);
    FIND(openat);
    FIND(write);
    char from_at[PATH_MAX], to_at[PATH_MAX];
    int failed = real_linkat(from_folder, from, to_folder, to, flags);
    if (failed || !is_ours(to_folder, to, to_at)) return failed;
    if (!is_ours(from_folder, from, from_at)) from_at[0] = 0;
    pthread_mutex_lock(&graves_lock);
    note(++graves_made, "link", from_at, to_at);
    pthread_mutex_unlock(&graves_lock);
    return 0;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

static int synced(int fd, int (*sync)(int)) {
    if (!slots) return sync(fd);
    dawdle(fd);
    /* Read before the sync: bytes that are written during the sync may or may not be included. */
    struct statx about;
    int known = look(fd, &about);
    int64_t began = read_real(CLOCK_REALTIME);
    pthread_mutex_lock(&graves_lock);
    uint64_t upto = graves_made;
    pthread_mutex_unlock(&graves_lock);
    int failed = sync(fd);
    if (failed || !known) return failed;
    if (S_ISDIR(about.stx_mode)) settle(fd, upto);
    struct slot *slot = slot_of(key_of(&about), 1);
    if (slot) {
        atomic_store(&slot->size, about.stx_size);
        atomic_store(&slot->synced_at, began);
    } else {
        atomic_fetch_add(&page->table_full, 1);
    }
    atomic_fetch_add(&page->syncs, 1);
    return 0;
}

/* Creation times are only precise to some milliseconds: a new file has nothing synced, even if an old one had the same key. */
static int opened(int folder, const char *path, int flags, mode_t mode) {
    FIND(openat);
    int fd = real_openat(folder, path, flags, mode);
    struct statx about;
    if (fd < 0 || !slots || !(flags & (O_CREAT | O_TRUNC)) || !look(fd, &about)) return fd;
    if (!S_ISREG(about.stx_mode) || about.stx_size) return fd;
    struct slot *slot = slot_of(key_of(&about), 0);
    if (slot) atomic_store(&slot->size, 0);
    return fd;
}

#define MODE_OF(flags, before)                                                                                                 \
    mode_t mode = 0;                                                                                                           \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                                   \
        va_list rest;                                                                                                          \
        va_start(rest, before);                                                                                                \
        mode = va_arg(rest, mode_t);                                                                                           \
        va_end(rest);                                                                                                          \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags, flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, flags)
    return opened(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE_OF(flags, flags)
    return opened(folder, path, flags | O_LARGEFILE, mode);
}

int fsync(int fd) {
    FIND(fsync);
    return synced(fd, real_fsync);
}

int fdatasync(int fd) {
    FIND(fdatasync);
    return synced(fd, real_fdatasync);
}

static int has_no_room(int fd) {
    if (!atomic_load_explicit(&page->disk_full, memory_order_relaxed)) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)data_length || strncmp(path, data_folder, data_length)) return 0;
    atomic_fetch_add(&page->writes_refused, 1);
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    FIND(write);
    return has_no_room(fd) ? -1 : real_write(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    FIND(pwrite);
    return has_no_room(fd) ? -1 : real_pwrite(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) { return pwrite(fd, bytes, count, at); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    FIND(writev);
    return has_no_room(fd) ? -1 : real_writev(fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    FIND(pwritev);
    return has_no_room(fd) ? -1 : real_pwritev(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return pwritev(fd, parts, count, at); }

int fallocate(int fd, int mode, off_t at, off_t length) {
    FIND(fallocate);
    return has_no_room(fd) ? -1 : real_fallocate(fd, mode, at, length);
}

int fallocate64(int fd, int mode, off64_t at, off64_t length) { return fallocate(fd, mode, at, length); }

/* Without namespaces, the source address of a connection identifies the sender. */
int connect(int fd, const struct sockaddr *to, socklen_t length) {
    FIND(connect);
    if (source.s_addr && to && to->sa_family == AF_INET &&
        (ntohl(((const struct sockaddr_in *)to)->sin_addr.s_addr) >> 24) == 127) {
        struct sockaddr_in own = {0};
        socklen_t own_length = sizeof own;
        if (getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 && own.sin_port == 0) {
            own.sin_family = AF_INET;
            own.sin_addr = source;
            bind(fd, (struct sockaddr *)&own, sizeof own);
        }
    }
    return real_connect(fd, to, length);
}

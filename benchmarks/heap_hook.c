/* How many bytes of heap are alive at most between two moments of a process? Preloaded (LD_PRELOAD) by benchmarks/heap.py.

   Everything is counted from the start of the process, so that a block freed counts what it was worth when it was made.
   malloc and its kin count what the allocator set aside (malloc_usable_size), which operator new and new[] go through.
   Anonymous mappings count by their length; those that nobody can touch (PROT_NONE), files and stacks of threads do not. What the
   allocator itself maps is not seen a second time: it does not go through these names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static long alive, most, base;

static void changed(long bytes) {
    long now = __atomic_add_fetch(&alive, bytes, __ATOMIC_SEQ_CST);
    long seen = __atomic_load_n(&most, __ATOMIC_SEQ_CST);
    while (now > seen && !__atomic_compare_exchange_n(&most, &seen, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

/* From here on: what is alive now is the base, and the most so far. */
void heap_start(void) {
    base = __atomic_load_n(&alive, __ATOMIC_SEQ_CST);
    __atomic_store_n(&most, base, __ATOMIC_SEQ_CST);
}

/* The most bytes alive since heap_start, above what was alive then. */
long heap_most(void) { return __atomic_load_n(&most, __ATOMIC_SEQ_CST) - base; }

/* What is alive now above what was at heap_start. */
long heap_alive(void) { return __atomic_load_n(&alive, __ATOMIC_SEQ_CST) - base; }

/* The real functions. Looking them up may itself ask for a few bytes, which come from a small block that is never freed. */
static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t), *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t), *(*next_mremap)(void *, size_t, size_t, int, ...);
static int (*next_munmap)(void *, size_t);

static char first_bytes[65536] __attribute__((aligned(64)));
static size_t first_used;
static int looking;

static void look_up(void) {
    looking = 1;
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_memalign = dlsym(RTLD_NEXT, "memalign");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    *(void **)&next_mmap = dlsym(RTLD_NEXT, "mmap");
    *(void **)&next_mremap = dlsym(RTLD_NEXT, "mremap");
    *(void **)&next_munmap = dlsym(RTLD_NEXT, "munmap");
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    looking = 0;
}

static void *first_block(size_t size) {
    size_t start = (first_used + 15) & ~(size_t)15;
    if (start + size > sizeof first_bytes) return NULL;
    first_used = start + size;
    return first_bytes + start;
}

static int is_first(const void *p) { return (const char *)p >= first_bytes && (const char *)p < first_bytes + sizeof first_bytes; }

static void *made(void *p) {
    if (p) changed((long)malloc_usable_size(p));
    return p;
}

void *malloc(size_t size) {
    if (looking) return first_block(size);
    if (!next_malloc) look_up();
    return made(next_malloc(size));
}

void *calloc(size_t count, size_t size) {
    if (looking) return first_block(count * size); /* static bytes are zero */
    if (!next_malloc) look_up();
    return made(next_calloc(count, size));
}

void *memalign(size_t alignment, size_t size) {
    if (!next_malloc) look_up();
    return made(next_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || !alignment || (alignment & (alignment - 1))) return EINVAL;
    void *p = memalign(alignment, size);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

void free(void *p) {
    if (!p || is_first(p)) return;
    if (!next_malloc) look_up();
    changed(-(long)malloc_usable_size(p));
    next_free(p);
}

/* A block that grows in place or by moving its pages counts its growth; copied bytes are not counted twice. */
void *realloc(void *p, size_t size) {
    if (!p) return malloc(size);
    if (!next_malloc) look_up();
    if (is_first(p)) {
        void *moved = malloc(size);
        size_t rest = (size_t)(first_bytes + sizeof first_bytes - (char *)p);
        if (moved) memcpy(moved, p, size < rest ? size : rest);
        return moved;
    }
    long before = (long)malloc_usable_size(p);
    void *q = next_realloc(p, size);
    if (q) changed((long)malloc_usable_size(q) - before);
    else if (!size) changed(-before);
    return q;
}

void *reallocarray(void *p, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

/* Anonymous mappings, so that they are told from files when they, or parts of them, are unmapped. */
enum { MAPPINGS = 16384 };
static struct { uintptr_t start, stop; } mapping[MAPPINGS];
static int mappings, lost;
static volatile char busy;

static void enter(void) { while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {} }
static void leave(void) { __atomic_clear(&busy, __ATOMIC_RELEASE); }

static void keep(uintptr_t start, uintptr_t stop) {
    if (start >= stop) return;
    if (mappings == MAPPINGS) { lost = 1; return; }
    mapping[mappings].start = start;
    mapping[mappings++].stop = stop;
}

/* Forgets what is known of a range of addresses; the bytes that were counted there. */
static long drop(uintptr_t start, uintptr_t stop) {
    long bytes = 0;
    for (int i = mappings - 1; i >= 0; i--) {
        uintptr_t a = mapping[i].start, b = mapping[i].stop;
        uintptr_t from = a > start ? a : start, to = b < stop ? b : stop;
        if (from >= to) continue;
        bytes += (long)(to - from);
        mapping[i] = mapping[--mappings];
        keep(a, from);
        keep(to, b);
    }
    return bytes;
}

/* True once there were more mappings than are kept: figures are then too low. */
int heap_lost(void) { return lost; }

static uintptr_t paged(size_t length) {
    uintptr_t rest = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    return ((uintptr_t)length + rest) & ~rest;
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
    if (!next_malloc) look_up();
    void *p = next_mmap(at, length, protection, flags, file, offset);
    if (p == MAP_FAILED) return p;
    uintptr_t start = (uintptr_t)p, stop = start + paged(length);
    enter();
    long bytes = flags & MAP_FIXED ? -drop(start, stop) : 0;
    if ((flags & MAP_ANONYMOUS) && protection != PROT_NONE && !(flags & MAP_STACK)) {
        keep(start, stop);
        bytes += (long)(stop - start);
    }
    leave();
    if (bytes) changed(bytes);
    return p;
}

void *mmap64(void *at, size_t length, int protection, int flags, int file, off_t offset) {
    return mmap(at, length, protection, flags, file, offset);
}

int munmap(void *p, size_t length) {
    if (!next_malloc) look_up();
    /* first: once the pages are gone another thread may be given them */
    enter();
    long bytes = drop((uintptr_t)p, (uintptr_t)p + paged(length));
    leave();
    if (bytes) changed(-bytes);
    return next_munmap(p, length);
}

void *mremap(void *p, size_t before, size_t after, int flags, ...) {
    if (!next_malloc) look_up();
    void *at = NULL;
    if (flags & MREMAP_FIXED) {
        va_list more;
        va_start(more, flags);
        at = va_arg(more, void *);
        va_end(more);
    }
    void *q = flags & MREMAP_FIXED ? next_mremap(p, before, after, flags, at) : next_mremap(p, before, after, flags);
    if (q == MAP_FAILED) return q;
    enter();
    long bytes = -drop((uintptr_t)p, (uintptr_t)p + paged(before));
    if (bytes) {
        keep((uintptr_t)q, (uintptr_t)q + paged(after));
        bytes += (long)paged(after);
    }
    leave();
    if (bytes) changed(bytes);
    return q;
}

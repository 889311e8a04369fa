/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rawsys.h: system calls without libc.
 *
 * libsreplay_verbs.so exports read, write, close, poll, mmap and others, so its own code must not
 * call these names.  All functions here are inline, leave errno unchanged, return -errno, and may
 * be called from a signal handler.
 */
#ifndef LOGD_BASE_RAWSYS_H
#define LOGD_BASE_RAWSYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#if defined(__x86_64__)
static inline long sr_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sr_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "sreplay knows the system calls of x86-64 and aarch64 only"
#endif

/* The kernel's calling convention is integers in registers. */
#define SR_ARG(x) ((long)(uintptr_t)(x))

static inline long sr_sys_close(int fd)
{
	return sr_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline long sr_sys_read(int fd, void *data, size_t size)
{
	return sr_syscall(SYS_read, fd, SR_ARG(data), (long)size, 0, 0, 0);
}

static inline long sr_sys_write(int fd, const void *data, size_t size)
{
	return sr_syscall(SYS_write, fd, SR_ARG(data), (long)size, 0, 0, 0);
}

static inline long sr_sys_fcntl(int fd, int command, long argument)
{
	return sr_syscall(SYS_fcntl, fd, command, argument, 0, 0, 0);
}

static inline long sr_sys_fstat(int fd, struct stat *st)
{
	return sr_syscall(SYS_fstat, fd, SR_ARG(st), 0, 0, 0, 0);
}

static inline long sr_sys_ftruncate(int fd, uint64_t size)
{
	return sr_syscall(SYS_ftruncate, fd, (long)size, 0, 0, 0, 0);
}

static inline long sr_sys_memfd_create(const char *name, unsigned int flags)
{
	return sr_syscall(SYS_memfd_create, SR_ARG(name), flags, 0, 0, 0, 0);
}

/* An address, or -errno: see sr_sys_is_error. */
static inline void *sr_sys_mmap(void *where, size_t size, int prot, int flags, int fd, off_t offset)
{
	return (void *)sr_syscall(SYS_mmap, SR_ARG(where), (long)size, prot, flags, fd, offset);
}

static inline bool sr_sys_is_error(const void *address)
{
	return (uintptr_t)address > (uintptr_t)-4096L;
}

static inline long sr_sys_munmap(void *where, size_t size)
{
	return sr_syscall(SYS_munmap, SR_ARG(where), (long)size, 0, 0, 0, 0);
}

static inline long sr_sys_futex(uint32_t *word, int operation, uint32_t value,
				const struct timespec *timeout)
{
	return sr_syscall(SYS_futex, SR_ARG(word), operation, value, SR_ARG(timeout), 0, 0);
}

static inline long sr_sys_ppoll(struct pollfd *fds, unsigned int n, const struct timespec *timeout)
{
	return sr_syscall(SYS_ppoll, SR_ARG(fds), n, SR_ARG(timeout), 0, 0, 0);
}

static inline long sr_sys_socket(int domain, int type, int protocol)
{
	return sr_syscall(SYS_socket, domain, type, protocol, 0, 0, 0);
}

static inline long sr_sys_connect(int fd, const void *address, socklen_t size)
{
	return sr_syscall(SYS_connect, fd, SR_ARG(address), size, 0, 0, 0);
}

static inline long sr_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return sr_syscall(SYS_sendmsg, fd, SR_ARG(message), flags, 0, 0, 0);
}

static inline long sr_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
	return sr_syscall(SYS_recvmsg, fd, SR_ARG(message), flags, 0, 0, 0);
}

static inline long sr_sys_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	return sr_syscall(SYS_getsockopt, fd, level, name, SR_ARG(value), SR_ARG(size), 0);
}

static inline long sr_sys_geteuid(void)
{
	return sr_syscall(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

static inline long sr_sys_getrandom(void *data, size_t size)
{
	return sr_syscall(SYS_getrandom, SR_ARG(data), (long)size, 0, 0, 0, 0);
}

static inline long sr_sys_getpid(void)
{
	return sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline long sr_sys_gettid(void)
{
	return sr_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

struct iovec;

/*
 * Reads the process's own memory; what is not mapped ends it.  By the thread's number, since the main thread may have
 * ended; but the sandbox of a replay knows the process's only.
 */
static inline long sr_sys_read_self(const struct iovec *to, const struct iovec *from, long n)
{
	long got = sr_syscall(SYS_process_vm_readv, sr_sys_gettid(), SR_ARG(to), 1, SR_ARG(from), n, 0);

	return got == -EPERM ? sr_syscall(SYS_process_vm_readv, sr_sys_getpid(), SR_ARG(to), 1, SR_ARG(from), n, 0) : got;
}

static inline long sr_sys_clock_gettime(clockid_t clock, struct timespec *now)
{
	return sr_syscall(SYS_clock_gettime, clock, SR_ARG(now), 0, 0, 0, 0);
}

static inline long sr_sys_nanosleep(const struct timespec *time)
{
	return sr_syscall(SYS_nanosleep, SR_ARG(time), 0, 0, 0, 0, 0);
}

static inline long sr_sys_membarrier(int command)
{
	return sr_syscall(SYS_membarrier, command, 0, 0, 0, 0, 0);
}

/* limit: the two numbers of struct rlimit64. */
static inline long sr_sys_getrlimit(int resource, uint64_t limit[2])
{
	return sr_syscall(SYS_prlimit64, 0, resource, 0, SR_ARG(limit), 0, 0);
}

/* Milliseconds of the monotonic clock. */
static inline int64_t sr_sys_now_ms(void)
{
	struct timespec now = {0};

	sr_sys_clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static inline struct timespec sr_sys_ms(int64_t ms)
{
	return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
}

#endif

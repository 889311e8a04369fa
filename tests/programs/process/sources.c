/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sources.c: what enters a process past the functions that a wrapper could stand for: by
 * stdio and other inner calls of libc, by syscall(), by the vDSO.  One source
 * per argument; each prints what differs from run to run.  A replay has to print
 * the same.  It asks libibverbs for devices, so that the shim takes it for an RDMA program.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <link.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <infiniband/verbs.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* A short sum of bytes, to print what is long. */
static unsigned int sum(const void *p, size_t n)
{
	unsigned int s = 0;

	for (size_t i = 0; i < n; i++)
		s = s * 31 + ((const unsigned char *)p)[i];
	return s;
}

/* ------------------------------------------------------------------- files */

static void print_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[512];
	unsigned int s = 0;
	int n = 0;

	if (!f) {
		printf("%s: errno %d\n", path, errno);
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		s = s * 7 + sum(line, strlen(line));
		n++;
	}
	printf("%s: fd %d, %d lines, %08x, at %p\n", path, fileno(f), n, s, (void *)f);
	fclose(f);
}

static void proc(void)
{
	print_file("/proc/cpuinfo");
	print_file("/proc/self/stat");
	print_file("/proc/uptime");
	print_file("/sys/devices/system/cpu/online");
	print_file("/etc/hostname");
	print_file("/no/such/file");
	printf("heap after it: %p\n", malloc(100));
}

static void urandom(void)
{
	unsigned char bytes[16];
	FILE *f = fopen("/dev/urandom", "r");
	int fd = open("/dev/urandom", O_RDONLY);

	if (!f || fread(bytes, 1, 8, f) != 8 || read(fd, bytes + 8, 8) != 8)
		fail("/dev/urandom");
	printf("fd %d %d: %08x %08x\n", fileno(f), fd, sum(bytes, 8), sum(bytes + 8, 8));
	fclose(f);
	close(fd);
	printf("arc4random %08x\n", arc4random());
	syscall(SYS_getrandom, bytes, sizeof(bytes), 0);
	printf("syscall %08x\n", sum(bytes, sizeof(bytes)));
}

static void standard_input(void)
{
	char line[100] = "";
	int c = getchar();

	if (!fgets(line, sizeof(line), stdin))
		strcpy(line, "none\n");
	printf("first %d, then %s", c, line);
	while (scanf("%99s", line) == 1)
		printf("word %s\n", line);
}

static void file_system(void)
{
	char path[64], other[80], target[64] = "", cwd[PATH_MAX];
	struct stat st;
	int fd, n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/tmp/sreplay-sources-%d", (int)getpid());
	snprintf(other, sizeof(other), "%s/renamed", path);
	printf("mkdir %d\n", mkdir(path, 0700));
	printf("chdir %d\n", chdir(path));
	printf("%s\n", getcwd(cwd, sizeof(cwd)) ? cwd : "?");
	fd = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
	printf("fd %d, wrote %zd\n", fd, write(fd, "some text", 9));
	if (fstat(fd, &st))
		fail("fstat");
	printf("inode %lu, changed %ld.%09ld\n", st.st_ino, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	printf("pread %zd %.4s\n", pread(fd, target, 4, 5), target);
	close(fd);
	printf("rename %d symlink %d\n", rename("file", other), symlink(other, "link"));
	printf("readlink %zd ", readlink("link", target, sizeof(target) - 1));
	printf("%s, access %d", target, access("link", R_OK));
	printf(" %d errno %d\n", access("missing", R_OK), errno);
	dir = opendir(".");
	for (struct dirent *e; dir && (e = readdir(dir));)
		n += (int)e->d_ino;
	printf("inodes %d\n", n);
	if (dir)
		closedir(dir);
	printf("unlink %d %d", unlink("link"), unlink(other));
	printf(" chdir %d rmdir %d", chdir("/"), rmdir(path));
	printf(" again %d errno %d\n", rmdir(path), errno);
}

/* ------------------------------------------------------------- descriptors */

static void events(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), event = eventfd(3, EFD_NONBLOCK);
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), ends[2];
	struct itimerspec when = {.it_value.tv_nsec = 3000000, .it_interval.tv_nsec = 500000};
	struct epoll_event wanted = {.events = EPOLLIN}, found[4];
	uint64_t count = 0;
	char byte;

	if (pipe(ends))
		fail("pipe");
	for (int i = 0; i < 3; i++) {
		wanted.data.fd = i == 0 ? event : i == 1 ? timer : ends[0];
		if (epoll_ctl(ep, EPOLL_CTL_ADD, wanted.data.fd, &wanted))
			fail("epoll_ctl");
	}
	printf("fds %d %d %d %d %d\n", ep, event, timer, ends[0], ends[1]);
	printf("epoll %d", epoll_wait(ep, found, 4, 0));
	printf(" fd %d\n", found[0].data.fd);
	printf("eventfd %d", eventfd_read(event, &count));
	printf(" %lu, again %d", count, eventfd_read(event, &count));
	printf(" errno %d\n", errno);
	timerfd_settime(timer, 0, &when, NULL);
	usleep(7000);
	printf("timer %zd", read(timer, &count, sizeof(count)));
	printf(" %lu times\n", count);
	timerfd_gettime(timer, &when);
	printf("next in %ld ns\n", when.it_value.tv_nsec);
	printf("written %zd", write(ends[1], "x", 1));
	printf(", epoll %d\n", epoll_pwait(ep, found, 4, 1000, NULL));
	printf("read %zd %c\n", read(ends[0], &byte, 1), byte);
	printf("dup %d %d %d", dup(ends[0]), dup2(event, 20), dup3(timer, 21, O_CLOEXEC));
	printf(" %d\n", fcntl(ep, F_DUPFD, 30));
	printf("close %d %d %d, next %d\n", close(ep), close(event), close(timer), dup(1));
}

/* stdio on what the program opened itself. */
static void streams(void)
{
	int ends[2];
	char line[64];
	FILE *in, *out;

	if (pipe(ends))
		fail("pipe");
	in = fdopen(ends[0], "r");
	out = fdopen(ends[1], "w");
	fprintf(out, "at %ld\n", (long)time(NULL));
	fclose(out);
	printf("%s", fgets(line, sizeof(line), in) ? line : "nothing\n");
	fclose(in);
}

static void messages(void)
{
	char room[CMSG_SPACE(sizeof(int))] = "", text[32] = "", more[32] = "";
	struct iovec iov[2] = {{"hello ", 6}, {"world", 6}}, in[2] = {{text, 4}, {more, 28}};
	struct msghdr m = {
	    .msg_iov = iov, .msg_iovlen = 2, .msg_control = room, .msg_controllen = sizeof(room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = iov, .msg_iovlen = 1}},
				  {.msg_hdr = {.msg_iov = iov + 1, .msg_iovlen = 1}}};
	int pair[2], fd = -1, ends[2];
	struct ucred who = {0};
	socklen_t len = sizeof(who);

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) || pipe(ends))
		fail("socketpair");
	printf("pair %d %d\n", pair[0], pair[1]);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ends[0], sizeof(int));
	printf("sendmsg %zd", sendmsg(pair[0], &m, 0));
	m.msg_iov = in;
	memset(room, 0, sizeof(room));
	printf(" recvmsg %zd", recvmsg(pair[1], &m, 0));
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	printf(" %s%s fd %d flags %x\n", text, more, fd, m.msg_flags);
	printf("through it %zd", write(ends[1], "abc", 3));
	printf(" %zd\n", read(fd, text, 3));
	printf("sendmmsg %d", sendmmsg(pair[0], many, 2, 0));
	printf(" %u %u", many[0].msg_len, many[1].msg_len);
	many[0].msg_hdr.msg_iov = in;
	many[1].msg_hdr.msg_iov = in + 1;
	printf(" recvmmsg %d", recvmmsg(pair[1], many, 2, 0, NULL));
	printf(" %u %u\n", many[0].msg_len, many[1].msg_len);
	printf("writev %zd", writev(pair[1], iov, 2));
	printf(" readv %zd", readv(pair[0], in, 2));
	printf(" %s sendto %zd", more, sendto(pair[0], "x", 1, 0, NULL, 0));
	printf(" recvfrom %zd\n", recvfrom(pair[1], text, 4, 0, NULL, NULL));
	if (!getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &who, &len))
		printf("peer %d\n", who.pid);
}

static void waiting(void)
{
	struct timeval tv = {.tv_usec = 2000};
	struct timespec ts = {.tv_nsec = 2000000};
	struct pollfd p;
	int ends[2];
	fd_set set;

	if (pipe(ends))
		fail("pipe");
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	printf("select %d", select(ends[0] + 1, &set, NULL, NULL, &tv));
	printf(" set %d left %ld\n", FD_ISSET(ends[0], &set), (long)tv.tv_usec);
	if (write(ends[1], "y", 1) != 1)
		fail("write");
	FD_SET(ends[0], &set);
	tv.tv_sec = 5;
	printf("select %d", select(ends[0] + 1, &set, NULL, NULL, &tv));
	printf(" set %d left %ld\n", FD_ISSET(ends[0], &set), (long)tv.tv_usec);
	printf("pselect %d", pselect(ends[0] + 1, &set, NULL, NULL, &ts, NULL));
	p = (struct pollfd){.fd = ends[0], .events = POLLIN};
	printf(" ppoll %d revents %x\n", ppoll(&p, 1, &ts, NULL), p.revents);
	printf("nothing %d %d\n", poll(NULL, 0, 1), select(0, NULL, NULL, NULL, &tv));
	printf("clock_nanosleep %d\n", clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL));
}

/* ------------------------------------------------------------- the machine */

static void network(void)
{
	struct ifaddrs *list, *i;
	struct ifconf conf = {.ifc_len = 2048, .ifc_buf = malloc(2048)};
	struct ifreq request = {.ifr_name = "lo"};
	struct addrinfo *res;
	struct hostent *host;
	int n = 0, fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = -1;
	unsigned int s = 0;

	if (getifaddrs(&list))
		fail("getifaddrs");
	for (i = list; i; i = i->ifa_next, n++)
		s +=
		    sum(i->ifa_name, strlen(i->ifa_name)) + (i->ifa_addr ? sum(i->ifa_addr, 8) : 0);
	printf("%d addresses, %08x\n", n, s);
	freeifaddrs(list);
	if (ioctl(fd, SIOCGIFCONF, &conf))
		fail("SIOCGIFCONF");
	printf("%d bytes of interfaces, %08x\n", conf.ifc_len,
	       sum(conf.ifc_buf, (size_t)conf.ifc_len));
	printf("flags %d", ioctl(fd, SIOCGIFFLAGS, &request));
	printf(" %x\n", request.ifr_flags);
	printf("pending %d %d\n", ioctl(fd, FIONREAD, &bytes), bytes);
	printf("index %u\n", if_nametoindex("lo"));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	bytes = -1;
	n = ioctl(fd, SIOCATMARK, &bytes);
	printf("at mark %d %d\n", n, bytes);
	close(fd);
	if (!getaddrinfo("localhost", NULL, NULL, &res)) {
		printf("localhost %d\n", res->ai_family);
		freeaddrinfo(res);
	}
	/* As qperf and udpong do: what a library allocated, the program frees itself. */
	if (!getaddrinfo(NULL, "7174", NULL, &res))
		for (struct addrinfo *next; res; res = next) {
			next = res->ai_next;
			printf("service %d %d\n", res->ai_family, res->ai_socktype);
			free(res);
		}
	host = gethostbyname("localhost");
	printf("by name: %s\n", host ? inet_ntoa(*(struct in_addr *)host->h_addr) : "none");
}

/* The kernel writes it beside the thread's variables. -1: it has not been asked to. */
static int noted_processor(void)
{
	const struct rseq *area = (const void *)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset);

	return __rseq_size ? (int)*(const volatile uint32_t *)&area->cpu_id : -1;
}

static void sequences(void)
{
	printf("on processor %d\n", noted_processor());
	printf("rseq %ld\n", syscall(SYS_rseq, NULL, 32, 0, 0));
}

static void machine(void)
{
	struct utsname name;
	struct sysinfo info;
	struct rusage usage;
	struct timespec ts;
	struct tms ticks;
	unsigned int cpu = 0, node = 0;
	double load[3] = {0};
	cpu_set_t cpus;

	uname(&name);
	printf("%s %s\n", name.nodename, name.version);
	printf("processors %ld %ld %d\n", sysconf(_SC_NPROCESSORS_ONLN),
	       sysconf(_SC_NPROCESSORS_CONF), get_nprocs());
	sched_getaffinity(0, sizeof(cpus), &cpus);
	printf("may use %d, runs on %d", CPU_COUNT(&cpus), sched_getcpu());
	printf(" %d", getcpu(&cpu, &node));
	printf(" %u %u\n", cpu, node);
	sysinfo(&info);
	printf("free %lu up %ld\n", info.freeram, info.uptime);
	getrusage(RUSAGE_SELF, &usage);
	printf("used %ld.%06ld, faults %ld\n", (long)usage.ru_utime.tv_sec,
	       (long)usage.ru_utime.tv_usec, usage.ru_minflt);
	printf("times %ld", (long)times(&ticks));
	printf(" %ld, clock %ld\n", (long)ticks.tms_utime, (long)clock());
	timespec_get(&ts, TIME_UTC);
	printf("timespec_get %ld.%09ld\n", (long)ts.tv_sec, ts.tv_nsec);
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	printf("syscall %ld.%09ld, pid %ld\n", (long)ts.tv_sec, ts.tv_nsec, syscall(SYS_getpid));
	printf("load %d %.2f\n", getloadavg(load, 3), load[0]);
	printf("pages %ld of %ld\n", sysconf(_SC_AVPHYS_PAGES), sysconf(_SC_PHYS_PAGES));
	printf("terminal %d\n", isatty(0));
}

static void counter(void)
{
#if defined(__x86_64__)
	unsigned int aux, low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	printf("rdtsc %08x%08x\n", high, low);
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
	printf("rdtscp %08x%08x on %x\n", high, low, aux);
#endif
	/* Children may read it as they like. */
	printf("a shell says %d\n", system("exit 4") >> 8);
}

#if defined(__x86_64__)
/* Some hypervisors move a virtual processor to another real one, whose number cpuid gives then. */
static bool leaves_numbers_out;

static void leave_number_out(unsigned int leaf, unsigned int *a, unsigned int *b, unsigned int *c, unsigned int *d)
{
	if (leaf == 1)
		*b &= 0xffffff;
	if (leaf == 0x8000001e)
		*a = *b = *c = 0;
	if (leaf == 0xb || leaf == 0x1f || leaf == 0x80000026)
		*d = 0;
}

static void ask(unsigned int leaf, unsigned int subleaf)
{
	unsigned int a, b, c, d;

	__cpuid_count(leaf, subleaf, a, b, c, d);
	if (leaves_numbers_out)
		leave_number_out(leaf, &a, &b, &c, &d);
	printf("cpuid %08x %2u: %08x %08x %08x %08x\n", leaf, subleaf, a, b, c, d);
}

static void *ask_elsewhere(void *unused)
{
	ask(0, 0);
	return NULL;
}

/* The body of the function that libc chose for this processor: its address would do, but moves. */
static void chosen(const char *name)
{
	const unsigned char *f = dlsym(RTLD_DEFAULT, name);

	printf("%s", name);
	for (int i = 0; f && i < 24; i++)
		printf(" %02x", f[i]);
	printf("\n");
}
#endif

/* What libc has chosen by what the processor says. */
static void libc(void)
{
#if defined(__x86_64__)
	chosen("memcpy");
	chosen("strlen");
	chosen("memset");
#endif
}

/* All that it says, in another thread as well. */
static void processor(void)
{
#if defined(__x86_64__)
	static const unsigned int ranges[] = {0, 0x40000000, 0x80000000};
	unsigned int last, b, c, d;
	pthread_t thread;

	leaves_numbers_out = true;
	for (int i = 0; i < 3; i++) {
		__cpuid(ranges[i], last, b, c, d);
		for (unsigned int leaf = ranges[i]; leaf <= last && leaf < ranges[i] + 64; leaf++)
			for (unsigned int subleaf = 0; subleaf < 20; subleaf++)
				ask(leaf, subleaf);
		ask(last + 1, 3);
		ask(ranges[i] + 0x3fffffff, 1);
	}
	pthread_create(&thread, NULL, ask_elsewhere, NULL);
	pthread_join(thread, NULL);
	leaves_numbers_out = false;
	printf("caches %ld %ld\n", sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
	printf("avx2 %d, avx512f %d\n", __builtin_cpu_supports("avx2"),
	       __builtin_cpu_supports("avx512f"));
#endif
}

/* As hwloc does: on each CPU in turn, what its number is. */
static void visitor(void)
{
#if defined(__x86_64__)
	cpu_set_t mine, one;

	sched_getaffinity(0, sizeof(mine), &mine);
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN) && cpu < 4; cpu++) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one))
			continue;
		ask(1, 0);
		ask(0xb, 0);
	}
	sched_setaffinity(0, sizeof(mine), &mine);
#endif
}

/* Uses what it is told that there is: an addition and multiplication of AMD's Bulldozer. */
static void daring(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d;

	__cpuid(0x80000001, a, b, c, d);
	if (c >> 16 & 1)
		__asm__ volatile("vfmaddpd %%xmm0, %%xmm1, %%xmm2, %%xmm3" : : : "xmm3");
#endif
}

/* As programs call it that go past libc. */
static long vdso_time(void)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	long (*of_vdso)(long *) = (long (*)(long *))(vdso ? dlsym(vdso, "__vdso_time") : NULL);

	return of_vdso ? of_vdso(NULL) : -1;
}

/* Libraries that look its functions up when they begin (Accelio asks which processor it is on, and chooses by it). */
static void vdso_functions(void)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int (*clock)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(vdso, "__vdso_clock_gettime");
	int (*day)(struct timeval *, void *) = (int (*)(struct timeval *, void *))dlvsym(vdso, "gettimeofday", "LINUX_2.6");
	long (*which)(unsigned int *, void *, void *) = (long (*)(unsigned int *, void *, void *))dlsym(vdso, "__vdso_getcpu");
	unsigned int cpu = 0;
	struct timespec now;
	struct timeval today;

	for (int i = 0; clock && day && which && i < 3; i++) {
		clock(CLOCK_MONOTONIC, &now);
		day(&today, NULL);
		which(&cpu, NULL, NULL);
		printf("%ld.%09ld, %ld.%06ld, on %u\n", (long)now.tv_sec, now.tv_nsec, (long)today.tv_sec, (long)today.tv_usec, cpu);
	}
}

/* The vDSO among them. */
static int object(struct dl_phdr_info *info, size_t size, void *unused)
{
	printf("%s at %#lx, %d\n", info->dlpi_name, (unsigned long)info->dlpi_addr, info->dlpi_phnum);
	return 0;
}

static void addresses(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW), *z = dlopen("libz.so.1", RTLD_NOW);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *q = (char *)syscall(SYS_mmap, NULL, 65536, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	printf("libm %p libz %p\n", library ? dlsym(library, "cos") : NULL,
	       z ? dlsym(z, "inflate") : NULL);
	p[0] = 1;
	printf("mapped %p %p, grown %p\n", (void *)p, (void *)q,
	       mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE));
	dl_iterate_phdr(object, NULL);
	printf("the kernel's %#lx\n", getauxval(AT_SYSINFO_EHDR));
	printf("it runs: %d\n", vdso_time() > 0);
}

/* ----------------------------------------------------------------- signals */

static volatile int handled;

static void handler(int signo)
{
	char c;

	/* With all signals blocked. */
	handled += (int)syscall(SYS_pread64, open("/proc/self/stat", O_RDONLY), &c, 1, 0);
}

static void masks(void)
{
	struct sigaction action = {.sa_handler = handler};
	sigset_t all, before;
	FILE *f;
	char line[64] = "";

	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	printf("handled %d\n", handled);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	f = fopen("/proc/uptime", "r");
	printf("blocked: %s", f && fgets(line, sizeof(line), f) ? line : "?\n");
	raise(SIGUSR1);
	printf("handled %d\n", handled);
	sigprocmask(SIG_SETMASK, &before, NULL);
	printf("handled %d\n", handled);
}

static void *reader(void *path)
{
	char line[64] = "";

	for (int i = 0; i < 20; i++) {
		FILE *f = fopen(path, "r");

		if (!f || !fgets(line, sizeof(line), f))
			return NULL;
		if (i == 19)
			printf("fd %d: %s", fileno(f), line);
		fclose(f);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t id[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&id[i], NULL, reader, i % 2 ? "/proc/uptime" : "/proc/self/stat");
	for (int i = 0; i < 4; i++)
		pthread_join(id[i], NULL);
}

/* ----------------------------------------------------------------- numbers */

static void *numbered(void *argument)
{
	int *pipes = argument, c = (int)syscall(SYS_gettid);
	char path[64], name[16] = "";
	cpu_set_t set;
	struct timespec ts;
	clockid_t clock;
	int fd;

	pthread_setname_np(pthread_self(), "itself");
	pthread_getname_np(pthread_self(), name, sizeof(name));
	printf("%s, affinity %d", name, pthread_getaffinity_np(pthread_self(), sizeof(set), &set));
	printf(" %d %d, ", sched_setaffinity(c, sizeof(set), &set), CPU_COUNT(&set));
	printf("clock %d", pthread_getcpuclockid(pthread_self(), &clock));
	printf(" %d, ", clock_gettime(clock, &ts));
	printf("priority %d %d ", setpriority(PRIO_PROCESS, (id_t)c, 3),
	       getpriority(PRIO_PROCESS, (id_t)c));
	printf("policy %d\n", sched_getscheduler(c));
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", c);
	print_file(path);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", getpid(), c);
	fd = open(path, O_RDWR);
	printf("%zd ", write(fd, "renamed", 7));
	close(fd);
	print_file(path);
	if (write(pipes[1], &c, sizeof(c)) != sizeof(c) || read(pipes[2], &c, 1) != 1)
		fail("pipe");
	return NULL;
}

/* libc's numbers of threads are not those that the program was told. */
static void numbers(void)
{
	char path[64], name[16] = "";
	struct rlimit limit;
	struct dirent *entry;
	int pipes[4], tid;
	pthread_t id;
	cpu_set_t set;
	DIR *dir;

	if (pipe(pipes) || pipe(pipes + 2))
		fail("pipe");
	pthread_create(&id, NULL, numbered, pipes);
	if (read(pipes[0], &tid, sizeof(tid)) != sizeof(tid))
		fail("read");
	pthread_setname_np(id, "another");
	pthread_getname_np(id, name, sizeof(name));
	printf("%s %d, ", name, pthread_getaffinity_np(id, sizeof(set), &set));
	printf("%d\n", pthread_setaffinity_np(id, sizeof(set), &set));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", getpid(), tid);
	print_file(path);
	dir = opendir("/proc/self/task");
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", entry->d_name);
		print_file(path);
	}
	closedir(dir);
	syscall(SYS_tgkill, getpid(), tid, 0);
	printf("tgkill %d, ", (int)syscall(SYS_tgkill, getpid(), tid, 0));
	printf("kill %d, ", kill(getpid(), 0));
	prlimit(getpid(), RLIMIT_CORE, NULL, &limit);
	limit.rlim_cur = 0;
	printf("prlimit %d\n", prlimit(getpid(), RLIMIT_CORE, &limit, NULL));
	if (write(pipes[3], "x", 1) != 1)
		fail("write");
	pthread_join(id, NULL);
	printf("gone: %d\n", (int)syscall(SYS_tgkill, getpid(), tid, 0));
}

/* ----------------------------------------------------------- shared memory */

static sigjmp_buf back;

static void refused(int signo)
{
	siglongjmp(back, 1);
}

static const char *can_store(volatile char *p)
{
	struct sigaction action = {.sa_handler = refused}, before;
	const char *result = "no";

	sigaction(SIGSEGV, &action, &before);
	if (!sigsetjmp(back, 1)) {
		*p = *p;
		result = "yes";
	}
	sigaction(SIGSEGV, &before, NULL);
	return result;
}

/* How many pages are mapped from there on. */
static int pages(const char *p)
{
	unsigned char in_core;
	int n = 0;

	while (n < 100 && !mincore((void *)(p + n * 4096), 4096, &in_core))
		n++;
	return n;
}

static void *attach(int id, const void *at, int flags)
{
	void *p = shmat(id, at, flags);

	if (p == (void *)-1)
		fail("shmat");
	return p;
}

static void print_map(const char *what, const void *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[256], wanted[32];

	snprintf(wanted, sizeof(wanted), "%lx-", (unsigned long)p);
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, wanted, strlen(wanted)))
			printf("%s: %s", what, line);
	if (f)
		fclose(f);
}

static void print_segment(int id)
{
	struct shmid_ds ds = {0};

	printf("IPC_STAT %d: ", shmctl(id, IPC_STAT, &ds));
	printf("%zu bytes, mode %o, %lu attached, by %d, at %ld\n", ds.shm_segsz, ds.shm_perm.mode,
	       (unsigned long)ds.shm_nattch, ds.shm_cpid, (long)ds.shm_atime);
}

static void child_attaches(int id)
{
	int status, own;
	char *p;

	fflush(stdout);
	if (!fork()) {
		p = shmat(id, NULL, SHM_RDONLY);
		own = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
		strcpy(shmat(own, NULL, 0), "the child's");
		shmctl(own, IPC_RMID, NULL);
		_exit(strcmp(p, "the parent's") ? 1 : 7);
	}
	wait(&status);
	printf("child %d\n", WEXITSTATUS(status));
}

static void segments(void)
{
	int id = shmget(IPC_PRIVATE, 10000, IPC_CREAT | 0600), again;
	char *p = attach(id, NULL, 0), *q = attach(id, NULL, SHM_RDONLY), *r, *room;
	struct shminfo limits;
	struct shm_info use;
	struct shmid_ds ds;

	printf("segment %d at %p and %p\n", id, (void *)p, (void *)q);
	print_map("first", p);
	print_map("second", q);
	strcpy(p, "the parent's");
	printf("reads %s, stores: %s %s, ", q, can_store(p), can_store(q));
	printf("pages %d %d\n", pages(p), pages(q));
	print_segment(id);
	child_attaches(id);

	/* Where the program says. */
	room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(room, 1 << 20);
	r = attach(id, room + 4096, 0);
	printf("at %p: %s\n", (void *)r, r);
	printf("occupied: %p", shmat(id, room + 8192, 0));
	printf(" errno %d\n", errno);
	r = attach(id, room + 4100, SHM_RND | SHM_REMAP);
	printf("over it %p, pages %d, ", (void *)r, pages(r));
	printf("detached %d", shmdt(r));
	printf(" %d", shmdt(r));
	printf(" errno %d, ", errno);
	printf("pages %d\n", pages(r));

	/* Without libc's functions. */
	again = (int)syscall(SYS_shmget, 4711 + getpid(), 1 << 22, IPC_CREAT | IPC_EXCL | 0600);
	r = (char *)syscall(SYS_shmat, again, NULL, 0);
	strcpy(r + (1 << 21), "more");
	printf("segment %d at %p, %s", again, (void *)r, r[0] ? "dirty" : "clean");
	printf(", found again: %d, ", shmget(4711 + getpid(), 0, 0) == again);
	printf("detached %ld", syscall(SYS_shmdt, r));
	r = (char *)syscall(SYS_shmat, again, NULL, SHM_RDONLY);
	printf(", and at %p with %s\n", (void *)r, r + (1 << 21));
	shmctl(again, IPC_STAT, &ds);
	ds.shm_perm.mode = 0640;
	printf("IPC_SET %d, ", shmctl(again, IPC_SET, &ds));
	print_segment(again);
	printf("IPC_RMID %ld\n", syscall(SYS_shmctl, again, IPC_RMID, NULL));
	munmap(r, 1 << 22);
	printf("unmapped: shmdt %d", shmdt(r));
	printf(" errno %d\n", errno);

	/* A removed one is there until it is detached. */
	printf("IPC_RMID %d, ", shmctl(id, IPC_RMID, NULL));
	r = attach(id, NULL, 0);
	printf("still there: %s\n", r);
	print_segment(id);
	printf("detached %d %d %d", shmdt(p), shmdt(q), shmdt(r));
	printf(", attached again: %p", shmat(id, NULL, 0));
	printf(" errno %d\n", errno);
	printf("pages %d %d, ", pages(p), pages(q));
	printf("IPC_STAT %d", shmctl(id, IPC_STAT, &ds));
	printf(" errno %d\n", errno);
	printf("IPC_INFO %d", shmctl(0, IPC_INFO, (struct shmid_ds *)&limits) >= 0);
	printf(" %lu, ", limits.shmmax);
	printf("SHM_INFO %d", shmctl(0, SHM_INFO, (struct shmid_ds *)&use) >= 0);
	printf(" %lu pages\n", use.shm_tot);
	printf("mapped %p\n", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* Of the trace it is one record: what it would do to memory is not known. */
static void unknown(void)
{
	long result = syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);

	printf("perf_event_open %ld errno %d\n", result, errno);
	printf("number 500: %ld", syscall(500));
	printf(" errno %d\n", errno);
}

/* ------------------------------------------------- a runtime without libc, such as Go's */

/* It has no getauxval: the vector stands behind the environment. */
static unsigned long auxiliary(unsigned long type)
{
	char **end = environ;

	while (*end)
		end++;
	for (const ElfW(auxv_t) *a = (const ElfW(auxv_t) *)(end + 1); a->a_type != AT_NULL; a++)
		if (a->a_type == type)
			return a->a_un.a_val;
	return 0;
}

static const void *in_vdso(const char *name)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)auxiliary(AT_SYSINFO_EHDR);
	const ElfW(Phdr) *segment = (const ElfW(Phdr) *)((const char *)header + (header ? header->e_phoff : 0));
	const ElfW(Sym) *symbol = NULL;
	const char *names = NULL;

	for (int i = 0; header && i < header->e_phnum; i++)
		if (segment[i].p_type == PT_DYNAMIC)
			for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)((const char *)header + segment[i].p_offset); d->d_tag; d++) {
				if (d->d_tag == DT_SYMTAB)
					symbol = (const ElfW(Sym) *)((const char *)header + d->d_un.d_ptr);
				if (d->d_tag == DT_STRTAB)
					names = (const char *)header + d->d_un.d_ptr;
			}
	/* The names follow the symbols. */
	for (; symbol && (const char *)symbol < names; symbol++)
		if (!strcmp(names + symbol->st_name, name))
			return (const char *)header + symbol->st_value;
	return NULL;
}

static void runtime(void)
{
	int (*clock)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))in_vdso("__vdso_clock_gettime");
	struct timespec now;

	printf("pages of %lu bytes\n", auxiliary(AT_PAGESZ));
	for (int i = 0; i < 3; i++) {
		if (clock)
			clock(CLOCK_MONOTONIC, &now);
		else
			syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
		printf("%ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
	}
}

static const struct source {
	const char *name;
	void (*show)(void);
} sources[] = {
    {"proc", proc},       {"urandom", urandom}, {"stdin", standard_input}, {"files", file_system},
    {"events", events},   {"streams", streams}, {"messages", messages},    {"waiting", waiting},
    {"network", network}, {"machine", machine}, {"rseq", sequences}, {"addresses", addresses},  {"masks", masks},
    {"counter", counter}, {"threads", threads}, {"numbers", numbers}, {"unknown", unknown},
    {"processor", processor}, {"daring", daring}, {"segments", segments},
    {"libc", libc}, {"visitor", visitor}, {"runtime", runtime}, {"vdso", vdso_functions},
};

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		for (int n = 1; n < argc; n++)
			if (!strcmp(argv[n], sources[i].name))
				sources[i].show();
	return 5;
}

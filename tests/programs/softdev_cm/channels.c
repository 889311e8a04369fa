/* SPDX-License-Identifier: BSD-2-Clause */
/* channels.c: cases of event channels, and of processes that have them. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/rdma_cma_abi.h>

#include "shared.h"

void is_readable_while_an_event_waits(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP), *other = id_of(channel, RDMA_PS_UDP);
	union address a = address_of("127.0.0.1", 1);
	struct epoll_event e = {.events = EPOLLIN};
	struct rdma_cm_event *event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct stat st;

	EXPECT(!fstat(channel->fd, &st) && S_ISCHR(st.st_mode));
	EXPECT(!epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &e));
	EXPECT(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	EXPECT_ERROR(EAGAIN, rdma_get_cm_event(channel, &event));
	EXPECT(!is_readable(channel->fd, 0) && !epoll_wait(epoll, &e, 1, 0));

	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	EXPECT(is_readable(channel->fd, 0) && epoll_wait(epoll, &e, 1, 0) == 1);
	EXPECT(!rdma_resolve_addr(other, NULL, &a.sa, 1000));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	EXPECT(is_readable(channel->fd, 0));
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	EXPECT(!is_readable(channel->fd, 0) && !epoll_wait(epoll, &e, 1, 0));

	/* An event that nobody will get does not count. */
	EXPECT(!rdma_resolve_route(id, 1000));
	EXPECT(is_readable(channel->fd, 0));
	EXPECT(!rdma_destroy_id(id));
	EXPECT(!is_readable(channel->fd, 0) && !epoll_wait(epoll, &e, 1, 0));
}

/* ---------------------------------------------------------- blocked threads */

static struct rdma_event_channel *blocked_channel;
static int blocked_error;
static pid_t blocked_thread;

static void *block(void *type)
{
	struct rdma_cm_event *event;

	__atomic_store_n(&blocked_thread, gettid(), __ATOMIC_RELEASE);
	blocked_error = 0;
	if (rdma_get_cm_event(blocked_channel, &event)) {
		blocked_error = errno;
		return NULL;
	}
	EXPECT(event->event == *(enum rdma_cm_event_type *)type);
	rdma_ack_cm_event(event);
	return NULL;
}

/* Until it sleeps: /proc says so. */
static pthread_t start_blocked(struct rdma_event_channel *channel, enum rdma_cm_event_type *type)
{
	char path[64], line[256];
	pthread_t thread;
	char state = 0;

	blocked_channel = channel;
	blocked_thread = 0;
	EXPECT(!pthread_create(&thread, NULL, block, type));
	while (!__atomic_load_n(&blocked_thread, __ATOMIC_ACQUIRE))
		usleep(100);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", blocked_thread);
	for (int n = 0; n < 10000 && state != 'S'; n++) {
		FILE *f = fopen(path, "r");

		EXPECT(f && fgets(line, sizeof(line), f));
		fclose(f);
		state = strrchr(line, ')')[2];
		usleep(200);
	}
	return thread;
}

void wakes_a_blocked_thread(void)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP);
	union address a = address_of("127.0.0.1", 1);
	pthread_t thread = start_blocked(channel, &type);

	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	pthread_join(thread, NULL);
	EXPECT(!blocked_error);
	EXPECT(!rdma_destroy_id(id));
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	handled++;
}

void interrupts_as_the_kernel_does(void)
{
	enum rdma_cm_event_type type = RDMA_CM_EVENT_ADDR_RESOLVED;
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP);
	union address a = address_of("127.0.0.1", 1);
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	thread = start_blocked(channel, &type);
	pthread_kill(thread, SIGUSR1);
	while (!handled)
		usleep(100);
	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	pthread_join(thread, NULL);
	EXPECT(!blocked_error);

	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	thread = start_blocked(channel, &type);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	EXPECT(blocked_error == EINTR);
}

void can_be_cancelled(void)
{
	struct rdma_event_channel *channel = channel_of();
	pthread_t thread = start_blocked(channel, NULL);
	void *result;
	int port = 0;

	pthread_cancel(thread);
	EXPECT(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	/* No lock is left behind. */
	listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
}

/* ------------------------------------------------------ events of identifiers */

void migrates(void)
{
	struct pair p = connected_pair();
	struct rdma_event_channel *to = channel_of();
	struct rdma_cm_id *active, *passive;

	/* An identifier moves with what has happened to it. */
	EXPECT(!rdma_disconnect(p.active));
	EXPECT(!rdma_migrate_id(p.passive, to));
	EXPECT(!is_readable(p.channel->fd, 0));
	EXPECT(expect_event(to, RDMA_CM_EVENT_DISCONNECTED, 0) == p.passive);
	EXPECT(p.passive->channel == to);

	/* A listener with the requests that wait for it. */
	active = resolved(p.channel, RDMA_PS_TCP, "127.0.0.1", p.port);
	start_connect(active, "");
	EXPECT(is_readable(p.channel->fd, 1000));
	EXPECT(!rdma_migrate_id(p.listener, to));
	EXPECT(!is_readable(p.channel->fd, 0));
	passive = expect_event(to, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	EXPECT(passive->channel == to);
	accept_with(passive, "");
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0) == active);

	/* A channel of its own. */
	EXPECT(!rdma_migrate_id(active, NULL));
	EXPECT(!rdma_establish(active));
	EXPECT(expect_event(to, RDMA_CM_EVENT_ESTABLISHED, 0) == passive);
	EXPECT(!rdma_destroy_id(active));
	expect_event(to, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void *destroy(void *id)
{
	EXPECT(!rdma_destroy_id(id));
	return NULL;
}

/* rdma_destroy_id() waits until all events that were reported are acknowledged. */
void counts_reported_events(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP), *listener, *active;
	union address a = address_of("127.0.0.1", 1);
	struct rdma_cm_event *event;
	struct timespec soon;
	pthread_t thread;
	int port = 0;

	EXPECT(!rdma_resolve_addr(id, NULL, &a.sa, 1000));
	event = event_of(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT(!pthread_create(&thread, NULL, destroy, id));
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 20000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	EXPECT(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
	rdma_ack_cm_event(event);
	EXPECT(!pthread_join(thread, NULL));

	/* Requests that the listener did not take are rejected when it ends. */
	listener = listen_at(channel, RDMA_PS_TCP, "127.0.0.1", &port);
	active = resolved(channel, RDMA_PS_TCP, "127.0.0.1", port);
	start_connect(active, "");
	EXPECT(!rdma_destroy_id(listener));
	EXPECT(expect_event(channel, RDMA_CM_EVENT_REJECTED, 28) == active);
}

void joins_groups(void)
{
	struct rdma_event_channel *channel = channel_of();
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_UDP);
	union address a = address_of("127.0.0.1", 0), group = address_of("239.1.2.3", 0);
	static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, 239, 1, 2, 3};
	struct rdma_cm_event *event;

	EXPECT(!rdma_bind_addr(id, &a.sa));
	EXPECT(!rdma_join_multicast(id, &group.sa, &group));
	event = event_of(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	EXPECT(event->id == id && event->param.ud.private_data == &group);
	EXPECT(event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == 0x01234567);
	EXPECT(!memcmp(event->param.ud.ah_attr.grh.dgid.raw, gid, 16));
	rdma_ack_cm_event(event);
	EXPECT(!rdma_leave_multicast(id, &group.sa));

	/* Who leaves before the event is reported does not get it. */
	EXPECT(!rdma_join_multicast(id, &group.sa, NULL));
	EXPECT(!rdma_leave_multicast(id, &group.sa));
	EXPECT(!is_readable(channel->fd, 0));
	EXPECT_ERROR(EADDRNOTAVAIL, rdma_leave_multicast(id, &group.sa));
}

/* -------------------------------------------------------------- descriptors */

void leaves_no_descriptors(void)
{
	struct pair p = connected_pair();
	int before;

	destroy_pair(&p);
	before = count_descriptors();
	for (int n = 0; n < 100; n++) {
		p = connected_pair();
		if (n % 2)
			EXPECT(!rdma_disconnect(p.active));
		/* The channel alone does not free the memory of librdmacm's identifiers. */
		if (n % 3)
			destroy_pair(&p);
		else
			rdma_destroy_event_channel(p.channel);
	}
	EXPECT(count_descriptors() == before);

	/* Those that belong to the device have high numbers, and are closed on exec. */
	p = connected_pair();
	for (int fd = p.channel->fd; fd < 8192; fd++) {
		int flags = fcntl(fd, F_GETFD);

		EXPECT(flags < 0 || (flags & FD_CLOEXEC) || fd < 256);
	}
}

static struct rdma_event_channel *inherited;

/* As the workers of a server: it closes what it inherited, and opens its own. */
static void work(int from, int to)
{
	struct rdma_event_channel *channel;
	int port = hear(from);

	rdma_destroy_event_channel(inherited);
	channel = channel_of();
	start_connect(resolved(channel, RDMA_PS_TCP, "127.0.0.1", port), "from a child");
	expect_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	tell(to, 1);
	pause();
}

void outlives_children(void)
{
	struct pair p = connected_pair();
	struct child child;
	struct rdma_cm_id *passive;

	inherited = p.channel;
	child = start_child(work);
	tell(child.to, p.port);
	passive = expect_event(p.channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	accept_with(passive, "");
	hear(child.from);
	EXPECT(!is_readable(p.channel->fd, 0));
	kill(child.pid, SIGKILL);
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_REJECTED, 28) == passive);

	/* What was connected before the fork still is. */
	EXPECT(!rdma_disconnect(p.active));
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0) == p.passive);
	EXPECT(!rdma_disconnect(p.passive));
	EXPECT(expect_event(p.channel, RDMA_CM_EVENT_DISCONNECTED, 0) == p.active);
}

/* ----------------------------------------------------------------- commands */

static void write_command(int fd, unsigned int number, unsigned int in, const void *body, int error)
{
	char buffer[512] = {0};
	struct ucma_abi_cmd_hdr header = {.cmd = number, .in = (uint16_t)in, .out = 64};

	memcpy(buffer, &header, sizeof(header));
	memcpy(buffer + sizeof(header), body, in);
	EXPECT_ERROR(error, write(fd, buffer, sizeof(header) + in));
}

void answers_wrong_commands(void)
{
	struct rdma_event_channel *channel = channel_of(), *other = channel_of();
	uint32_t nobody = 4711, mine = 0;
	struct rdma_cm_id *id = id_of(channel, RDMA_PS_TCP);

	write_command(channel->fd, 99, 0, "", EINVAL);
	write_command(channel->fd, UCMA_CMD_GET_OPTION, 0, "", ENOSYS);
	write_command(channel->fd, UCMA_CMD_DISCONNECT, 0, "", EINVAL);
	write_command(channel->fd, UCMA_CMD_DISCONNECT, 4, &nobody, ENOENT);
	write_command(other->fd, UCMA_CMD_DISCONNECT, 4, &mine, EINVAL);
	EXPECT_ERROR(EINVAL, rdma_create_id(channel, &id, NULL, (enum rdma_port_space)1));
	EXPECT_ERROR(EINVAL, rdma_disconnect(id));

	/* The number may be another file's, if nobody heard of the close. */
	EXPECT(!close_range((unsigned)other->fd, (unsigned)other->fd, 0));
	EXPECT(open("/dev/null", O_WRONLY) == other->fd);
	EXPECT(write(other->fd, "text", 4) == 4 && !close(other->fd));
}

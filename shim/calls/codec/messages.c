/* SPDX-License-Identifier: BSD-2-Clause */
/* messages.c: messages of sockets, sets of descriptors, answers of ioctl. */
#include <errno.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>

#include "shim/calls/codec/custom.h"

/* ---------------------------------------------------------------- messages */

void sr_put_sent_head(struct sr_buf *b, const struct msghdr *m)
{
	/* struct sent_head of calls.def */
	sr_put_sockaddr(b, m->msg_name, m->msg_name ? m->msg_namelen : 0);
	sr_put_bytes(b, m->msg_control, m->msg_control ? m->msg_controllen : 0);
}

static void put_sent_message(struct sr_buf *b, const struct msghdr *m)
{
	/* struct sent_message of calls.def */
	sr_put_sent_head(b, m);
	sr_put_iov_checksum(b, m->msg_iov, m->msg_iovlen);
}

void sr_put_sent_messages(struct sr_buf *b, const struct mmsghdr *m, unsigned int n)
{
	sr_put_u32(b, n);
	for (unsigned int i = 0; i < n; i++)
		put_sent_message(b, &m[i].msg_hdr);
}

void sr_put_message_lengths(struct sr_buf *b, const struct mmsghdr *m, int n)
{
	sr_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++)
		sr_put_u32(b, m[i].msg_len);
}

void sr_deliver_message_lengths(struct sr_cursor *c, struct mmsghdr *m, int n)
{
	if (sr_get_u32(c) != (uint32_t)n) {
		c->bad = true;
		return;
	}
	for (int i = 0; i < n; i++)
		m[i].msg_len = sr_get_u32(c);
}

/*
 * The call overwrites msg_namelen with the true length of the sender's address.  The room, which
 * was put among the arguments, limits how much of the address was stored.
 */
static uint32_t name_room(const struct msghdr *m)
{
	return m->msg_name ? m->msg_namelen : 0;
}

void sr_put_message_room(struct sr_buf *b, const struct msghdr *m)
{
	b->room = (uint32_t)b->len;
	sr_put_u32(b, name_room(m));
}

void sr_put_messages_room(struct sr_buf *b, const struct mmsghdr *m, unsigned int n)
{
	sr_put_u32(b, n);
	b->room = (uint32_t)b->len;
	for (unsigned int i = 0; i < n; i++)
		sr_put_u32(b, name_room(&m[i].msg_hdr));
}

static uint32_t room_before(const struct sr_buf *b, size_t i)
{
	uint32_t room = 0;

	if (b->p)
		memcpy(&room, b->p + b->room + i * sizeof(room), sizeof(room));
	return room;
}

static void put_message(struct sr_buf *b, const struct msghdr *m, size_t i, size_t size)
{
	uint32_t room = room_before(b, i), length = name_room(m);

	/* struct message of calls.def, whose data lies in pieces */
	sr_put_u32(b, length);
	sr_put_bytes(b, m->msg_name, length < room ? length : room);
	sr_put_bytes(b, m->msg_control, m->msg_control ? m->msg_controllen : 0);
	sr_put_u32(b, (uint32_t)m->msg_flags);
	/* The length of a truncated datagram exceeds what was stored. */
	sr_put_iov_data(b, m->msg_iov, m->msg_iovlen, size);
}

void sr_put_message(struct sr_buf *b, const struct msghdr *m, ssize_t size)
{
	put_message(b, m, 0, (size_t)size);
}

void sr_put_messages(struct sr_buf *b, const struct mmsghdr *m, int n)
{
	sr_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++) {
		put_message(b, &m[i].msg_hdr, (size_t)i, m[i].msg_len);
		sr_put_u32(b, m[i].msg_len);
	}
}

void sr_deliver_message(struct sr_cursor *c, struct msghdr *m, ssize_t size)
{
	struct sr_wire_message v;

	sr_get_message_fields(c, &v);
	if (v.name.n > name_room(m) || v.control.n > (m->msg_control ? m->msg_controllen : 0)) {
		c->bad = true;
		return;
	}
	if (m->msg_name) {
		memcpy(m->msg_name, v.name.p, v.name.n);
		m->msg_namelen = v.name_length;
	}
	if (m->msg_control)
		memcpy(m->msg_control, v.control.p, v.control.n);
	m->msg_controllen = v.control.n;
	m->msg_flags = (int)v.flags;
	sr_scatter(c, v.data, m->msg_iov, m->msg_iovlen);
}

void sr_deliver_messages(struct sr_cursor *c, struct mmsghdr *m, int n)
{
	if (sr_get_u32(c) != (uint32_t)n) {
		c->bad = true;
		return;
	}
	for (int i = 0; i < n && !c->bad; i++) {
		sr_deliver_message(c, &m[i].msg_hdr, 0);
		m[i].msg_len = sr_get_u32(c);
	}
}

/* --------------------------------------------------------- descriptor sets */

static size_t bytes_of_bits(int n)
{
	return n > 0 ? ((size_t)n + CHAR_BIT - 1) / CHAR_BIT : 0;
}

/* The kernel reads n bits.  The bits after them are undefined. */
void sr_put_fdset(struct sr_buf *b, const fd_set *set, int n)
{
	const uint8_t *bytes = (const uint8_t *)set;
	uint32_t bits = set && n > 0 ? (uint32_t)n : 0, whole = bits / CHAR_BIT,
		 rest = bits % CHAR_BIT;

	sr_put_u32(b, whole + (rest != 0));
	sr_put_raw(b, set ? bytes : (const uint8_t *)"", whole);
	if (rest)
		sr_put_u8(b, (uint8_t)(bytes[whole] & ((1u << rest) - 1)));
}

void sr_deliver_fdset(struct sr_cursor *c, fd_set *set, int n)
{
	struct sr_bytes v = sr_get_bytes(c);

	if (!set || v.n > bytes_of_bits(n)) {
		c->bad = true;
		return;
	}
	memcpy(set, v.p, v.n);
}

/* The numbers below nfds that are in the set, as bits. */
void sr_put_fd_numbers(struct sr_buf *b, const fd_set *set, int nfds)
{
	uint8_t bits[sizeof(fd_set)] = {0};
	int n = nfds < 0 ? 0 : nfds > FD_SETSIZE ? FD_SETSIZE : nfds;

	for (int fd = 0; set && fd < n; fd++)
		if (FD_ISSET(fd, set))
			bits[fd / CHAR_BIT] |= (uint8_t)(1 << fd % CHAR_BIT);
	sr_put_bytes(b, set ? bits : NULL, bytes_of_bits(n));
}

/* ------------------------------------------------------------------- ioctl */

#define KERNEL_TERMIOS_BYTES 36

size_t sr_ioctl_answer_size(uint64_t request)
{
	switch (request) {
	case TCGETS:
		return KERNEL_TERMIOS_BYTES;
	case TIOCGWINSZ:
		return sizeof(struct winsize);
	case FIONREAD:
	case TIOCOUTQ:
	case TIOCGPGRP:
	case TIOCGSID:
	case TIOCMGET:
	case TIOCGETD:
	case FIOGETOWN:
	case SIOCGPGRP:
	case SIOCATMARK:
		return sizeof(int);
	case FIOQSIZE:
		return sizeof(loff_t);
	case SIOCGIFCONF:
		return sizeof(struct ifconf);
	}
	if (request >= SIOCGIFNAME && request <= SIOCGIFINDEX)
		return sizeof(struct ifreq);
	if (request >= SIOCETHTOOL && request <= SIOCGMIIREG)
		return sizeof(struct ifreq);
	if (request >> _IOC_SIZESHIFT && _IOC_DIR(request) & _IOC_READ)
		return _IOC_SIZE(request);
	return 0;
}

/* What the answer points to. */
static struct iovec behind_answer(uint64_t request, void *answer)
{
	struct ifreq *interface = answer;
	struct iovec more = {0};

	if (request == SIOCGIFCONF) {
		more.iov_base = ((struct ifconf *)answer)->ifc_buf;
		more.iov_len = more.iov_base ? (size_t)((struct ifconf *)answer)->ifc_len : 0;
	} else if (request == SIOCETHTOOL && interface->ifr_data) {
		more.iov_base = interface->ifr_data;
		switch (*(uint32_t *)interface->ifr_data) {
		case ETHTOOL_GSET:
			more.iov_len = sizeof(struct ethtool_cmd);
			break;
		case ETHTOOL_GDRVINFO:
			more.iov_len = sizeof(struct ethtool_drvinfo);
			break;
		case ETHTOOL_GLINK:
			more.iov_len = sizeof(struct ethtool_value);
			break;
		}
	}
	return more;
}

void sr_put_ioctl_answer(struct sr_buf *b, uint64_t request, uint64_t arg)
{
	size_t size = arg ? sr_ioctl_answer_size(request) : 0;
	struct iovec more = {0};

	if (size)
		more = behind_answer(request, (void *)arg);
	sr_put_u32(b, (uint32_t)(size + more.iov_len));
	sr_put_raw(b, size ? (void *)arg : "", size);
	sr_put_raw(b, more.iov_len ? more.iov_base : "", more.iov_len);
}

void sr_deliver_ioctl_answer(struct sr_cursor *c, uint64_t request, uint64_t arg)
{
	struct sr_bytes v = sr_get_bytes(c);
	size_t size = arg ? sr_ioctl_answer_size(request) : 0;
	struct iovec more;

	if (v.n < size) {
		c->bad = true;
		return;
	}
	if (!size)
		return;
	/* ethtool's command is in the program's memory; SIOCGIFCONF's pointer is in the answer. */
	more = behind_answer(request, request == SIOCGIFCONF ? (void *)v.p : (void *)arg);
	memcpy((void *)arg, v.p, size);
	if (v.n != size + more.iov_len) {
		c->bad = true;
		return;
	}
	if (more.iov_len)
		memcpy(more.iov_base, (const char *)v.p + size, more.iov_len);
}

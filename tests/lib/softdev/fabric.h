/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fabric.h: what the processes on a software device share: queues, regions, pages.
 *
 * A *fabric* is one file, which each of its processes maps as a whole: tables first, pages behind
 * them.  It holds everything that a network card would know, so that each process can execute the
 * requests of all: nothing needs the help of the process whose memory is read or written.
 * References within are indices and offsets, because each process has the file at another address.
 *
 * With SOFTDEV_FABRIC=DIR in the environment the file is DIR/softdev.memory, and a driver process
 * (driver.c) executes what no process's own calls execute in time.  Without it, the fabric is a
 * process's own.
 *
 * One lock guards all of it.
 */
#ifndef SOFTDEV_FABRIC_H
#define SOFTDEV_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * What newer headers name IBV_WR_FLUSH, IBV_WC_FLUSH, IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, IBV_QP_EX_WITH_FLUSH; and
 * IBV_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE.
 */
#define SD_WR_FLUSH		   14
#define SD_WC_FLUSH		   8
#define SD_WR_ATOMIC_WRITE	   15
#define SD_WC_ATOMIC_WRITE	   9
#define SD_ACCESS_FLUSH_GLOBAL     (1u << 8)
#define SD_ACCESS_FLUSH_PERSISTENT (1u << 9)
#ifdef SR_HAS_WR_FLUSH
#define SD_EX_WITH_FLUSH (1u << 11)
#else
#define SD_EX_WITH_FLUSH 0u
#endif
#ifdef SR_HAS_WR_ATOMIC_WRITE
#define SD_EX_WITH_ATOMIC_WRITE (1u << 12)
#else
#define SD_EX_WITH_ATOMIC_WRITE 0u
#endif

#define SD_PAGE        4096ul
#define SD_MAX_WR      16384
#define SD_MAX_SGE     16
#define SD_MAX_INLINE  1024
#define SD_MAX_QP      32768 /* a power of two */
#define SD_MAX_CQ      32768
#define SD_MAX_SRQ     4096
#define SD_MAX_REGION  65536
#define SD_MAX_CHANNEL 8192
#define SD_MAX_PROCESS 1024
#define SD_MAX_MEMBER  256 /* of multicast groups */
#define SD_NEVER       UINT64_MAX

/* Times are in ns of CLOCK_MONOTONIC; all are 0 if the device has no model of time. */

/* A process that has opened the device; its place is free again when it ends. */
struct sd_process {
	int32_t pid; /* 0: free */
	uint32_t contexts;
	/* When its port has sent, and received for its READs, all that was posted so far. */
	uint64_t sends_until, reads_until;
};

/* Events that wait to be taken: of completion queues, or a context's asynchronous ones. */
struct sd_channel {
	uint32_t process; /* + 1; 0: free */
	uint32_t generation;
	uint64_t ring; /* SD_EVENTS of uint64_t */
	uint32_t head, tail;
	int32_t writer; /* in a fabric of one process: the other end of the program's descriptor */
};

#define SD_EVENTS (SD_PAGE / sizeof(uint64_t))

/* A slot of a queue is free again when the completion of its request is polled. */
struct sd_cqe {
	struct ibv_wc wc;
	uint32_t index; /* of the request in its queue */
	uint32_t srqn;  /* a shared queue's number, or 0 */
	bool sent;
	bool solicited;
};

enum sd_armed {
	SD_ARMED_NOT,
	SD_ARMED_SOLICITED,
	SD_ARMED_ANY,
};

struct sd_cq {
	uint32_t process; /* + 1; 0: free */
	uint32_t size, head, tail;
	uint64_t ring;
	uint64_t object;  /* struct ibv_cq of its process */
	uint32_t channel; /* + 1 */
	uint32_t async;   /* channel of its context, + 1 */
	uint32_t users;
	enum sd_armed armed;
	uint32_t missed[SD_ARMED_ANY + 1]; /* by what would have reported it: behind the last one that came unreported */
	bool overrun;
};

struct sd_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[];
};

/* A queue pair's receive queue or a shared one. */
struct sd_rq {
	uint64_t ring;
	uint32_t size, max_sge, stride;
	/* Slots up to freed are free again, up to head received into, up to tail posted. */
	uint32_t freed, head, tail;
	uint32_t srqn; /* 0: a queue pair's */
	uint64_t asked;
};

struct sd_srq {
	uint32_t process; /* + 1; 0: free */
	uint32_t pd;
	uint32_t cq; /* + 1; XRC */
	uint32_t limit;
	uint32_t users;
	uint32_t async;
	uint64_t object, name;
	struct sd_rq rq;
};

struct sd_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	__be32 imm_data; /* or the key to invalidate */
	uint32_t rkey;
	uint64_t remote_addr;
	union {
		struct {
			uint64_t compare_add, swap;
		};
		struct {
			uint64_t bind_addr, bind_length;
			uint32_t bind_key, bind_access; /* of the region */
			uint32_t bind_new;              /* key of the memory window */
		};
		struct {
			uint64_t flush_length;
			uint32_t flush_access; /* that the region must have */
		};
		union ibv_gid dgid; /* UD */
	};
	uint32_t remote_qpn, remote_qkey, remote_srqn;
	uint8_t sgid_index;
	bool is_global; /* UD: the datagram has a global header */
	/* When it takes effect at the peer, and when its completion is here. */
	uint64_t effect, done;
	/* After its effect: the completion, and what an atomic found. */
	int status;
	uint32_t length;
	uint64_t found;
	uint32_t num_sge;
	uint32_t inline_length;
	union {
		struct ibv_sge sge[0];
		uint8_t inline_data[0];
	};
};

struct sd_qp {
	uint32_t number;  /* 0: free */
	uint32_t process; /* + 1 */
	uint8_t type;
	uint8_t state;
	bool sq_sig_all;
	/* Without a peer (in a fabric of one process): requests complete at once and move nothing.
	 */
	bool connected;
	bool active;         /* in the list of those with outstanding sends */
	uint32_t next, prev; /* in that list: index + 1 */
	uint32_t pd;
	uint32_t send_cq, recv_cq, srq, async; /* + 1 */
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	uint64_t object, name;
	/* Slots up to freed are free again, up to done completed, up to next executed, up to tail
	 * posted. */
	uint64_t sq;
	uint32_t sq_stride;
	uint32_t sq_freed, sq_done, sq_next, sq_tail;
	uint64_t asked; /* requests that were to be posted */
	/* The request at sq_next waits for its receiver: until when, and how often it has. */
	uint64_t retry_at, give_up_at;
	uint32_t retries;
	bool stopped; /* a request failed, and its completion is not here yet */
	struct sd_rq rq;
};

/* A part of a region: pages of the fabric, or memory that only its process has. */
struct sd_piece {
	uint64_t length;
	uint64_t at; /* offset in the fabric, or address in the process */
	bool foreign;
	bool twin; /* foreign, and a mapping of the device's own */
};

#define SD_PIECES 8

enum sd_kind {
	SD_REGION,
	SD_WINDOW_1,
	SD_WINDOW_2,
};

/* A memory region or a memory window. */
struct sd_region {
	uint32_t process; /* + 1; 0: free */
	uint32_t key;     /* the current one */
	uint8_t kind;
	bool bound; /* of a window */
	uint32_t pd;
	uint32_t access;
	uint64_t iova, length;
	uint32_t parent;  /* of a window: index of its region */
	uint32_t qpn;     /* of a window of type 2 */
	uint32_t windows; /* bound to this region */
	uint32_t pieces;
	struct sd_piece piece[SD_PIECES];
};

struct sd_member {
	union ibv_gid group;
	uint32_t qpn; /* 0: free */
};

struct sd_fabric {
	uint32_t lock; /* the holder's thread number, with SD_WAITED */
	uint32_t version;
	uint64_t id; /* in the names of sockets */
	uint64_t size;

	/* The model of time. */
	uint64_t latency;
	uint64_t bytes_per_us; /* 0: no limit */

	bool reports_later_only; /* completions that come after a queue is armed, as Soft-RoCE does */
	bool infiniband; /* its link: ports have a LID, and datagrams need no global header */

	uint64_t random_state; /* 0: requests are executed in order of their times */
	uint64_t next_due;     /* of all active queue pairs; no later than that */
	uint32_t active;       /* first of the list, + 1 */
	uint32_t next_process, next_pd, next_qpn, generations;

	/* Of each table: entries before `high` were in use at some time, those before `low` are
	 * now. */
	struct {
		uint32_t low, high;
	} channel_use, cq_use, srq_use, region_use;
	uint32_t qps_high;

	uint64_t driver_wakes_at;

	/* Requests executed, and those of them by the driver. */
	uint64_t executed, driven;

	/* Pages behind the tables; for each a uint16_t that says whose it is (pages.c). */
	uint64_t pages_at, pages;
	uint64_t page_cursor, pages_high;
	uint64_t page_map_at, page_users_at;

	struct sd_process processes[SD_MAX_PROCESS];
	struct sd_channel channels[SD_MAX_CHANNEL];
	struct sd_cq cqs[SD_MAX_CQ];
	struct sd_srq srqs[SD_MAX_SRQ];
	uint16_t srq_uses[SD_MAX_SRQ];
	struct sd_qp qps[SD_MAX_QP];
	struct sd_region regions[SD_MAX_REGION];
	uint8_t key_uses[SD_MAX_REGION]; /* the low bits of each place's last key */
	struct sd_member members[SD_MAX_MEMBER];
};

extern struct sd_fabric *sd_fabric;
extern uint32_t sd_process; /* our place, + 1 */
extern bool sd_is_shared;   /* with other processes */
extern bool sd_has_driver;

/* 0, or -errno.  Call before anything else; cheap when it is done. */
int sd_fabric_attach(void);
/* The driver's: makes the fabric in that directory. */
int sd_fabric_make(const char *directory);

static inline void *sd_at(uint64_t offset)
{
	return (char *)sd_fabric + offset;
}

static inline struct sd_cq *sd_cq(uint32_t index_1)
{
	return index_1 ? &sd_fabric->cqs[index_1 - 1] : NULL;
}

static inline struct sd_send *sd_send(const struct sd_qp *qp, uint32_t index)
{
	return sd_at(qp->sq + (uint64_t)(index % qp->cap.max_send_wr) * qp->sq_stride);
}

static inline struct sd_recv *sd_recv(const struct sd_rq *rq, uint32_t index)
{
	return sd_at(rq->ring + (uint64_t)(index % rq->size) * rq->stride);
}

struct sd_qp *sd_qp_find(uint32_t number);
struct sd_srq *sd_srq_find(uint32_t number);

/* A process without threads, alone in its fabric, takes no lock. */
void sd_lock(void);
void sd_unlock(void);

/* The time now; 0 without a model of time. */
uint64_t sd_now(void);

/* ---- pages.c; with the lock held ---- */

/* Offset of `bytes` (rounded to pages) that are 0 and ours; 0 if there is no room. */
uint64_t sd_pages_take(uint64_t bytes);
void sd_pages_give(uint64_t offset, uint64_t bytes);
void sd_pages_give_of(uint32_t process_1);
/* How many regions have this page; guarded by the process whose page it is. */
uint16_t *sd_page_users(uint64_t offset);

static inline uint64_t sd_round_up(uint64_t bytes)
{
	return (bytes + SD_PAGE - 1) & ~(SD_PAGE - 1);
}

/* ---- device.c ---- */

/* The port's addresses, by index. */
#define SD_GIDS 2
extern const union ibv_gid sd_gids[SD_GIDS];

/* The port's LID, which is also its subnet manager's; ethernet has none. */
static inline uint16_t sd_lid(void)
{
	return sd_fabric->infiniband ? 1 : 0;
}

/* ---- events.c ---- */

/* Puts an event into a channel and wakes who waits there. */
void sd_channel_push(uint32_t channel_1, uint64_t event);
void sd_async(uint32_t channel_1, enum ibv_event_type type, uint32_t index);
void sd_channel_remove(uint32_t channel_1);

/* ---- memory.c ---- */

/* The fabric is mapped; this is its file. */
void sd_memory_begin(int fd);
/* In the child of a fork: what the parent registered becomes the child's own again. */
void sd_memory_begin_child(void);

/* ---- regions.c ---- */

void sd_region_remove(struct sd_region *region);

/* ---- cq.c; with the lock held ---- */

void sd_cq_push(struct sd_cq *cq, const struct sd_cqe *cqe);
/* Removes the completions of a queue pair that is reset. */
void sd_cq_forget(struct sd_cq *cq, uint32_t qpn);

/* ---- wire.c; with the lock held ---- */

/* Puts the queue pair into the error state and flushes all posted requests. */
void sd_qp_fail(struct sd_qp *qp);
/* What has left the port arrives, whatever becomes of the queue pair now. */
void sd_qp_finish_sent(struct sd_qp *qp, uint64_t now);
void sd_complete_unsent(struct sd_qp *qp, struct sd_send *send, enum ibv_wc_status status);
/* Executes or completes one request that is due; false if none is. */
bool sd_step(struct sd_qp *qp, uint64_t now);
/* When sd_step() has to be called next. */
uint64_t sd_due(const struct sd_qp *qp);

/* ---- progress.c; with the lock held ---- */

/* Gives the request that was posted last its times, and makes its queue pair active. */
void sd_posted(struct sd_qp *qp, struct sd_send *send, uint64_t bytes, uint64_t now);
/* Executes the requests that are due. */
void sd_progress(uint64_t now);
/* Executes all that can be executed (a device without times, with a seed). */
void sd_finish(void);
void sd_activate(struct sd_qp *qp);
void sd_deactivate(struct sd_qp *qp);
void sd_wake_driver(void);
void sd_read_settings(void);
/* Executes or completes so many requests of randomly chosen queue pairs, as far as there are any.
 */
void sd_random_steps(uint32_t n);
uint32_t sd_chance(uint32_t below);

/* SOFTDEV_FAULTS: does the n-th operation of this object fail? */
bool sd_fails(uint64_t name, uint64_t n, uint32_t one_in);

/* ---- fabric.c ---- */

/* Removes all that a process has left; called when it has ended, with the lock held. */
void sd_process_remove(uint32_t process_1);

/*
 * Takes an entry of a table of `max` whose entries begin with `uint32_t process`, 0 in free ones.
 * Returns its index + 1, with the entry zeroed and ours; 0 if none is free.
 */
#define SD_TAKE(table, use, max)                                                                   \
	sd_take_entry(sd_fabric->table, sizeof(sd_fabric->table[0]), &sd_fabric->use.low,          \
		      &sd_fabric->use.high, max)
uint32_t sd_take_entry(void *table, size_t size, uint32_t *low, uint32_t *high, uint32_t max);
/* The entry is free again: `low` is the table's. */
void sd_give_entry(uint32_t *low, uint32_t index_1);

/* ---- cq.c, srq.c, qp.c: with the lock held; what a process leaves ---- */

void sd_cq_remove(struct sd_cq *cq);
void sd_srq_remove(struct sd_srq *srq);
void sd_qp_remove(struct sd_qp *qp);

#endif

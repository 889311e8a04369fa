/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/run_token.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "logd/base/rawsys.h"
#include "logd/base/lock.h"
#include "shim/core/phases.h"
#include "shim/core/stall_timeout.h"

bool sr_serial;

/*
 * The word holds the thread that has the token (number + 1), how often the token was put
 * down, and its state. A waiting thread that reads the same word twice, in state OUT, knows
 * that the holder made no call in between.
 */
enum { FREE, IN, OUT, RELEASED }; /* IN: at work in the shim; OUT: in the program's code */

#define STATE(word) ((word)&3)
#define ONCE        4ull
#define OWNER_SHIFT 40
#define OWNER(word) ((uint32_t)((word) >> OWNER_SHIFT))

/*
 * After this time, the first waiting thread gets the token at the holder's next call.  Where holders that computed were found
 * to spin, one that makes calls has it longer: it may be the one for which they wait.
 */
#define SLICE_NS    200000
#define TURN_MAX_NS 10000000
#define OTHERS_NS   2000000 /* the threads behind the first one check again */
/* If more wait, that takes longer in proportion, and the one that has become the first is woken. */
#define FEW 8
/*
 * A holder that stays in one call of the shim, where it waits for the daemon for example, gives the token away at that
 * call's end.  So it is looked at less and less often: many processes that wait so leave the daemon its processor.
 */
#define STAYS_MAX_NS 50000000

/*
 * How long a thread may compute before it is asked to stop: shorter while those that are asked only spin. A thread
 * that cannot stop where it is, in a lock of the shim's for example, is asked again when it has gone on for a moment.
 */
#define SLICE_MIN_NS 300000
#define SLICE_MAX_NS (2ll * SR_TOKEN_MS * 1000000)
#define ASKS_MAX     32
#define ASK_AGAIN_NS 1000000
/*
 * One that cannot stop where it is, in code that is in no file for example, may soon be where it can.  Each time that it is asked
 * costs it some milliseconds, so it is asked less and less often.
 */
#define PATIENCE_NS 2000000000ll
/* Behind a call where it parts, or where it is not known whether threads compute. */
#define SLICE_SOON_NS 200000
#define SPINS       60

enum { WAITS, POKED, GIVEN };

/* A waiting thread; on that thread's stack. */
struct waiter {
	struct waiter *next;
	uint64_t word; /* the value of the run token when this thread has it */
	int32_t tid;
	_Atomic uint32_t state;
	int64_t since;
	/* The word of a holder in the program's code, when it was first seen. */
	uint64_t seen;
	struct sr_stall stall_timeout;
	uint32_t asked; /* how often that holder was asked to stop */
	int64_t pause;  /* after it said that it could not yet: until it is asked again; 0: it has not */
	int64_t waited; /* the part of that holder's time that is known to phases.h */
	int64_t steps;  /* the time of steps when it was first seen */
	int64_t steps_asked; /* ... and when it was last asked */
	int64_t sampled; /* when the holder was last looked at */
	/* The word of a holder in the shim, and since when it has been seen there. */
	uint64_t inside;
	int64_t inside_since;
};

static struct {
	_Alignas(64) _Atomic uint64_t word;
	_Atomic uint32_t waiting;
	_Atomic bool due; /* the first waiting thread must get the token */
	_Atomic(const struct sr_token_hold *) last; /* its thread ends the process; NULL: none does */
	_Atomic int32_t tid; /* the holder's */
	_Atomic uintptr_t site; /* of the call behind which it runs */
	_Atomic uint32_t parted; /* how many threads are */
	_Atomic uint64_t unstoppable; /* the word of a holder that will not stop */
	_Atomic uint64_t later;       /* ... of one that could not, and may be able to soon */
	_Atomic uint64_t stopping;    /* ... of one that is looking for a place */
	_Atomic int64_t steps_ns;     /* how long threads have looked for one, in their time */
	_Atomic int64_t slice_ns; /* how long a holder computes before it is asked to stop */
	_Atomic int64_t turn_ns;  /* how long one that makes calls has the token before the first waiting thread is due */
	_Atomic int64_t turn_began;
	struct sr_lock lock; /* of the queue */
	struct waiter *first, **end;
} run_token = {.slice_ns = SR_TOKEN_MS * 1000000ll, .turn_ns = SLICE_NS, .end = &run_token.first};

void (*sr_token_stop_holder)(int32_t tid);

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* ------------------------------------------------------------------ queue */

static void wake(struct waiter *w)
{
	sr_sys_futex((uint32_t *)&w->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void enqueue(struct waiter *w)
{
	sr_lock(&run_token.lock);
	*run_token.end = w;
	run_token.end = &w->next;
	atomic_fetch_add(&run_token.waiting, 1);
	sr_unlock(&run_token.lock);
}

/* Wakes the first waiting thread, which then tries to get the token. Called with the lock held. */
static void poke_first(void)
{
	uint32_t waits = WAITS;
	struct waiter *w = run_token.first;

	if (w && atomic_compare_exchange_strong(&w->state, &waits, POKED))
		wake(w);
}

/* Called with the lock held. */
static void take_out(struct waiter **link)
{
	struct waiter *w = *link;

	*link = w->next;
	if (run_token.end == &w->next)
		run_token.end = link;
	if (atomic_fetch_sub(&run_token.waiting, 1) > FEW && link == &run_token.first)
		poke_first();
}

static void dequeue(struct waiter *w)
{
	struct waiter **link;

	sr_lock(&run_token.lock);
	for (link = &run_token.first; *link && *link != w; link = &(*link)->next)
		;
	if (*link)
		take_out(link);
	sr_unlock(&run_token.lock);
}

static bool is_first(struct waiter *w)
{
	bool is;

	sr_lock(&run_token.lock);
	is = run_token.first == w;
	sr_unlock(&run_token.lock);
	return is;
}

static void poke(void)
{
	sr_lock(&run_token.lock);
	poke_first();
	sr_unlock(&run_token.lock);
}

/* Called by the holder, in state IN.  False: no thread waits. */
static bool give(void)
{
	struct waiter *w;

	sr_lock(&run_token.lock);
	w = run_token.first;
	if (w) {
		take_out(&run_token.first);
		atomic_store(&run_token.due, false);
		atomic_store(&run_token.tid, w->tid);
		atomic_store(&run_token.word, w->word);
		/* From here on *w may be gone; then the futex call wakes no thread. */
		atomic_store(&w->state, GIVEN);
		wake(w);
	}
	sr_unlock(&run_token.lock);
	return w;
}

/* ------------------------------------------------- holders without a call */

static void watch(struct waiter *w, uint64_t word)
{
	int32_t tid = atomic_load(&run_token.tid);

	w->seen = atomic_load(&run_token.word) == word ? word : 0;
	w->asked = 0;
	w->pause = 0;
	w->waited = 0;
	w->steps = atomic_load(&run_token.steps_ns);
	sr_stall_begin(&w->stall_timeout, tid);
}

/* How long it has computed, without its steps. */
static int64_t used(const struct waiter *w)
{
	return sr_stall_used(&w->stall_timeout) - (atomic_load(&run_token.steps_ns) - w->steps);
}

/* Its steps are few, but for a handler of the program's among them, which may wait. */
static bool is_stopping(struct waiter *w, uint64_t word)
{
	return atomic_load(&run_token.stopping) == word && sr_stall_used(&w->stall_timeout) < PATIENCE_NS &&
	       !sr_stall_sleeps(&w->stall_timeout);
}

/*
 * Asks a holder that computes to stop, so that the token changes hands at a place that a replay finds again. False:
 * it does not compute, or it was asked often enough.
 */
static bool ask_to_stop(struct waiter *w, uint64_t word)
{
	struct sr_stall *s = &w->stall_timeout;
	int64_t computed = used(w), steps = atomic_load(&run_token.steps_ns);

	/* It was asked in vain, and is asked again. */
	if (atomic_load(&run_token.later) == word) {
		atomic_store(&run_token.later, 0);
		w->asked = 1;
		w->pause = computed / 4 > ASK_AGAIN_NS ? computed / 4 : ASK_AGAIN_NS;
	}
	if (!sr_token_stop_holder || w->asked == ASKS_MAX || atomic_load(&run_token.unstoppable) == word || !sr_stall_computes(s))
		return false;
	if (w->pause && computed >= PATIENCE_NS)
		return false;
	/* On a busy machine it may not get to it for long. */
	if (w->asked && !sr_stall_goes_on(s, (w->pause ? w->pause : ASK_AGAIN_NS) + steps - w->steps_asked))
		return !sr_stall_sleeps(s);
	w->asked++;
	w->steps_asked = steps;
	sr_token_stop_holder(s->tid);
	return true;
}

/* The holder is still in the code where it was seen. */
static void note_cost(struct waiter *w)
{
	int64_t computed = used(w);

	sr_phase_costs(atomic_load(&run_token.site), computed - w->waited, sr_stall_now());
	w->waited = computed;
}

/* A holder that makes calls: where it is known to compute between them, each look at it stands for the time since the last. */
static void note_sample(struct waiter *w)
{
	int64_t now = sr_stall_now();
	uintptr_t site = atomic_load(&run_token.site);

	if (site & SR_PHASE_KNOWN && w->sampled)
		sr_phase_costs(site, now - w->sampled, now);
	w->sampled = now;
}

static int64_t slice(void)
{
	int64_t ns = atomic_load(&run_token.slice_ns);
	uintptr_t site = atomic_load(&run_token.site);

	return ns > SLICE_SOON_NS && (sr_phase_parts(site) || sr_phase_is_doubtful(site)) ? SLICE_SOON_NS : ns;
}

/* True if the waiter has the token now; thread *from had it. */
static bool preempt(struct waiter *w, uint32_t *from)
{
	uint64_t word = atomic_load(&run_token.word);

	if (STATE(word) != OUT)
		return false;
	if (word != w->seen) {
		note_sample(w);
		watch(w, word);
		return false;
	}
	if (is_stopping(w, word))
		return false;
	note_cost(w);
	w->sampled = 0;
	if (!sr_stall_ends(&w->stall_timeout, slice()) || ask_to_stop(w, word) ||
	    !atomic_compare_exchange_strong(&run_token.word, &word, w->word))
		return false;
	*from = OWNER(word) - 1;
	return true;
}

bool sr_token_is_asked_for(const struct sr_token_hold *h)
{
	return h->begun && STATE(h->word) == OUT && atomic_load(&run_token.word) == h->word &&
	       atomic_load(&run_token.waiting);
}

void sr_token_begin_stop(struct sr_token_hold *h)
{
	h->stopping_at = sr_stall_own_time();
	atomic_store(&run_token.stopping, h->word);
}

void sr_token_end_stop(struct sr_token_hold *h)
{
	atomic_fetch_add(&run_token.steps_ns, sr_stall_own_time() - h->stopping_at);
	atomic_store(&run_token.stopping, 0);
}

void sr_token_ask_later(const struct sr_token_hold *h)
{
	atomic_store(&run_token.later, h->word);
}

void sr_token_refuse_to_stop(const struct sr_token_hold *h)
{
	atomic_store(&run_token.unstoppable, h->word);
}

static void adapt(_Atomic int64_t *ns, bool longer, int64_t min, int64_t max)
{
	int64_t adapted = longer ? atomic_load(ns) * 2 : atomic_load(ns) / 2;

	atomic_store(ns, adapted < min ? min : adapted > max ? max : adapted);
}

void sr_token_adapt_slice(bool spun)
{
	adapt(&run_token.slice_ns, !spun, SLICE_MIN_NS, SLICE_MAX_NS);
	adapt(&run_token.turn_ns, spun, SLICE_NS, TURN_MAX_NS);
}

/* ------------------------------------------------------------------- run token */

static bool is_to_be_had(uint64_t word)
{
	return STATE(word) == FREE || STATE(word) == RELEASED;
}

static bool try(uint64_t mine)
{
	uint64_t word = atomic_load(&run_token.word);

	return is_to_be_had(word) && atomic_compare_exchange_strong(&run_token.word, &word, mine);
}

static bool try_for_a_while(const struct waiter *w)
{
	for (int i = 0; i < SPINS && atomic_load(&w->state) != GIVEN; i++) {
		if (try(w->word))
			return true;
		relax();
	}
	return false;
}

/* How long the first one waits until it looks again. */
static int64_t time_to_look(struct waiter *w)
{
	uint64_t word = atomic_load(&run_token.word);
	int64_t now = sr_stall_now(), ns;

	if (STATE(word) != IN || word != w->inside) {
		w->inside = word;
		w->inside_since = now;
	}
	ns = (now - w->inside_since) / 4;
	return ns < SLICE_NS ? SLICE_NS : ns > STAYS_MAX_NS ? STAYS_MAX_NS : ns;
}

static bool has_waited_long(const struct waiter *w)
{
	int64_t now = sr_stall_now();

	return now - w->since >= SLICE_NS && now - atomic_load(&run_token.turn_began) >= atomic_load(&run_token.turn_ns);
}

static void sleep_a_little(struct waiter *w)
{
	bool first = is_first(w);
	const int64_t ns = first ? time_to_look(w)
				 : OTHERS_NS * (1 + (int64_t)atomic_load(&run_token.waiting) / FEW);
	const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	uint32_t poked = POKED;

	atomic_compare_exchange_strong(&w->state, &poked, WAITS);
	/* The releasing thread first stores the word and then checks for waiting threads. */
	if (is_to_be_had(atomic_load(&run_token.word)) || atomic_load(&run_token.last))
		return;
	sr_sys_futex((uint32_t *)&w->state, FUTEX_WAIT_PRIVATE, WAITS, &t);
	if (first && has_waited_long(w))
		atomic_store(&run_token.due, true);
}

static enum sr_token_got wait_in_line(struct waiter *w, uint32_t *from)
{
	enum sr_token_got got = SR_TOKEN_PASSED;

	enqueue(w);
	while (!try_for_a_while(w)) {
		if (atomic_load(&w->state) == GIVEN)
			return SR_TOKEN_PASSED;
		if (atomic_load(&run_token.last))
			break;
		if (preempt(w, from)) {
			got = SR_TOKEN_PREEMPTED;
			break;
		}
		sleep_a_little(w);
	}
	dequeue(w);
	return got;
}

/*
 * Block all signals that are sent: no handler, and no cancellation by libc, may take the thread out of the queue.  But it
 * may fault, in libc's code for example, into which another thread is writing a jump (exposed/probe/patch.c).
 */
#define BIT(signo) (1ull << ((signo)-1))
#define SENT (~(BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGTRAP) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGSYS)))

static enum sr_token_got wait_undisturbed(uint64_t mine, int32_t tid, uint32_t *from)
{
	struct waiter w = {.word = mine, .tid = tid, .since = sr_stall_now()};
	const uint64_t sent = SENT;
	uint64_t mask = 0;
	enum sr_token_got got;

	sr_syscall(SYS_rt_sigprocmask, SIG_BLOCK, SR_ARG(&sent), SR_ARG(&mask), sizeof(sent), 0, 0);
	got = wait_in_line(&w, from);
	sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(&mask), 0, sizeof(mask), 0, 0);
	return got;
}

static void note_got(struct sr_token_hold *h, enum sr_token_got got)
{
	if (got > h->got)
		h->got = got;
}

static void end_parting(struct sr_token_hold *h)
{
	h->parted_at = 0;
	atomic_fetch_sub(&run_token.parted, 1);
}

/* True if the process ends. Only the thread that ends it returns then. */
static bool is_over(const struct sr_token_hold *h)
{
	static const struct timespec a_second = {.tv_sec = 1};
	const struct sr_token_hold *last = atomic_load_explicit(&run_token.last, memory_order_relaxed);

	while (last && last != h)
		sr_sys_nanosleep(&a_second);
	return last;
}

void sr_token_take(struct sr_token_hold *h, uint32_t number)
{
	uint64_t was = h->word, mine = (was & ~3ull) | IN;

	if (is_over(h))
		return;
	if (h->parted_at)
		end_parting(h);
	if (h->begun && atomic_compare_exchange_strong(&run_token.word, &was, mine)) {
		h->word = mine;
		return;
	}
	if (!h->begun) {
		mine = (uint64_t)(number + 1) << OWNER_SHIFT | IN;
		h->tid = (int32_t)sr_sys_gettid();
		h->begun = true;
	}
	note_got(h, try(mine) ? SR_TOKEN_PASSED : wait_undisturbed(mine, h->tid, &h->from));
	atomic_store(&run_token.turn_began, sr_stall_now());
	atomic_store(&run_token.due, false);
	is_over(h);
	atomic_store(&run_token.tid, h->tid);
	h->word = mine;
}

bool sr_token_keep(struct sr_token_hold *h)
{
	uint64_t was = h->word, mine = (was & ~3ull) | IN;

	if (!h->begun || STATE(was) != OUT || !atomic_compare_exchange_strong(&run_token.word, &was, mine))
		return false;
	h->word = mine;
	return true;
}

bool sr_token_keep_unwanted(struct sr_token_hold *h)
{
	return !h->parted_at && !atomic_load_explicit(&run_token.last, memory_order_relaxed) && !sr_token_is_wanted() &&
	       sr_token_keep(h);
}

bool sr_token_is_wanted(void)
{
	return atomic_load_explicit(&run_token.waiting, memory_order_relaxed);
}

bool sr_token_is_due(void)
{
	/* The one that waited so long may have got the token by itself. */
	return sr_token_is_wanted() && atomic_load_explicit(&run_token.due, memory_order_relaxed);
}

bool sr_token_is_lost(const struct sr_token_hold *h)
{
	return h->begun && STATE(h->word) == OUT && atomic_load(&run_token.word) != h->word;
}

/* The token's word while a thread that has put it down as `word` goes on without it, and no other one has taken it. */
static uint64_t parted_word(uint64_t word)
{
	return (word & ~3ull) | RELEASED;
}

/* Returns a word that this thread has not used before; the caller stores it. */
SR_TOKEN_ASKED static uint64_t put_down(struct sr_token_hold *h, unsigned int state)
{
	const uint64_t count = (1ull << OWNER_SHIFT) - ONCE;

	h->word = (h->word & ~(count | 3)) | ((h->word + ONCE) & count) | state;
	return h->word;
}

void sr_token_go_on(struct sr_token_hold *h)
{
	atomic_store_explicit(&run_token.site, h->site, memory_order_relaxed);
	atomic_store_explicit(&run_token.word, put_down(h, OUT), memory_order_release);
}

void sr_token_release(struct sr_token_hold *h, enum sr_token_releasing how)
{
	uint64_t released = put_down(h, RELEASED);

	if (atomic_load_explicit(&run_token.waiting, memory_order_relaxed) &&
	    (how == SR_TOKEN_AWAY || atomic_load_explicit(&run_token.due, memory_order_relaxed)) && give())
		return;
	atomic_store(&run_token.word, released);
	if (how == SR_TOKEN_FOR_LONG && atomic_load(&run_token.waiting))
		poke();
}

bool sr_token_others_parted(void)
{
	return atomic_load_explicit(&run_token.parted, memory_order_relaxed);
}

bool sr_token_may_part(const struct sr_token_hold *h)
{
	/* Also if none waits yet: the thread would be stopped as soon as one does. */
	return sr_phase_parts(h->site);
}

void sr_token_part(struct sr_token_hold *h)
{
	uint64_t parted = put_down(h, OUT);

	h->parted_at = sr_stall_own_time();
	atomic_fetch_add(&run_token.parted, 1);
	if (sr_token_is_wanted() && give())
		return;
	atomic_store(&run_token.word, parted_word(parted));
	if (sr_token_is_wanted())
		poke();
}

bool sr_token_meets_again(struct sr_token_hold *h)
{
	uint64_t left = parted_word(h->word), mine = (left & ~3ull) | IN;

	if (!h->parted_at)
		return false;
	sr_phase_took(h->site, sr_stall_own_time() - h->parted_at, sr_stall_now());
	if (atomic_load(&run_token.parted) > 1 || !atomic_compare_exchange_strong(&run_token.word, &left, mine))
		return false;
	end_parting(h);
	atomic_store(&run_token.tid, h->tid);
	h->word = mine;
	return true;
}

bool sr_token_is_released(const struct sr_token_hold *h)
{
	return h->begun && STATE(h->word) == RELEASED;
}

void sr_token_drop(struct sr_token_hold *h)
{
	uint64_t was = h->word;

	if (h->parted_at)
		end_parting(h);
	if (h->begun && atomic_compare_exchange_strong(&run_token.word, &was, FREE))
		poke();
	*h = (struct sr_token_hold){0};
}

void sr_token_stop(const struct sr_token_hold *h)
{
	atomic_store(&run_token.last, h);
	sr_lock(&run_token.lock);
	for (struct waiter *w = run_token.first; w; w = w->next) {
		uint32_t waits = WAITS;

		if (atomic_compare_exchange_strong(&w->state, &waits, POKED))
			wake(w);
	}
	sr_unlock(&run_token.lock);
}

void sr_token_forget_others(struct sr_token_hold *h)
{
	run_token.lock = (struct sr_lock){0};
	run_token.first = NULL;
	run_token.end = &run_token.first;
	atomic_store(&run_token.waiting, 0);
	atomic_store(&run_token.parted, 0);
	atomic_store(&run_token.due, false);
	h->tid = (int32_t)sr_sys_gettid();
	atomic_store(&run_token.tid, h->tid);
}

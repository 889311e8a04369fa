/* SPDX-License-Identifier: BSD-2-Clause */
/* vector.c: after the Intel manual, volume 1, chapter 13. */
#include "shim/exposed/x86/vector.h"

#include <cpuid.h>
#include <string.h>

/* Where the pieces of a register are in the frame, and to which component each belongs. */
struct piece {
	uint32_t at, size, component;
};

#define XMM         160
#define HEADER      512
#define COMPONENT_X 1 /* xmm 0 to 15 */
#define COMPONENT_Y 2 /* the upper halves of ymm 0 to 15 */
#define COMPONENT_K 5 /* the mask registers */
#define COMPONENT_Z 6 /* those of zmm 0 to 15 */
#define COMPONENT_H 7 /* zmm 16 to 31 */

#define MAGIC1_AT   464
#define MAGIC1      0x46505853u
#define SIZE_AT     480 /* fx_sw_reserved.xstate_size */

static uint32_t offsets[8];

static uint32_t offset_of_component(uint32_t component)
{
	uint32_t a, b, c, d;

	if (!offsets[component]) {
		__cpuid_count(0xd, component, a, b, c, d);
		offsets[component] = b;
	}
	return offsets[component];
}

void vector_start(void)
{
	offset_of_component(COMPONENT_Y);
	offset_of_component(COMPONENT_K);
	offset_of_component(COMPONENT_Z);
	offset_of_component(COMPONENT_H);
}

static int pieces_of(unsigned int reg, struct piece p[3])
{
	if (reg >= 16) {
		p[0] = (struct piece){offset_of_component(COMPONENT_H) + (reg - 16) * 64, 64,
				      COMPONENT_H};
		return 1;
	}
	p[0] = (struct piece){XMM + reg * 16, 16, COMPONENT_X};
	p[1] = (struct piece){offset_of_component(COMPONENT_Y) + reg * 16, 16, COMPONENT_Y};
	p[2] = (struct piece){offset_of_component(COMPONENT_Z) + reg * 32, 32, COMPONENT_Z};
	return 3;
}

static char *frame_of(const ucontext_t *uc)
{
	return (char *)uc->uc_mcontext.fpregs;
}

void vector_frame(ucontext_t *uc, char *frame, uint32_t size)
{
	const uint32_t magic = MAGIC1;

	memcpy(frame + MAGIC1_AT, &magic, sizeof(magic));
	memcpy(frame + SIZE_AT, &size, sizeof(size));
	uc->uc_mcontext.fpregs = (fpregset_t)frame;
}

char *vector_xsave_frame(const ucontext_t *uc)
{
	char *frame = frame_of(uc);
	uint32_t magic = 0;

	if (frame)
		memcpy(&magic, frame + MAGIC1_AT, sizeof(magic));
	return magic == MAGIC1 ? frame : NULL;
}

#define MXCSR_AT    24
#define X87_MASKS   0x3f

bool vector_may_signal(const ucontext_t *uc)
{
	const char *frame = frame_of(uc);
	uint32_t mxcsr;

	if (!frame)
		return false;
	memcpy(&mxcsr, frame + MXCSR_AT, sizeof(mxcsr));
	return ~frame[0] & X87_MASKS || ~mxcsr & MXCSR_MASKS;
}

/* Does the frame have it?  It always has the first 512 bytes. */
static bool has(const char *frame, const struct piece *p)
{
	uint32_t magic, size;

	if (p->component == COMPONENT_X)
		return true;
	memcpy(&magic, frame + MAGIC1_AT, sizeof(magic));
	memcpy(&size, frame + SIZE_AT, sizeof(size));
	return magic == MAGIC1 && p->at + p->size <= size;
}

static uint64_t in_use(const char *frame)
{
	uint32_t magic;
	uint64_t bits;

	memcpy(&magic, frame + MAGIC1_AT, sizeof(magic));
	if (magic != MAGIC1)
		return 1ull << COMPONENT_X;
	memcpy(&bits, frame + HEADER, sizeof(bits));
	return bits;
}

static void use(char *frame, uint32_t component)
{
	uint64_t bits = in_use(frame) | 1ull << component;
	uint32_t magic;

	memcpy(&magic, frame + MAGIC1_AT, sizeof(magic));
	if (magic == MAGIC1)
		memcpy(frame + HEADER, &bits, sizeof(bits));
}

/* Leaves out n bytes in front.  How many of them lie behind the piece. */
static uint32_t cut_front(struct piece *p, uint32_t n)
{
	uint32_t cut = n < p->size ? n : p->size;

	p->at += cut;
	p->size -= cut;
	return n - cut;
}

bool vector_get(const ucontext_t *uc, unsigned int reg, unsigned int from, void *to, unsigned int size)
{
	struct piece p[3];
	int n = pieces_of(reg, p);
	char *frame = frame_of(uc), *out = to;

	for (int i = 0; i < n && size; i++) {
		uint32_t part;

		from = cut_front(&p[i], from);
		part = size < p[i].size ? size : p[i].size;
		if (!part)
			continue;
		if (!frame || !has(frame, &p[i]))
			return false;
		if (in_use(frame) >> p[i].component & 1)
			memcpy(out, frame + p[i].at, part);
		else
			memset(out, 0, part);
		out += part;
		size -= part;
	}
	return true;
}

bool vector_mask(const ucontext_t *uc, unsigned int reg, uint64_t *mask)
{
	const struct piece p = {offset_of_component(COMPONENT_K) + reg * 8, 8, COMPONENT_K};
	const char *frame = frame_of(uc);

	*mask = 0;
	if (!frame || !has(frame, &p))
		return false;
	if (in_use(frame) >> p.component & 1)
		memcpy(mask, frame + p.at, sizeof(*mask));
	return true;
}

/* A component that was not in use is zero. */
static void begin_use(char *frame, const struct piece *p)
{
	uint32_t at = p->component == COMPONENT_X ? XMM : offset_of_component(p->component);
	uint32_t size = p->component == COMPONENT_H ? 16 * 64 : 16 * p->size;

	if (in_use(frame) >> p->component & 1)
		return;
	memset(frame + at, 0, size);
	use(frame, p->component);
}

bool vector_put(ucontext_t *uc, unsigned int reg, const void *from, unsigned int size, bool vex)
{
	struct piece p[3];
	int n = pieces_of(reg, p);
	char *frame = frame_of(uc);
	const char *in = from;

	if (!frame)
		return false;
	for (int i = 0; i < n; i++) {
		uint32_t part = size < p[i].size ? size : p[i].size;

		if (!has(frame, &p[i])) {
			if (part)
				return false;
			break;
		}
		if (!part && (!vex || !(in_use(frame) >> p[i].component & 1)))
			continue;
		begin_use(frame, &p[i]);
		memcpy(frame + p[i].at, in, part);
		memset(frame + p[i].at + part, 0, p[i].size - part);
		in += part;
		size -= part;
	}
	return true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static size_t size_at(uint64_t random)
{
	uint64_t choice = random % 1000;

	if (choice < 700)
		return (random >> 10) % 40;
	if (choice < 970)
		return (random >> 10) % 600;
	if (choice < 998)
		return (random >> 10) % 9000;
	return (random >> 10) % 300000;
}

struct pattern_record pattern_at(uint64_t seed, uint64_t n)
{
	uint64_t random = mix(mix(seed) ^ n);
	struct pattern_record r = {
	    .kind = (uint16_t)(SR_REC_CALL + (random >> 50) % 100),
	    .sns = 1,
	    .size = size_at(random),
	};

	switch (random % 31) {
	case 0:
		r.kind = SR_REC_REPEAT;
		r.size = sizeof(struct sr_repeat_payload);
		r.sns = 1 + (random >> 40);
		break;
	case 1: /* a kind that counts nothing and that nobody knows */
		r.kind = 40;
		r.sns = 0;
		break;
	}
	return r;
}

void pattern_fill(uint64_t seed, uint64_t n, const struct pattern_record *r, void *payload)
{
	uint64_t random = mix(seed + n);
	unsigned char *bytes = payload;

	if (r->kind == SR_REC_REPEAT) {
		memcpy(bytes, &r->sns, sizeof(r->sns));
		return;
	}
	for (size_t i = 0; i < r->size; i += sizeof(random)) {
		size_t left = r->size - i;

		memcpy(bytes + i, &random, left < sizeof(random) ? left : sizeof(random));
		random = random * 6364136223846793005ull + n;
	}
}

static bool write_large(struct sr_ring *ring, uint64_t seed, uint64_t n,
			const struct pattern_record *r)
{
	unsigned char *bytes = malloc(r->size + 1);
	/* In two parts, at a cut that falls anywhere. */
	size_t cut = r->size ? mix(n) % r->size : 0;
	struct iovec iov[] = {{bytes, cut}, {bytes + cut, r->size - cut}};
	int ret;

	pattern_fill(seed, n, r, bytes);
	ret = sr_ring_writev(ring, r->kind, iov, 2);
	free(bytes);
	return ret == 0;
}

bool pattern_write(struct sr_ring *ring, uint64_t seed, uint64_t n)
{
	struct pattern_record r = pattern_at(seed, n);
	uint32_t spare = (uint32_t)(n % 3) * 5;
	void *payload;

	if (r.size > 4000 || n % 5 == 0)
		return write_large(ring, seed, n, &r);
	/* More is reserved than needed at times. */
	payload = sr_ring_reserve(ring, r.kind, (uint32_t)r.size + spare);
	if (!payload)
		return false;
	pattern_fill(seed, n, &r, payload);
	sr_ring_commit(ring, (uint32_t)r.size);
	return true;
}

bool pattern_matches(const struct sr_entry *e, uint64_t seed, uint64_t n, uint64_t sn)
{
	struct pattern_record r = pattern_at(seed, n);
	unsigned char *bytes = malloc(r.size + 1);
	bool same = e->kind == r.kind && e->size == r.size && e->sn == (r.sns ? sn : sn - 1) &&
		    e->count == r.sns;

	pattern_fill(seed, n, &r, bytes);
	if (same)
		same = !memcmp(bytes, e->payload, r.size);
	else
		fprintf(stderr,
			"record %llu: kind %u, %zu bytes, SN %llu instead of %u, %zu, %llu\n",
			(unsigned long long)n, e->kind, e->size, (unsigned long long)e->sn, r.kind,
			r.size, (unsigned long long)(r.sns ? sn : sn - 1));
	if (!same)
		fprintf(stderr, "record %llu is not as it was written\n", (unsigned long long)n);
	free(bytes);
	return same;
}

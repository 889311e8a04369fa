/* SPDX-License-Identifier: BSD-2-Clause */
#include "changes.h"

#include <string.h>

static uint64_t state;

void seed(uint64_t number)
{
	state = number;
}

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

size_t below(size_t n)
{
	return n ? draw() % n : 0;
}

/* Numbers at the borders of what fields can hold. */
static void put_number(uint8_t *data, size_t size)
{
	static const uint64_t numbers[] = {0,	       1,	   7,	       8,	   63,
					   64,	       255,	   65535,      0x7fffffff, 0x80000000,
					   0xffffffff, 0x40000000, 4u << 20,   1ull << 63, UINT64_MAX};
	uint64_t number = numbers[below(sizeof(numbers) / sizeof(numbers[0]))];
	size_t width = (size_t)1 << below(4), at = below(size);

	memcpy(data + at, &number, width < size - at ? width : size - at);
}

/* Puts a piece of the other bytes, or of these, over these or between them. */
static size_t splice(uint8_t *data, size_t size, size_t room, const uint8_t *other, size_t other_size)
{
	size_t from = below(other_size), n = below(other_size - from + 1), at = below(size);

	if (draw() & 1) { /* over */
		n = n < size - at ? n : size - at;
		memmove(data + at, other + from, n);
		return size;
	}
	n = n < room - size ? n : room - size;
	memmove(data + at + n, data + at, size - at);
	memmove(data + at, other + from, n);
	return size + n;
}

static size_t cut(uint8_t *data, size_t size)
{
	size_t at = below(size), n = below(size - at + 1);

	if (n >= size)
		return size;
	memmove(data + at, data + at + n, size - at - n);
	return size - n;
}

size_t change(uint8_t *data, size_t size, size_t room, const uint8_t *other, size_t other_size)
{
	switch (below(5)) {
	case 0:
		data[below(size)] ^= (uint8_t)(1u << below(8));
		return size;
	case 1:
		data[below(size)] = (uint8_t)draw();
		return size;
	case 2:
		put_number(data, size);
		return size;
	case 3:
		return splice(data, size, room, other, other_size);
	default:
		return cut(data, size);
	}
}

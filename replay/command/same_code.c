/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/same_code.h"

static uint64_t number(const json_t *range, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(range, key));
}

/* The range that has the address; NULL: none. */
static const json_t *range_of(const json_t *object, uint64_t address)
{
	const json_t *range;
	size_t i;

	json_array_foreach(json_object_get(object, "ranges"), i, range)
		if (address >= number(range, "start") && address < number(range, "end"))
			return range;
	return NULL;
}

/* The same part of the file, with the same rights: a page at the end of one part may be mapped with the next one, too. */
static uint64_t address_in(const json_t *object, const json_t *as, uint64_t address)
{
	const json_t *range;
	size_t i;

	json_array_foreach(json_object_get(object, "ranges"), i, range)
		if (json_equal(json_object_get(range, "offset"), json_object_get(as, "offset")) &&
		    json_equal(json_object_get(range, "permissions"), json_object_get(as, "permissions")))
			return address - number(as, "start") + number(range, "start");
	return address;
}

uint64_t sr_same_code(uint64_t address, const json_t *from, const json_t *to)
{
	const json_t *object, *other, *range;
	size_t i, k;

	json_array_foreach(json_object_get(from, "objects"), i, object)
	{
		range = range_of(object, address);
		if (!range)
			continue;
		json_array_foreach(json_object_get(to, "objects"), k, other)
			if (json_equal(json_object_get(object, "path"), json_object_get(other, "path")))
				return address_in(other, range, address);
	}
	return address;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Columns: any records come back as they were, and damaged columns are noticed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "logd/trace/columns.h"
#include "logd/trace/format.h"
#include "pattern.h"

#define MOST (1u << 20)

/* All types; call 0 has a list of structures in a structure, call 1 only numbers, call 2 none. */
static const char schema[] =
    "{\"structs\": {\"wc\": [{\"name\": \"id\", \"type\": \"u64\"}, {\"name\": \"n\", \"type\": "
    "\"u32\"},"
    " {\"name\": \"f\", \"type\": \"x16\"}, {\"name\": \"s\", \"type\": \"u8\"}],"
    " \"outer\": [{\"name\": \"l\", \"type\": \"wc[]\"}, {\"name\": \"o\", \"type\": \"u64?\"}]},"
    " \"calls\": [{\"name\": \"a\", \"number\": 0, \"ret\": \"i32\", \"in\": [{\"name\": \"cq\", "
    "\"type\": \"ptr\"},"
    " {\"name\": \"path\", \"type\": \"string\"}], \"out\": [{\"name\": \"x\", \"type\": "
    "\"outer\"},"
    " {\"name\": \"r\", \"type\": \"raw16\"}]},"
    " {\"name\": \"b\", \"number\": 1, \"ret\": \"i32\", \"in\": [{\"name\": \"fd\", \"type\": "
    "\"i32\"}],"
    " \"out\": [{\"name\": \"data\", \"type\": \"bytes\"}, {\"name\": \"t\", \"type\": \"i64\"}]},"
    " {\"name\": \"c\", \"number\": 2, \"ret\": \"void\", \"in\": [], \"out\": []}]}";

static struct sr_layouts *layouts;
static struct sr_columns_encoder *encoder;
static uint64_t seed;

static uint64_t draw(void)
{
	return mix(seed++);
}

static size_t below(size_t n)
{
	return n ? draw() % n : 0;
}

/* ---- making records ---- */

struct records {
	_Alignas(8) unsigned char data[MOST];
	size_t size;
};

static struct records made, back;

static void add(struct records *r, uint16_t kind, uint16_t flags, const void *payload, size_t size)
{
	struct sr_record *head = (struct sr_record *)(r->data + r->size);
	size_t padded = sr_record_padded((uint32_t)(sizeof(*head) + size));

	if (r->size + padded > sizeof(r->data))
		return;
	memset(head, 0, padded);
	*head = (struct sr_record){(uint32_t)(sizeof(*head) + size), kind, flags};
	memcpy(head + 1, payload, size);
	r->size += padded;
}

static size_t put(unsigned char *p, const void *value, size_t size)
{
	memcpy(p, value, size);
	return size;
}

/* One of call b, as a recorder writes it: time goes on, and so does the event's number. */
static void add_call(struct records *r, uint64_t number, const char *data, uint32_t n)
{
	uint64_t head[3] = {0x401000, 0, 0}, time = 1000000 + 7 * number, event = 3 * number;
	uint32_t fd = 3, sizes = 4 | 1u << 30;
	unsigned char payload[4096];
	size_t size = 24;

	memcpy((char *)head + 20, &sizes, sizeof(sizes));
	memcpy(payload, head, sizeof(head));
	size += put(payload + size, &fd, sizeof(fd));
	size += put(payload + size, &n, sizeof(n));
	size += put(payload + size, data, n);
	size += put(payload + size, &time, sizeof(time));
	size += put(payload + size, &event, sizeof(event));
	add(r, SR_REC_CALL + 1, 0, payload, size);
}

/* Anything: some bytes repeat, some count, some are random. */
static void add_random(struct records *r)
{
	static const uint16_t kinds[] = {SR_REC_PAD,      SR_REC_REPEAT,    SR_REC_MARK,
					 SR_REC_CLOCK,    SR_REC_EXPOSED,   SR_REC_SIGNAL,
					 SR_REC_CALL,     SR_REC_CALL + 1,  SR_REC_CALL + 2,
					 SR_REC_CALL + 3, SR_REC_RUN_TOKEN, 65535};
	unsigned char payload[2048];
	size_t size = below(8) ? 8 * below(12) + below(2) * below(8) : below(sizeof(payload));
	uint64_t what = draw();

	for (size_t i = 0; i < size; i++)
		payload[i] = (unsigned char)(what & 1   ? 0
					     : what & 2 ? draw()
							: r->size >> i % 8 * 8);
	if (size >= 24 && !below(3)) { /* a head that promises what may not be there */
		uint32_t sizes = (uint32_t)below(size) | (uint32_t)below(4) << 30;

		memcpy(payload + 20, &sizes, sizeof(sizes));
	}
	add(r, kinds[below(sizeof(kinds) / sizeof(kinds[0]))], !below(9), payload, size);
}

/* ---- and back ---- */

/* In memory of exactly that size, so that a sanitizer sees what reads beyond. */
static int decode(const void *columns, size_t n, size_t size)
{
	unsigned char *exact = malloc(n + !n), *records = malloc(size + !size);
	int err;

	memcpy(exact, columns, n);
	err = sr_columns_decode(exact, n, records, size);
	if (!err)
		memcpy(back.data, records, size);
	free(records);
	free(exact);
	return err;
}

static size_t round_trip(const struct sr_layouts *l)
{
	const void *columns;
	size_t n = sr_columns_encode(encoder, l, made.data, made.size, &columns);

	if (!n)
		return 0;
	assert_true(n < made.size);
	memset(back.data, 0xee, made.size);
	assert_int_equal(decode(columns, n, made.size), 0);
	assert_memory_equal(back.data, made.data, made.size);
	return n;
}

static void test_random_records_come_back(void **state)
{
	size_t smaller = 0;

	for (uint64_t i = 0; i < 300; i++) {
		size_t n;

		seed = i << 32;
		n = 1 + below(400);

		made.size = 0;
		while (n--)
			add_random(&made);
		smaller += round_trip(layouts) != 0;
		round_trip(NULL);
	}
	/* Or this test has not tested much. */
	assert_true(smaller > 200);
}

static void test_calls_become_small(void **state)
{
	made.size = 0;
	for (uint64_t i = 0; i < 4000; i++)
		add_call(&made, i, "a text of 17 bytes", 17);
	/* A shape a record, and a byte for the time and the event each: they are 80. */
	assert_in_range(round_trip(layouts), 4000 * 3, 4000 * 3 + 100);
	/* Without the schema its fields are not where they seem to be. */
	assert_true(round_trip(NULL) > 4000 * 3 + 100);
}

/* Of some queues in any order, whose events go on by steps of their own; `noise` of 16 events do not. */
static void add_by_queue(uint64_t n, uint32_t queues, uint64_t noise)
{
	static uint64_t count[4096];

	memset(count, 0, sizeof(count));
	while (n--) {
		uint32_t q = (uint32_t)below(queues);
		struct sr_token_payload p = {.what = 1,
					     .other = q * 7,
					     .event = ((uint64_t)q << 40) + count[q]++ * (q + 3) + (below(16) < noise ? draw() : 0),
					     .site = q * 0x123456789ull,
					     .arrived = 5 - q};

		add(&made, SR_REC_RUN_TOKEN, 0, &p, sizeof(p));
	}
}

/* Each of a few queues is a shape of its own, of which only the event differs. */
static void test_few_queues_are_shapes(void **state)
{
	seed = 7;
	made.size = 0;
	add_by_queue(4000, 8, 0);
	assert_in_range(round_trip(layouts), 4000 * 2, 4000 * 2 + 500);
	/* Some of many, and the records of each are too few. */
	made.size = 0;
	add_by_queue(4000, 200, 0);
	assert_true(round_trip(layouts) > 4000 * 3);
}

static void test_fields_that_another_one_tells(void **state)
{
	seed = 7;
	made.size = 0;
	add_by_queue(1000, 45, 0); /* too many queues for shapes of their own */
	/* A byte for the shape, two for the queue, and one for each of three fields: that is, mostly zeros. */
	assert_in_range(round_trip(layouts), 1000 * 5, 1000 * 6 + 1000);
	assert_true(sr_columns_have_keys(encoder));
	made.size = 0;
	add_by_queue(4000, 1, 0);
	assert_true(round_trip(layouts) > 0);
	assert_false(sr_columns_have_keys(encoder));
}

/* The length of a message is in its completion, and again with what arrived: in few records, too. */
static void test_equal_fields_of_few_records(void **state)
{
	seed = 8;
	made.size = 0;
	for (int i = 0; i < 20; i++) {
		uint64_t length = draw();
		struct sr_token_payload p = {.what = 1, .site = length, .arrived = length};

		add(&made, SR_REC_RUN_TOKEN, 0, &p, sizeof(p));
	}
	/* 8 to 10 bytes for the number, and one for the shape. */
	assert_in_range(round_trip(layouts), 20 * 9, 20 * 11 + 60);
}

/* What is sent is long: only its beginning is compared word by word. */
static void test_long_payloads_that_differ_at_the_end(void **state)
{
	static unsigned char payload[4096];

	for (uint32_t differs = 0; differs < 2; differs++) {
		made.size = 0;
		for (uint32_t i = 0; i < 100; i++) {
			payload[4000] = (unsigned char)(differs * i);
			add(&made, SR_REC_CALL + 3, 0, payload, sizeof(payload));
		}
		if (differs)
			assert_in_range(round_trip(NULL), 100 * (sizeof(payload) - 64), made.size);
		else
			assert_in_range(round_trip(NULL), 100, 2 * sizeof(payload));
	}
}

/* More queues than a key may have values, from the start or only behind what the encoder looks at. */
static void test_keys_with_many_values(void **state)
{
	static const uint32_t queues[] = {100, 128, 129, 140, 1000, 4000};

	for (uint64_t i = 0; i < 120; i++) {
		seed = i << 32;
		made.size = 0;
		add_by_queue(1100, 1 + (uint32_t)below(100), below(4));
		add_by_queue(below(3000), queues[i % 6], below(4));
		assert_true(round_trip(layouts) > 0);
		round_trip(NULL);
	}
}

static void test_calls_of_many_sizes_come_back(void **state)
{
	char text[3000];

	memset(text, 'x', sizeof(text));
	made.size = 0;
	for (uint32_t i = 0; i < 2000; i++)
		add_call(&made, i, text, i * 7 % sizeof(text) / 8);
	assert_true(round_trip(layouts) > 0);
}

static void test_more_shapes_than_are_worth_it(void **state)
{
	static const unsigned char payload[64];

	made.size = 0;
	for (uint32_t kind = 0; kind < 5000; kind++)
		add(&made, (uint16_t)(SR_REC_CALL + kind), 0, payload, sizeof(payload));
	assert_int_equal(round_trip(layouts), 0);
}

static void test_one_large_record(void **state)
{
	made.size = 0;
	memset(back.data, 7, MOST / 2);
	add(&made, SR_REC_CALL + 1, 1, back.data, MOST / 2);
	add(&made, SR_REC_EXIT, 0, back.data, 16);
	round_trip(layouts);
}

/* What a program may leave in its ring. */
static void test_what_are_no_records(void **state)
{
	const void *columns;

	for (uint64_t i = 0; i < 2000; i++) {
		size_t changes;

		seed = i << 32;
		changes = 1 + below(4);

		made.size = 0;
		while (made.size < 2000)
			add_random(&made);
		while (changes--)
			made.data[below(made.size)] = (unsigned char)draw();
		/* Where they still are records, they come back. */
		round_trip(layouts);
	}
	assert_int_equal(sr_columns_encode(encoder, layouts, made.data, 4, &columns), 0);
	assert_int_equal(sr_columns_encode(encoder, layouts, made.data, 0, &columns), 0);
}

static void test_padding_that_is_not_zero(void **state)
{
	made.size = 0;
	for (int i = 0; i < 100; i++)
		add(&made, SR_REC_CALL, 0, "abc", 3);
	assert_true(round_trip(layouts) > 0);
	made.data[50 * 16 + 13] = 1;
	assert_int_equal(round_trip(layouts), 0);
}

/* ---- damage ---- */

static size_t some_columns(unsigned char *copy)
{
	const void *columns;
	size_t n;

	made.size = 0;
	for (uint64_t i = 0; i < 50; i++) {
		add_call(&made, i, "a text of 17 bytes", 17);
		add_random(&made);
	}
	add_by_queue(70, 60, 1);
	n = sr_columns_encode(encoder, layouts, made.data, made.size, &columns);
	assert_true(n > 0 && sr_columns_have_keys(encoder));
	memcpy(copy, columns, n);
	return n;
}

static void test_cut_columns_are_noticed(void **state)
{
	static unsigned char columns[MOST];
	size_t n;

	seed = 1;
	n = some_columns(columns);
	assert_int_equal(decode(columns, n, made.size), 0);
	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(decode(columns, cut, made.size), -EBADMSG);
	columns[n] = 0;
	assert_int_equal(decode(columns, n + 1, made.size), -EBADMSG);
	assert_int_equal(decode(columns, n, made.size - 8), -EBADMSG);
	assert_int_equal(decode(columns, n, made.size + 8), -EBADMSG);
}

/* Whatever they say, only the memory that is there is touched, and they are records. */
static void test_changed_columns_do_no_harm(void **state)
{
	static unsigned char columns[MOST], changed[MOST];
	size_t n, noticed = 0;

	seed = 2;
	n = some_columns(columns);
	for (int i = 0; i < 20000; i++) {
		size_t changes = 1 + below(4);

		memcpy(changed, columns, n);
		while (changes--)
			changed[below(below(2) ? n : 200)] = (unsigned char)draw();
		noticed += decode(changed, n, made.size) != 0;
	}
	assert_true(noticed > 1000);
}

static void test_numbers_that_are_too_large(void **state)
{
	static const unsigned char many_shapes[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 64, 0, 16, 1, 0};
	static const unsigned char many_records[] = {1, 64, 0, 16, 0xff, 0xff, 0xff, 0xff, 0x0f};
	static const unsigned char large[] = {1, 64, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 0};
	static const unsigned char no_width[] = {1, 64, 0, 16, 1, 0, 0, 1};
	static const unsigned char odd_deltas[] = {1, 64, 0, 11, 1, 0, 3, 2, 0};

	assert_int_equal(decode(many_shapes, sizeof(many_shapes), 16), -EBADMSG);
	assert_int_equal(decode(many_records, sizeof(many_records), 16), -EBADMSG);
	assert_int_equal(decode(large, sizeof(large), 16), -EBADMSG);
	assert_int_equal(decode(no_width, sizeof(no_width), 16), -EBADMSG);
	assert_int_equal(decode(odd_deltas, sizeof(odd_deltas), 16), -EBADMSG);
}

/* ---- layouts ---- */

static void test_damaged_schemas(void **state)
{
	static const char *const damaged[] = {
	    "",
	    "{",
	    "{\"calls\": [{\"in\": [{\"type\": \"nothing\"}], \"out\": []}]}",
	    "{\"calls\": [{\"in\": [{\"type\": \"\"}], \"out\": []}]}",
	    "{\"calls\": [{\"in\": [{}], \"out\": []}]}",
	    "{\"calls\": [{\"in\": [{\"type\": \"?\"}], \"out\": []}]}",
	    "{\"calls\": [{\"in\": [{\"type\": \"raw99999999999\"}], \"out\": []}]}",
	    "{\"structs\": {\"a\": [{\"type\": \"a\"}]}, \"calls\": [{\"in\": [{\"type\": "
	    "\"a\"}]}]}",
	    "{\"structs\": {\"a\": [{\"type\": \"b[]\"}, {\"type\": \"b\"}], \"b\": [{\"type\": "
	    "\"a\"}, "
	    "{\"type\": \"a?\"}]}, \"calls\": [{\"in\": [{\"type\": \"a\"}]}]}",
	};
	struct sr_layouts *l;

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++)
		assert_null(sr_layouts_new(damaged[i], strlen(damaged[i])));
	/* As some tests have it: it describes nothing. */
	l = sr_layouts_new("{}", 2);
	assert_non_null(l);
	sr_layouts_free(l);
}

static void test_fields_are_all_of_a_payload(void **state)
{
	unsigned char payload[2048];
	struct sr_fields f;

	for (seed = 0; seed < 20000; seed++) {
		uint32_t size = (uint32_t)below(sizeof(payload)), sum = 0;
		uint16_t kind = (uint16_t)below(70);

		for (uint32_t i = 0; i < size; i++)
			payload[i] = (unsigned char)(draw() & (i % 3 ? 3 : 0));
		sr_layouts_fields(layouts, kind, payload, size, &f);
		assert_true(f.n <= SR_FIELDS_MAX);
		for (uint32_t i = 0; i < f.n; i++) {
			assert_true(f.width[i] > 0);
			sum += f.width[i];
		}
		assert_int_equal(sum, size);
	}
}

/* A list of structures without a field would never end. */
static void test_a_list_of_nothing(void **state)
{
	static const char text[] = "{\"structs\": {\"no\": []}, \"calls\": [{\"in\": [], \"out\": "
				   "[{\"type\": \"no[]\"}]}]}";
	struct sr_layouts *l = sr_layouts_new(text, sizeof(text) - 1);
	unsigned char payload[32] = {0};
	struct sr_fields f;

	assert_non_null(l);
	memset(payload + 24, 0xff, 4);
	sr_layouts_fields(l, SR_REC_CALL, payload, sizeof(payload), &f);
	assert_int_equal(f.n, 6);
	sr_layouts_free(l);
}

static int set_up(void **state)
{
	layouts = sr_layouts_new(schema, sizeof(schema) - 1);
	encoder = sr_columns_encoder_new(MOST);
	return !layouts || !encoder;
}

static int tear_down(void **state)
{
	sr_layouts_free(layouts);
	sr_columns_encoder_free(encoder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random_records_come_back),
	    cmocka_unit_test(test_calls_become_small),
	    cmocka_unit_test(test_few_queues_are_shapes),
	    cmocka_unit_test(test_fields_that_another_one_tells),
	    cmocka_unit_test(test_equal_fields_of_few_records),
	    cmocka_unit_test(test_long_payloads_that_differ_at_the_end),
	    cmocka_unit_test(test_keys_with_many_values),
	    cmocka_unit_test(test_calls_of_many_sizes_come_back),
	    cmocka_unit_test(test_more_shapes_than_are_worth_it),
	    cmocka_unit_test(test_one_large_record),
	    cmocka_unit_test(test_what_are_no_records),
	    cmocka_unit_test(test_padding_that_is_not_zero),
	    cmocka_unit_test(test_cut_columns_are_noticed),
	    cmocka_unit_test(test_changed_columns_do_no_harm),
	    cmocka_unit_test(test_numbers_that_are_too_large),
	    cmocka_unit_test(test_damaged_schemas),
	    cmocka_unit_test(test_fields_are_all_of_a_payload),
	    cmocka_unit_test(test_a_list_of_nothing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

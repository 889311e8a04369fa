/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * places.h: memory of all ranks in pieces, and the ranges of it that are accessed as a whole: however long such a range is, and
 * however often it is accessed, it is put into its pieces once, and which others it meets is found out once.
 *
 * What belongs to a piece or a range, its user keeps by their numbers, which begin at 0.  What lies within one word is none of these
 * ranges: a piece has words, or it has none.
 */
#ifndef REPLAY_ANALYSIS_RACES_PLACES_H
#define REPLAY_ANALYSIS_RACES_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/log/arena.h"
#include "replay/analysis/log/keymap.h"

/* Bytes of a piece and of a word. */
#define SR_PIECE 512
#define SR_WORD  8
#define SR_WORDS (SR_PIECE / SR_WORD)

#define SR_NO_PLACE UINT32_MAX

static inline size_t sr_word_of(uint64_t address)
{
	return address / SR_WORD % SR_WORDS;
}

static inline bool sr_is_within_word(uint64_t begin, uint64_t end)
{
	return begin / SR_WORD == (end - 1) / SR_WORD;
}

struct sr_place_piece {
	uint32_t *ranges; /* in it, or partly, in the order in which they came */
	uint32_t n, room;
	bool has_words;
};

/* The first piece, by its number among those of its owner, that a range has in common with another one. */
struct sr_meeting {
	uint64_t number;
	uint32_t range; /* SR_NO_PLACE: words of the piece */
};

struct sr_range {
	uint64_t begin, end;
	uint32_t owner;
	uint32_t next; /* of the same hash */
	/* Ascending by piece, words behind ranges; itself is one of them. */
	struct sr_meeting *meetings;
	uint32_t meetings_n, meetings_room;
	bool is_crowded; /* there are too many to be kept */
};

struct sr_places {
	/* Only pieces whose number and owner are, in all, `share` modulo `shares`; 0 shares: all.  To be set before anything else. */
	unsigned int shares, share;
	bool keeps_meetings;

	struct sr_place_piece *pieces;
	size_t pieces_n, pieces_room;
	struct sr_range *ranges;
	size_t ranges_n, ranges_room;
	struct sr_keymap of_piece, of_range;
	struct sr_arena lists;
};

void sr_places_free(struct sr_places *p);

bool sr_places_has(const struct sr_places *p, uint32_t owner, uint64_t number);

/* The piece of this number; SR_NO_PLACE: there is none, or, with `make`, no memory. */
uint32_t sr_places_piece(struct sr_places *p, uint32_t owner, uint64_t number, bool make);
/* From now on it has words.  0 or -ENOMEM. */
int sr_places_add_words(struct sr_places *p, uint32_t piece, uint64_t number);

/* The range with these bytes, which may be new; SR_NO_PLACE: no memory. */
uint32_t sr_places_range(struct sr_places *p, uint32_t owner, uint64_t begin, uint64_t end);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema.h: calls.def as JSON. Every trace contains it, so that any reader can print its records.
 *
 * The commands have it as it is.  The library, whose image must stay small (tests/unit/shim/image.py), has it packed.
 */
#ifndef SHIM_CORE_SCHEMA_H
#define SHIM_CORE_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

extern const char sr_schema[];
extern const size_t sr_schema_size;

/* A byte from 128 on stands for the two bytes of a pair, which may stand for pairs themselves. */
extern const uint8_t sr_schema_packed[], sr_schema_pairs[];
extern const size_t sr_schema_packed_size, sr_schema_unpacked_size;

/* Puts the text there: sr_schema_unpacked_size bytes. */
void sr_schema_unpack(char *to);

#endif

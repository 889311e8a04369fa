/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema.h: calls.def as JSON. Every trace contains it, so that any reader can print its records.
 */
#ifndef SHIM_CORE_SCHEMA_H
#define SHIM_CORE_SCHEMA_H

#include <stddef.h>

extern const char sr_schema[];
extern const size_t sr_schema_size;

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* elf_id.h: which file is this?  For open files; any thread. */
#ifndef LOGD_TRACE_ELF_ID_H
#define LOGD_TRACE_ELF_ID_H

#include <stdbool.h>
#include <stddef.h>

/* Does it begin like an ELF file? */
bool is_elf(int fd);

/* The GNU build id of an ELF file, as hexadecimal digits.  False: it has none, or no room. */
bool elf_build_id(int fd, char *hex, size_t size);

#endif

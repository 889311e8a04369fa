/* SPDX-License-Identifier: BSD-2-Clause */
/* places.h: where the kernel and ld.so had put what the recorded process consists of. */
#ifndef REPLAY_HOST_LAYOUT_PLACES_H
#define REPLAY_HOST_LAYOUT_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* A file that was mapped. */
struct sr_layout_file {
	char *path;
	uint64_t start, end; /* of all its mappings */
	uint64_t offset;     /* of the lowest one, in the file */
};

/* Where things were; 0: not known. */
struct sr_layout {
	uint64_t libraries_below; /* the first library ended there; 0: the recorded process is not laid out */
	uint64_t vdso;
	uint64_t program;      /* its entry point */
	uint64_t loader;       /* ld.so's load address */
	uint64_t program_break;
	uint64_t stack;        /* with which the process started */
	uint64_t stack_top;    /* behind the string that AT_EXECFN names */
	uint64_t random_at, platform; /* AT_RANDOM's and AT_PLATFORM's */
	uint8_t random[16];
	uint64_t signal_frame; /* AT_MINSIGSTKSZ, which depends on the processor */
	struct sr_layout_file *files; /* its owner frees them, and their paths */
	size_t n_files;
};

#endif

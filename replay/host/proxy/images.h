/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: the members' memory, as requests work on it (sr_group_image_at()), mapped and
 * registered in pieces, some at a time: registered memory cannot be paged out, and users
 * may have little of it (setrlimit(2), RLIMIT_MEMLOCK). As many are kept as can be registered.
 */
#ifndef REPLAY_HOST_PROXY_IMAGES_H
#define REPLAY_HOST_PROXY_IMAGES_H

#include <stdint.h>

#include "replay/host/proxy/device.h"

#define SR_PIECE  (256u << 10) /* a longer request is made in pieces of this size, too */
#define SR_IMAGES 16 /* so many must be possible */
#define SR_IMAGES_REGISTERED 256

struct sr_image {
	uint64_t at;   /* offset in the file; 0: free */
	uint64_t used; /* when it was used last, by sr_images.uses */
	uint8_t *memory;
	struct ibv_mr *mr;
};

struct sr_images {
	struct sr_device *device;
	int fd;
	struct sr_image images[SR_IMAGES_REGISTERED];
	uint32_t room; /* how many of them are used; SR_IMAGES_REGISTERED, or fewer if the user may register less */
	uint64_t uses;
};

/* The registered piece that has this offset of the file; NULL: it cannot be registered. */
struct sr_image *sr_image_of(struct sr_images *all, uint64_t at);

#endif

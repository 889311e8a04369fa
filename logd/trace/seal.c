/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/file_io.h"
#include "logd/trace/format.h"

#define KEY_BYTES 32
#define MAC_BYTES 32
/* Far more than any process.json. */
#define TEXT_MAX  (32 << 20)

/* ---- the user's key ---- */

static const char *home(void)
{
	const char *path = getenv("HOME");
	const struct passwd *user;

	if (path && path[0] == '/')
		return path;
	user = getpwuid(geteuid());
	return user ? user->pw_dir : "/nonexistent";
}

/* The directory, and HOME's parts on the way to it where `make` says so. */
static int key_directory(char path[PATH_MAX], bool make)
{
	static const char *const parts[] = {"/.local", "/state", "/sreplay"};
	size_t n = strlen(home());

	if (n + 64 > PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, home(), n + 1);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		strcat(path, parts[i]);
		if (make && mkdir(path, 0700) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static bool is_private(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 077);
}

static int read_key(const char *path, uint8_t key[KEY_BYTES])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err = 0;

	if (fd < 0)
		return -errno;
	if (!is_private(fd) || !read_fully(fd, key, KEY_BYTES, 0))
		err = -EPERM;
	close(fd);
	return err;
}

/* The first of several daemons that links its draft makes the key. */
static int make_key(const char *path)
{
	char draft[PATH_MAX + 16];
	uint8_t key[KEY_BYTES];
	int fd, err = 0;

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return -EIO;
	snprintf(draft, sizeof(draft), "%s.XXXXXX", path);
	fd = mkostemp(draft, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return -errno;
	err = write_all(fd, (const char *)key, sizeof(key));
	if (!err && link(draft, path) && errno != EEXIST)
		err = -errno;
	close(fd);
	unlink(draft);
	sodium_memzero(key, sizeof(key));
	return err;
}

static int get_key(uint8_t key[KEY_BYTES], bool make)
{
	char path[PATH_MAX];
	int err = key_directory(path, make);

	if (err)
		return err;
	strcat(path, "/seal.key");
	err = read_key(path, key);
	if (err == -ENOENT && make && !(err = make_key(path)))
		err = read_key(path, key);
	return err;
}

/* ---- what is sealed ---- */

static void add_machine(crypto_generichash_state *mac)
{
	char id[64] = "";
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0 && gethostname(id, sizeof(id) - 1))
		id[0] = 0;
	crypto_generichash_update(mac, (const uint8_t *)id, sizeof(id));
}

/* Which file it is, not what is in it.  Some file systems have no time of birth: 0. */
static int add_identity(crypto_generichash_state *mac, int fd)
{
	uint64_t identity[3];
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME | STATX_TYPE, &st))
		return -errno;
	identity[0] = st.stx_ino;
	identity[1] = st.stx_mask & STATX_BTIME ? (uint64_t)st.stx_btime.tv_sec : 0;
	identity[2] = st.stx_mask & STATX_BTIME ? st.stx_btime.tv_nsec : 0;
	crypto_generichash_update(mac, (const uint8_t *)identity, sizeof(identity));
	return 0;
}

static int add_content(crypto_generichash_state *mac, int fd)
{
	uint8_t block[16384];
	uint64_t size = 0;
	ssize_t n;

	while ((n = pread(fd, block, sizeof(block), (off_t)size)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		size += (uint64_t)n;
		if (size > TEXT_MAX)
			return -EFBIG;
		crypto_generichash_update(mac, block, (size_t)n);
	}
	return 0;
}

static int compute(int rank_fd, const uint8_t key[KEY_BYTES], uint8_t result[MAC_BYTES])
{
	static const char purpose[] = "sreplay seal";
	const uint32_t user = geteuid();
	crypto_generichash_state mac;
	struct stat st;
	int fd = openat(rank_fd, "process.json",
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int err = fd < 0 ? -errno : 0;

	crypto_generichash_init(&mac, key, KEY_BYTES, MAC_BYTES);
	crypto_generichash_update(&mac, (const uint8_t *)purpose, sizeof(purpose));
	crypto_generichash_update(&mac, (const uint8_t *)&user, sizeof(user));
	add_machine(&mac);
	if (!err && (fstat(fd, &st) || !S_ISREG(st.st_mode)))
		err = -EMEDIUMTYPE;
	if (!err)
		err = add_identity(&mac, rank_fd);
	if (!err)
		err = add_identity(&mac, fd);
	if (!err)
		err = add_content(&mac, fd);
	crypto_generichash_final(&mac, result, MAC_BYTES);
	if (fd >= 0)
		close(fd);
	return err;
}

/* ---- the two sides ---- */

int sr_seal_make(int rank_fd)
{
	uint8_t key[KEY_BYTES], mac[MAC_BYTES];
	int err = get_key(key, true), fd = -1;

	if (!err)
		err = compute(rank_fd, key, mac);
	sodium_memzero(key, sizeof(key));
	if (!err) {
		fd = openat(rank_fd, SR_SEAL_FILE,
			    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		err = fd < 0 ? -errno : write_all(fd, (const char *)mac, sizeof(mac));
	}
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	return err;
}

bool sr_seal_holds(int rank_fd)
{
	uint8_t key[KEY_BYTES], right[MAC_BYTES], found[MAC_BYTES];
	int fd = openat(rank_fd, SR_SEAL_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	bool holds = fd >= 0 && read_fully(fd, found, sizeof(found), 0) && !get_key(key, false) &&
		     !compute(rank_fd, key, right) && !sodium_memcmp(right, found, sizeof(right));

	sodium_memzero(key, sizeof(key));
	if (fd >= 0)
		close(fd);
	return holds;
}

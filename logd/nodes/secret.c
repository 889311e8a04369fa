/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(SECRET_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "libsodium's sizes");
static_assert(SECRET_PROOF_BYTES == crypto_auth_hmacsha256_BYTES, "libsodium's sizes");
static_assert(SECRET_HEADER_BYTES == crypto_secretstream_xchacha20poly1305_HEADERBYTES,
	      "libsodium's sizes");
static_assert(SECRET_SEAL_BYTES == crypto_secretstream_xchacha20poly1305_ABYTES,
	      "libsodium's sizes");
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == crypto_auth_hmacsha256_BYTES,
	      "a MAC makes a key");

/* A shorter key could be guessed.  All bytes of a key are hashed, up to MOST_BYTES. */
#define LEAST_BYTES 16
#define MOST_BYTES  4096

static int check_file(int fd, const char *path, char *error, size_t size)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return 0;
	snprintf(error, size,
		 "%s cannot be used as a key: it must be a file of this user that nobody else may "
		 "read (chmod 600)",
		 path);
	return -EPERM;
}

int secret_read_key(const char *path, uint8_t *key, char *error, size_t error_size)
{
	uint8_t bytes[MOST_BYTES];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;

	if (fd < 0) {
		err = -errno;
		snprintf(error, error_size, "cannot read the key %s: %s", path, strerror(-err));
		return err;
	}
	err = check_file(fd, path, error, error_size);
	n = err ? 0 : read(fd, bytes, sizeof(bytes));
	close(fd);
	if (err)
		return err;
	if (n < LEAST_BYTES) {
		snprintf(error, error_size, "the key %s has less than %d bytes", path, LEAST_BYTES);
		return -EINVAL;
	}
	crypto_generichash(key, SECRET_KEY_BYTES, bytes, (size_t)n, NULL, 0);
	sodium_memzero(bytes, sizeof(bytes));
	return 0;
}

/* Everything that is derived from a key is a MAC of a purpose and up to two nonces. */
static void derive(const uint8_t *key, const char *purpose, const uint8_t *first,
		   const uint8_t *second, uint8_t *out)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, key, SECRET_KEY_BYTES);
	/* With the 0 at its end, no purpose is the beginning of another. */
	crypto_auth_hmacsha256_update(&state, (const uint8_t *)purpose, strlen(purpose) + 1);
	if (first)
		crypto_auth_hmacsha256_update(&state, first, SECRET_NONCE_BYTES);
	if (second)
		crypto_auth_hmacsha256_update(&state, second, SECRET_NONCE_BYTES);
	crypto_auth_hmacsha256_final(&state, out);
}

void secret_job_id(const uint8_t *key, uint8_t *id)
{
	uint8_t mac[crypto_auth_hmacsha256_BYTES];

	derive(key, "sreplay job", NULL, NULL, mac);
	memcpy(id, mac, SECRET_ID_BYTES);
}

void secret_name_id(const char *name, size_t size, uint8_t *id)
{
	crypto_generichash(id, SECRET_ID_BYTES, (const uint8_t *)name, size, NULL, 0);
}

void secret_nonce(uint8_t *nonce)
{
	randombytes_buf(nonce, SECRET_NONCE_BYTES);
}

void secret_prove(const struct secret_handshake *t, enum secret_side side, uint8_t *proof)
{
	derive(t->key, side == SECRET_ASKER ? "sreplay asks" : "sreplay answers", t->asker,
	       t->answerer, proof);
}

bool secret_is_proof(const struct secret_handshake *t, enum secret_side side, const uint8_t *proof)
{
	uint8_t right[SECRET_PROOF_BYTES];

	secret_prove(t, side, right);
	return sodium_memcmp(right, proof, sizeof(right)) == 0;
}

/* ---- streams ---- */

struct secret_stream {
	uint8_t in_key[crypto_secretstream_xchacha20poly1305_KEYBYTES];
	crypto_secretstream_xchacha20poly1305_state out, in;
};

static void stream_key(const struct secret_handshake *t, enum secret_side from, uint8_t *key)
{
	derive(t->key, from == SECRET_ASKER ? "sreplay from asker" : "sreplay from answerer",
	       t->asker, t->answerer, key);
}

struct secret_stream *secret_stream_create(const struct secret_handshake *t, uint8_t *header)
{
	struct secret_stream *s = calloc(1, sizeof(*s));
	uint8_t out_key[crypto_secretstream_xchacha20poly1305_KEYBYTES];

	if (!s)
		return NULL;
	stream_key(t, t->side, out_key);
	stream_key(t, t->side == SECRET_ASKER ? SECRET_ANSWERER : SECRET_ASKER, s->in_key);
	crypto_secretstream_xchacha20poly1305_init_push(&s->out, header, out_key);
	sodium_memzero(out_key, sizeof(out_key));
	return s;
}

void secret_stream_free(struct secret_stream *s)
{
	if (s)
		sodium_memzero(s, sizeof(*s));
	free(s);
}

int secret_stream_accept(struct secret_stream *s, const uint8_t *header)
{
	return crypto_secretstream_xchacha20poly1305_init_pull(&s->in, header, s->in_key) ? -EBADMSG
											  : 0;
}

void secret_seal(struct secret_stream *s, const void *message, size_t size, uint8_t *sealed)
{
	crypto_secretstream_xchacha20poly1305_push(&s->out, sealed, NULL, message, size, NULL, 0,
						   0);
}

int secret_unseal(struct secret_stream *s, const uint8_t *sealed, void *message, size_t size)
{
	uint8_t tag;

	return crypto_secretstream_xchacha20poly1305_pull(&s->in, message, NULL, &tag, sealed,
							  size + SECRET_SEAL_BYTES, NULL, 0)
		   ? -EBADMSG
		   : 0;
}

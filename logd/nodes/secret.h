/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * secret.h: a job's key, and what two daemons prove and say to each other with it.
 *
 * libsodium: its interface has one way to do each thing, and secretstream is
 * what is needed here as a whole (encrypted, authenticated, in order, without
 * replays).  OpenSSL would do, with our own framing around its ciphers.
 *
 * Both sides contribute a nonce; each proves that it knows the key by a MAC of
 * both; the two directions are encrypted under keys derived from all three.
 * A recorded handshake is of no use later, and one's proof is not the other's.
 */
#ifndef LOGD_NODES_SECRET_H
#define LOGD_NODES_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_KEY_BYTES    32
#define SECRET_ID_BYTES     16
#define SECRET_NONCE_BYTES  32
#define SECRET_PROOF_BYTES  32
#define SECRET_HEADER_BYTES 24
#define SECRET_SEAL_BYTES   17 /* by which a message grows */

/* 0, or -errno and a sentence: the file must be this user's, and nobody else's to read. */
int secret_read_key(const char *path, uint8_t *key, char *error, size_t error_size);

/* A job's public name. */
void secret_job_id(const uint8_t *key, uint8_t *id);
/* Of a job without a key, by what it is called. */
void secret_name_id(const char *name, size_t size, uint8_t *id);

void secret_nonce(uint8_t *nonce);

enum secret_side { SECRET_ASKER, SECRET_ANSWERER };

struct secret_talk {
	const uint8_t *key;
	enum secret_side side;
	uint8_t asker[SECRET_NONCE_BYTES], answerer[SECRET_NONCE_BYTES];
};

/* What `side` has to show. */
void secret_prove(const struct secret_talk *t, enum secret_side side, uint8_t *proof);
bool secret_is_proof(const struct secret_talk *t, enum secret_side side, const uint8_t *proof);

/* The two directions of a connection, after the proofs. */
struct secret_stream;

/* `header` goes to the other side.  NULL without memory. */
struct secret_stream *secret_stream_create(const struct secret_talk *t, uint8_t *header);
void secret_stream_free(struct secret_stream *s);
/* The other side's header. */
int secret_stream_accept(struct secret_stream *s, const uint8_t *header);
/* `sealed` has room for size + SECRET_SEAL_BYTES. */
void secret_seal(struct secret_stream *s, const void *message, size_t size, uint8_t *sealed);
/* -EBADMSG: not what the other side sealed next. */
int secret_unseal(struct secret_stream *s, const uint8_t *sealed, void *message, size_t size);

#endif

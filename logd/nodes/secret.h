/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * secret.h: a job's key, and the handshake and encryption between two daemons that have it.
 *
 * It uses libsodium, whose secretstream does all that is needed here (encryption,
 * authentication, order, no replays).  OpenSSL would need a framing of our own.
 *
 * Each side contributes a nonce, and proves by a MAC of both nonces that it has the key.  The two
 * directions are encrypted under keys derived from the key and the nonces.  So an observed
 * handshake is useless later, and neither side can return the other's proof.
 *
 * Any thread.
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

/* Reads a key file, which must belong to this user alone.  0, or -errno and a sentence. */
int secret_read_key(const char *path, uint8_t *key, char *error, size_t error_size);

/* The public id of a job with a key. */
void secret_job_id(const uint8_t *key, uint8_t *id);
/* That of a job without a key, from its name. */
void secret_name_id(const char *name, size_t size, uint8_t *id);

void secret_nonce(uint8_t *nonce);

enum secret_side { SECRET_ASKER, SECRET_ANSWERER };

struct secret_handshake {
	const uint8_t *key;
	enum secret_side side;
	uint8_t asker[SECRET_NONCE_BYTES], answerer[SECRET_NONCE_BYTES];
};

/* The proof that `side` has to send. */
void secret_prove(const struct secret_handshake *t, enum secret_side side, uint8_t *proof);
bool secret_is_proof(const struct secret_handshake *t, enum secret_side side, const uint8_t *proof);

/* The two directions of a connection, once both proofs are checked. */
struct secret_stream;

/* `header` is to be sent to the other side.  NULL: no memory. */
struct secret_stream *secret_stream_create(const struct secret_handshake *t, uint8_t *header);
void secret_stream_free(struct secret_stream *s);
/* Takes the header of the other side.  -EBADMSG: it is not one. */
int secret_stream_accept(struct secret_stream *s, const uint8_t *header);
/* Encrypts `size` bytes; `sealed` has room for size + SECRET_SEAL_BYTES. */
void secret_seal(struct secret_stream *s, const void *message, size_t size, uint8_t *sealed);
/* Decrypts to `size` bytes.  0, or -EBADMSG: it is not what the other side sealed next. */
int secret_unseal(struct secret_stream *s, const uint8_t *sealed, void *message, size_t size);

#endif

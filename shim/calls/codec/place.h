/* SPDX-License-Identifier: BSD-2-Clause */
/* place.h: finds the libraries by which addresses are recorded (sr_put_place). */
#ifndef SHIM_CALLS_CODEC_PLACE_H
#define SHIM_CALLS_CODEC_PLACE_H

/*
 * Finds the libraries that the program started with.  Called before the first call is recorded or
 * replayed.
 */
void sr_places_start(void);

#endif

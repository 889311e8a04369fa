/* SPDX-License-Identifier: BSD-2-Clause */
/* modes.h: ways to record a process that a setting chooses. */
#ifndef SHIM_CORE_MODES_H
#define SHIM_CORE_MODES_H

/* How memory that peers write is recorded. */
enum sr_regions_mode {
	SR_REGIONS_PROTECT,
	SR_REGIONS_COMPARE,
	SR_REGIONS_OFF,
};

#endif

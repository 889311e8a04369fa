/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/introduce.h"

#include "logd/base/say.h"
#include "logd/ring/socket_path.h"
#include "shim/async/uring.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"
#include "shim/core/schema.h"
#include "shim/core/setting.h"
#include "shim/core/settings.h"
#include "shim/files/inputs.h"
#include "shim/kernel/tsc.h"
#include "shim/memory/heap.h"
#include "shim/process/image.h"
#include "shim/record/describe.h"
#include "shim/record/ending.h"
#include "shim/record/streams.h"
#include "shim/signals/signals.h"
#include "shim/verbs/clocks/clocks.h"

static const struct sr_settings *settings;

/* The texts of both descriptions: of the process, and of records. */
struct texts {
	char *extra, *schema;
};

static bool introduce_in(const struct texts *texts, const struct sr_settings *s, enum sr_record_from from, const char *trace,
			 const struct sr_image_origin *image, const struct sr_image_origin *parent)
{
	char error[512] = "", socket_path[108];
	struct sr_hello hello = {
	    .version = SR_TRACE_VERSION,
	    .rank = s->rank,
	    .trace_dir = trace,
	    .schema = texts->schema,
	    .schema_size = sr_schema_unpacked_size,
	    .extra_json = texts->extra,
	    .session = s->session,
	    .late = from == SR_RECORD_FROM_OPEN,
	    .image = image,
	    .parent = parent,
	    .connection = image ? sr_image_connection() : 0,
	};

	sr_schema_unpack(texts->schema);
	if (!sr_record_describe(texts->extra, SR_DESCRIPTION_BYTES, s, from)) {
		sr_say("rank %d is not recorded: the path of its executable is too long", s->rank);
		return false;
	}
	if (sr_socket_path(socket_path, sizeof(socket_path))) {
		sr_say("rank %d is not recorded: the path in %s is too long", s->rank,
		       sr_setting_variable(SR_SETTING_SOCKET));
		return false;
	}
	if (sr_client_connect(&sr_recorder.client, socket_path, &hello, error, sizeof(error))) {
		sr_say("rank %d is not recorded: %s", s->rank, error);
		return false;
	}
	sr_client_set_hooks(&sr_recorder.client, &sr_record_client_hooks);
	return true;
}

/*
 * Introduces the process to the daemon.  False, after a line that says why: it is not recorded.
 * The descriptions are not on the stack, because the program's frames will use this part of it.
 */
static bool introduce(const struct sr_settings *s, enum sr_record_from from, const char *trace,
		      const struct sr_image_origin *image, const struct sr_image_origin *parent)
{
	struct texts texts = {sr_alloc(SR_DESCRIPTION_BYTES), sr_alloc(sr_schema_unpacked_size)};
	bool has_room = texts.extra && texts.schema, is_done = has_room && introduce_in(&texts, s, from, trace, image, parent);

	if (!has_room)
		sr_say("rank %d is not recorded: there is no memory", s->rank);
	sr_free(texts.extra);
	sr_free(texts.schema);
	return is_done;
}

bool sr_record_introduce(const struct sr_settings *s, enum sr_record_from from,
			 const struct sr_image_origin *image)
{
	settings = s;
	return introduce(s, from, s->trace, image, NULL);
}

bool sr_record_introduce_child(const char *trace, const struct sr_image_origin *parent)
{
	sr_recorder.image = (struct sr_image_origin){.sns = parent->sns};
	sr_recorder.is_child = true;
	sr_clocks_start_in_child(settings);
	return introduce(settings, SR_RECORD_FROM_FORK, trace, NULL, parent);
}

/* A child is not recorded: the rings belong to the parent. */
void sr_record_forget(void)
{
	if (!sr_engine)
		return;
	sr_engine = NULL;
	sr_signals_forget_in_child();
	sr_tsc_forget_in_child();
	sr_uring_forget_in_child();
	sr_files_stop();
	sr_threaded = sr_serial = false;
	sr_client_abandon(&sr_recorder.client);
	sr_clocks_forget_in_child();
}

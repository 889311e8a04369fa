/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/report/report.h"

#include <errno.h>

#include "logd/trace/read_trace.h"
#include "replay/print/json_text.h"

int sr_report_write(const struct sr_gathered *g, const char *name, FILE *out, struct sr_error *err)
{
	struct sr_report r = {.g = g, .out = out};
	int ret;

	r.chunk = g->t.slices_n / SR_REPORT_SLICES + 1;
	fputs(sr_report_head, out);
	fputs("{\"writer\":\"sreplay " SREPLAY_VERSION "\",\"trace\":", out);
	sr_json_text(out, name);
	putc(',', out);
	ret = sr_report_timeline(&r);
	if (!ret)
		ret = sr_report_facts(&r);
	fputs("\"strings\":", out);
	sr_strings_write(&r.strings, out);
	fputs("}\n", out);
	fputs(sr_report_tail, out);
	if (ret || r.strings.failed)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	sr_strings_free(&r.strings);
	return ret;
}

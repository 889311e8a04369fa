/* timeline.js: the canvas with bars and arrows, the search, and what a click says. */
const canvas = $("canvas"), pen = canvas.getContext("2d");
const ARROWS = {
	message: {color: "#2f6fde", shown: true, text: "messages"}, write: {color: "#d9480f", shown: true, text: "WRITE → access"},
	maybe: {color: "#e8a33d", shown: true, text: "possible WRITE → access"}, order: {color: "#8a8f98", shown: true, text: "orders"},
	request: {color: "#2b8a3e", shown: false, text: "requests → completions"},
};
const ROW = 26, HEAD = 22, LEFT = 92, STEP = 8; /* STEP: numbers of an arrow */
let backwards = 0; /* arrows that point to the left */
let view = {from: 0, to: Math.max(1, D.length)}, selected = null, hits = [], hit = -1, frame = 0;

/* Columns that were written as growth. */
function prepare() {
	for (const t of D.tracks) {
		let begin = 0, sn = 0;
		for (let i = 0; i < t.b.length; i++) {
			t.b[i] = begin += t.b[i];
			t.s[i] = sn += t.s[i];
		}
	}
	let y = HEAD;
	D.tracks.forEach((t, i) => {
		if (!i || D.tracks[i - 1].rank !== t.rank)
			y += 16;
		t.y = y;
		y += ROW;
	});
	canvas.dataset.height = y + 8;
}

/* Calls of one kind of work have one hue. */
const hues = [[/post_|wr_/, 24], [/poll|get_cq|next_|cq_event/, 208], [/^ibv_|_qp|_mr|_pd|_device/, 265], [/^rdma_|^r[a-z]+$/, 300],
	[/pthread|sem_|mutex/, 140], [/alloc|free|mmap|munmap|brk/, 60], [/./, 190]];
const colors = new Map();
function color(k) {
	if (!colors.has(k)) {
		const i = hues.findIndex(([pattern]) => pattern.test(T[k]));
		colors.set(k, `hsl(${hues[i][1]} ${i === hues.length - 1 ? 12 : 55}% ${dark() ? 48 : 62}%)`);
	}
	return colors.get(k);
}
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

const width = () => canvas.clientWidth;
const xOf = (time) => LEFT + (time - view.from) / (view.to - view.from) * (width() - LEFT - 8);
const timeOf = (x) => view.from + (x - LEFT) / (width() - LEFT - 8) * (view.to - view.from);

/* The first bar that ends behind this time. */
function firstBar(t, time) {
	let low = 0, high = t.b.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (t.b[middle] + t.d[middle] <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

function drawTrack(t, index) {
	const scale = (width() - LEFT - 8) / (view.to - view.from);
	let last = -1;
	for (let i = firstBar(t, view.from); i < t.b.length && t.b[i] <= view.to; i++) {
		const x = Math.max(LEFT, xOf(t.b[i])), end = xOf(t.b[i] + t.d[i]), w = Math.max(0.7, end - x - (scale > 4 ? 1 : 0));
		if (end < last + 0.7)
			continue; /* within the pixel that is drawn already */
		last = end;
		pen.fillStyle = color(t.k[i]);
		pen.fillRect(x, t.y + 3, w, ROW - 8);
		if (w > 46) {
			pen.fillStyle = dark() ? "#fff" : "#111";
			pen.save();
			pen.beginPath();
			pen.rect(x, t.y, w - 3, ROW);
			pen.clip();
			pen.fillText(T[t.k[i]].replace(/^ibv_/, ""), x + 4, t.y + 16);
			pen.restore();
		}
		if (selected && selected.track === index && selected.bar === i) {
			pen.strokeStyle = style("--bad");
			pen.lineWidth = 2;
			pen.strokeRect(x - 1, t.y + 2, w + 2, ROW - 6);
		}
	}
}

/* An arrow begins at its call's begin, and ends at the end of the call that it is known by, or in front of it. */
function ends(a, i) {
	const from = D.tracks[a[i]], to = D.tracks[a[i + 2]];
	const end = to.b[a[i + 3]] + (a[i + 7] ? 0 : to.d[a[i + 3]] - 0.3);
	return [from.b[a[i + 1]], from.y + ROW / 2, end, to.y + ROW / 2];
}

function drawArrows(kind) {
	const a = D.arrows[kind];
	let drawn = 0;
	pen.strokeStyle = pen.fillStyle = ARROWS[kind].color;
	pen.lineWidth = 1;
	pen.globalAlpha = a.length / STEP > 3000 ? 0.25 : 0.75;
	const heads = a.length / STEP < 20000;
	for (let i = 0; i < a.length; i += STEP) {
		const [t0, y0, t1, y1] = ends(a, i);
		if (Math.max(t0, t1) < view.from || Math.min(t0, t1) > view.to)
			continue;
		backwards += t1 < t0;
		const x0 = xOf(t0), x1 = xOf(t1), bend = a[i] === a[i + 2] ? -14 : 0;
		pen.beginPath();
		pen.moveTo(x0, y0);
		pen.quadraticCurveTo((x0 + x1) / 2, (y0 + y1) / 2 + bend, x1, y1);
		pen.stroke();
		if (heads) {
			const angle = Math.atan2(y1 - y0, x1 - x0 || 0.001);
			pen.beginPath();
			pen.moveTo(x1, y1);
			pen.lineTo(x1 - 6 * Math.cos(angle - .4), y1 - 6 * Math.sin(angle - .4));
			pen.lineTo(x1 - 6 * Math.cos(angle + .4), y1 - 6 * Math.sin(angle + .4));
			pen.fill();
		}
		drawn += a[i + 4];
	}
	pen.globalAlpha = 1;
	return drawn;
}

/* Requests that a rank has outstanding: a line above its first thread. */
function drawOutstanding(rank, y) {
	const steps = D.outstanding[rank];
	let most = 1;
	for (let i = 1; i < steps.length; i += 2)
		most = Math.max(most, steps[i]);
	pen.strokeStyle = ARROWS.request.color;
	pen.lineWidth = 1;
	pen.beginPath();
	let height = 0;
	pen.moveTo(LEFT, y);
	for (let i = 0; i < steps.length; i += 2) {
		const x = Math.min(Math.max(LEFT, xOf(steps[i])), width());
		pen.lineTo(x, y - height);
		height = 12 * steps[i + 1] / most;
		pen.lineTo(x, y - height);
	}
	pen.lineTo(Math.max(LEFT, Math.min(width() - 8, xOf(D.length))), y - height);
	pen.stroke();
}

/* On the causal axis a number of calls, else the time since the first call. */
function timeText(time) {
	if (!D.began)
		return count(Math.round(time));
	const size = view.to - view.from, unit = size < 1e5 ? [1, "ns"] : size < 1e8 ? [1e3, "µs"] : size < 1e11 ? [1e6, "ms"] : [1e9, "s"];
	return count(Math.round(time / unit[0])) + " " + unit[1];
}

function drawLabels() {
	pen.fillStyle = style("--back");
	pen.fillRect(0, 0, LEFT - 2, +canvas.dataset.height);
	pen.fillStyle = style("--text");
	D.tracks.forEach((t, i) => {
		if (!i || D.tracks[i - 1].rank !== t.rank)
			pen.fillText(`rank ${D.ranks[t.rank].n}`, 6, t.y + 16);
		if (t.thread || (D.tracks[i + 1] && D.tracks[i + 1].rank === t.rank))
			pen.fillText("." + t.thread, 62, t.y + 16);
	});
	pen.fillStyle = style("--soft");
	for (let i = 0; i <= 8; i++) {
		const time = view.from + (view.to - view.from) * i / 8, x = xOf(time), text = timeText(time);
		pen.fillText(text, x - (i === 8 ? pen.measureText(text).width : 0), 14);
		pen.fillRect(x, 17, 1, 5);
	}
}

function draw() {
	frame = 0;
	backwards = 0;
	const ratio = devicePixelRatio || 1, height = +canvas.dataset.height, drawn = {};
	canvas.style.height = height + "px";
	canvas.width = width() * ratio;
	canvas.height = Math.min(height, 16000 / ratio) * ratio;
	pen.setTransform(ratio, 0, 0, ratio, 0, 0);
	pen.fillStyle = style("--back");
	pen.fillRect(0, 0, width(), height);
	pen.font = "12px system-ui, sans-serif";
	D.tracks.forEach((t, i) => {
		pen.fillStyle = style("--band");
		pen.fillRect(LEFT, t.y, width(), ROW - 3);
		if (!i || D.tracks[i - 1].rank !== t.rank)
			drawOutstanding(t.rank, t.y - 1);
		drawTrack(t, i);
	});
	for (const kind in ARROWS)
		drawn[kind] = ARROWS[kind].shown ? drawArrows(kind) : 0;
	drawLabels();
	document.body.dataset.backwards = backwards;
	document.body.dataset.drawn = JSON.stringify(drawn); /* for the test: arrows of the trace in this view */
}
const redraw = () => { frame = frame || requestAnimationFrame(draw); };

function move(from, to) {
	const size = Math.min(Math.max(to - from, 4), D.length + 2);
	view.from = Math.min(Math.max(-1, from), Math.max(0, D.length + 1 - size));
	view.to = view.from + size;
	redraw();
}
function zoom(factor, at = (view.from + view.to) / 2) {
	move(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

/* ---------------------------------------------------------- what a call says */

const OPCODES = ["WRITE", "WRITE with immediate", "SEND", "SEND with immediate", "READ", "compare and swap", "fetch and add"];
function describe(track, bar) {
	const t = D.tracks[track], lines = [];
	const many = t.c[bar] > 1 ? `, ${count(t.c[bar])} calls` : "";
	lines.push(`${placeName(t, t.s[bar])} ${T[t.k[bar]]}${T[t.w[bar]] ? " at " + T[t.w[bar]] : ""}${many}`);
	for (const p of D.posts)
		if (p[0] === track && p[1] === bar && lines.length < 12)
			lines.push(`  request: ${OPCODES[p[3]] || "opcode " + p[3]} of ${bytes(p[6])} to ${rankName(p[5])}, ${p[7]}, queue pair ${p[4]}`);
	for (const kind in ARROWS)
		for (let a = D.arrows[kind], i = 0; i < a.length && lines.length < 30; i += STEP) {
			if (a[i] === track && a[i + 1] === bar)
				lines.push(`  ${kind}: to ${placeName(D.tracks[a[i + 2]], a[i + 6])}${a[i + 4] > 1 ? " and " + (a[i + 4] - 1) + " more" : ""}`);
			if (a[i + 2] === track && a[i + 3] === bar)
				lines.push(`  ${kind}: from ${placeName(D.tracks[a[i]], a[i + 5])}${a[i + 4] > 1 ? " and " + (a[i + 4] - 1) + " more" : ""}`);
		}
	D.values.forEach((v, i) => {
		if (v[0] === track && v[1] === bar && lines.length < 60)
			lines.push(v[8].split("\n").slice(1).join("\n").trimEnd());
	});
	return lines.join("\n");
}

/* What is shown around a call that was asked for: some 60 calls on either side, of those that follow each other. */
const NEAR = D.began ? Math.ceil(60 * D.length * D.tracks.length / D.calls) : 60;

function selectBar(track, bar, jump) {
	const t = D.tracks[track], begin = t.b[bar], size = view.to - view.from;
	selected = {track, bar};
	$("detail").textContent = describe(track, bar);
	if (jump && size > 3 * NEAR)
		move(begin - NEAR, begin + NEAR);
	else if (begin < view.from || begin > view.to)
		move(begin - size / 2, begin + size / 2);
	redraw();
}

/* The arrow that ends at the selected call, else the one that begins there, is followed. */
function follow() {
	for (const kind in ARROWS)
		for (let a = D.arrows[kind], i = 0; selected && ARROWS[kind].shown && i < a.length; i += STEP)
			if (a[i + 2] === selected.track && a[i + 3] === selected.bar)
				return selectBar(a[i], a[i + 1], false);
	for (const kind in ARROWS)
		for (let a = D.arrows[kind], i = 0; selected && ARROWS[kind].shown && i < a.length; i += STEP)
			if (a[i] === selected.track && a[i + 1] === selected.bar)
				return selectBar(a[i + 2], a[i + 3], false);
}

function at(x, y) {
	const track = D.tracks.findIndex((t) => y >= t.y && y < t.y + ROW);
	if (track < 0 || x < LEFT)
		return null;
	const t = D.tracks[track], slack = (view.to - view.from) / width() * 3, bar = firstBar(t, timeOf(x) - slack);
	return bar < t.b.length && t.b[bar] <= timeOf(x) + slack ? {track, bar} : null;
}

/* -------------------------------------------------------------------- search */

function barOf(track, sn) {
	let found = 0;
	for (let low = 0, high = track.s.length; low < high;) {
		const middle = (low + high) >> 1;
		if (track.s[middle] <= sn) {
			found = middle;
			low = middle + 1;
		} else
			high = middle;
	}
	return found;
}

function findAddress(text) {
	const address = BigInt(text), found = [];
	const inside = (base, size) => address >= BigInt(base) && address < BigInt(base) + BigInt(Math.max(1, size));
	for (const v of D.values)
		if (inside(v[4], v[5]))
			found.push([v[0], v[1]]);
	for (const p of D.posts)
		if (inside(p[7], p[6]))
			found.push([p[0], p[1]]);
	return found;
}

function findText(text) {
	const wanted = text.toLowerCase(), matching = new Set(), found = [];
	T.forEach((s, i) => { if (s.toLowerCase().includes(wanted)) matching.add(i); });
	D.tracks.forEach((t, track) => {
		for (let i = 0; i < t.b.length; i++)
			if (matching.has(t.k[i]) || (matching.has(t.w[i]) && T[t.w[i]]))
				found.push([track, i]);
	});
	return found.sort((a, b) => D.tracks[a[0]].b[a[1]] - D.tracks[b[0]].b[b[1]]);
}

function find(text) {
	const place = /^(\d+)(?:\.(\d+))?:(\d+)$/.exec(text);
	if (!text)
		return [];
	if (/^0x[0-9a-f]+$/i.test(text))
		return findAddress(text);
	if (!place)
		return findText(text);
	const track = D.tracks.findIndex((t) => D.ranks[t.rank].n === +place[1] && t.thread === +(place[2] || 0));
	return track < 0 || !D.tracks[track].s.length ? [] : [[track, barOf(D.tracks[track], +place[3])]];
}

function showHit(step) {
	hit = hits.length ? (hit + step + hits.length) % hits.length : -1;
	$("hits").textContent = hits.length ? `${hit + 1} of ${count(hits.length)}` : $("search").value ? "nothing found" : "";
	if (hit >= 0)
		selectBar(hits[hit][0], hits[hit][1], true);
}
function search() {
	hits = find($("search").value.trim());
	hit = -1;
	showHit(1);
}

/* -------------------------------------------------------------------- events */

function listen() {
	let drag = null;
	canvas.addEventListener("wheel", (e) => {
		e.preventDefault();
		if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
			const by = (e.deltaX || e.deltaY) / width() * (view.to - view.from);
			move(view.from + by, view.to + by);
		} else
			zoom(e.deltaY > 0 ? 1.25 : 0.8, timeOf(e.offsetX));
	}, {passive: false});
	canvas.addEventListener("pointerdown", (e) => {
		drag = {x: e.offsetX, from: view.from, to: view.to, moved: false};
		canvas.setPointerCapture(e.pointerId);
	});
	canvas.addEventListener("pointermove", (e) => {
		if (drag && Math.abs(e.offsetX - drag.x) > 3) {
			const by = (drag.x - e.offsetX) / (width() - LEFT - 8) * (drag.to - drag.from);
			drag.moved = true;
			move(drag.from + by, drag.to + by);
		}
		const over = drag ? null : at(e.offsetX, e.offsetY), tip = $("tip");
		tip.hidden = !over;
		if (over) {
			tip.textContent = describe(over.track, over.bar).split("\n").slice(0, 6).join("\n");
			tip.style.left = Math.min(e.clientX + 12, innerWidth - 320) + "px";
			tip.style.top = e.clientY + 14 + "px";
		}
	});
	canvas.addEventListener("pointerup", (e) => {
		const over = at(e.offsetX, e.offsetY);
		if (drag && !drag.moved && over)
			selectBar(over.track, over.bar, false);
		drag = null;
	});
	canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
	addEventListener("keydown", key);
	addEventListener("resize", redraw);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors.clear(); redraw(); });
	$("in").addEventListener("click", () => zoom(0.5));
	$("out").addEventListener("click", () => zoom(2));
	$("all").addEventListener("click", () => move(0, D.length));
	$("next").addEventListener("click", () => showHit(1));
	$("search").addEventListener("change", search);
}

function key(e) {
	const size = view.to - view.from;
	if (e.target === $("search")) {
		if (e.key === "Enter" && hit >= 0)
			showHit(1);
		return;
	}
	if (e.ctrlKey || e.altKey || e.metaKey)
		return;
	const step = (by) => selected && D.tracks[selected.track].b[selected.bar + by] !== undefined &&
		selectBar(selected.track, selected.bar + by, false);
	const keys = {
		"+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), "0": () => move(0, D.length),
		ArrowLeft: () => move(view.from - size / 8, view.to - size / 8), ArrowRight: () => move(view.from + size / 8, view.to + size / 8),
		n: () => step(1), p: () => step(-1), a: follow, "/": () => $("search").focus(),
	};
	if (keys[e.key]) {
		e.preventDefault();
		keys[e.key]();
	}
}

function checkboxes() {
	for (const kind in ARROWS) {
		const label = element("label"), box = element("input"), a = D.arrows[kind];
		let sum = 0;
		for (let i = 0; i < a.length; i += STEP)
			sum += a[i + 4];
		box.type = "checkbox";
		box.checked = ARROWS[kind].shown = ARROWS[kind].shown && sum > 0;
		box.addEventListener("change", () => { ARROWS[kind].shown = box.checked; redraw(); });
		const text = element("span", ` ${ARROWS[kind].text} (${count(sum)})`);
		text.style.color = ARROWS[kind].color;
		label.append(box, text);
		$("kinds").append(label);
	}
}

prepare();
summary();
checkboxes();
talk();
values();
costs();
listen();
if (D.began)
	$("axis").textContent = `Times are those of the recording, which began at ${new Date(D.began).toLocaleString()}` +
		(D.coarse ? ", by a clock that moves every few milliseconds: in between, a call begins after what it is known to follow." : ".");
$("chunk").textContent = D.chunk > 1 ? `This run is long: a bar is up to ${D.chunk} calls, named by the most frequent.` : "";
if (location.hash.includes(":")) {
	$("search").value = decodeURIComponent(location.hash.slice(1)); /* report.html#2.0:43 */
	search();
}
draw();
document.body.dataset.ready = "yes";
document.body.dataset.bars = D.tracks.reduce((sum, t) => sum + t.b.length, 0);

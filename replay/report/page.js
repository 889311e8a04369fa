/* page.js: reads the data, and shows everything but the timeline.  Texts of the trace become text nodes only. */
const D = JSON.parse(document.getElementById("data").textContent);
const T = D.strings;
const $ = (id) => document.getElementById(id);

window.addEventListener("error", (e) => { document.body.dataset.error = e.message; });

function element(name, text, cls) {
	const e = document.createElement(name);
	if (text !== undefined)
		e.textContent = text;
	if (cls)
		e.className = cls;
	return e;
}

const count = (n) => n.toLocaleString("en");
function bytes(n) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let i = 0;
	for (; n >= 10240 && i < 4; i++)
		n /= 1024;
	return (i ? n.toFixed(1) : n) + " " + units[i];
}
const rankName = (i) => i >= 0 && i < D.ranks.length ? "rank " + D.ranks[i].n : "outside";
const shortName = (i) => i >= 0 && i < D.ranks.length ? String(D.ranks[i].n) : "outside";

/* Rows of a table: numbers are right-aligned. */
function table(id, heads, rows) {
	const t = $(id), tr = element("tr");
	heads.forEach((h, i) => tr.append(element("th", h, rows.length && typeof rows[0][i] === "number" ? "n" : "")));
	t.append(tr);
	for (const row of rows) {
		const r = element("tr");
		for (const cell of row)
			r.append(typeof cell === "number" ? element("td", count(cell), "n") : element("td", cell, "place"));
		t.append(r);
	}
	return t;
}

function summary() {
	document.title = D.trace + " - sreplay report";
	$("name").textContent = D.trace;
	$("facts").textContent = `${count(D.ranks.length)} ranks, ${count(D.tracks.length)} threads, ${count(D.calls)} records of calls, ` +
		`${count(D.valuesTotal)} values that entered; made by ${D.writer}`;
	for (const [level, text] of D.health)
		$("health").append(element("li", text, level));
	table("ranks", ["rank", "command", "host", "end", "threads", "records", "bytes"],
		D.ranks.map((r) => [r.n, r.command, r.host, r.end, r.threads, r.records, r.bytes]));
}

/* A matrix of ranks, the outside behind them: cell(from, to) is {text, weight} or nothing. */
function matrix(id, size, cell) {
	const t = $(id), head = element("tr"), n = D.ranks.length;
	if (n > 64) {
		t.append(element("caption", `${n} ranks: the largest 200 are listed`));
		const all = [];
		for (let i = 0; i <= n; i++)
			for (let k = 0; k <= n; k++)
				if (cell(i, k))
					all.push([cell(i, k), i, k]);
		all.sort((a, b) => b[0].weight - a[0].weight);
		for (const [c, i, k] of all.slice(0, 200)) {
			const tr = element("tr");
			tr.append(element("td", rankName(i)), element("td", "→ " + rankName(k)), element("td", c.text));
			t.append(tr);
		}
		return;
	}
	head.append(element("th", "from \\ to"));
	for (let k = 0; k < size; k++)
		head.append(element("th", shortName(k), "n"));
	t.append(head);
	let most = 1;
	for (let i = 0; i <= n; i++)
		for (let k = 0; k <= n; k++)
			most = Math.max(most, cell(i, k) ? cell(i, k).weight : 0);
	for (let i = 0; i <= n; i++) {
		const tr = element("tr");
		let any = false;
		tr.append(element("th", shortName(i)));
		for (let k = 0; k < size; k++) {
			const c = cell(i, k), td = element("td", c ? c.text : "", "n");
			if (c) {
				td.title = c.title;
				td.classList.add("heat");
				td.style.setProperty("--h", Math.round(45 * Math.log(1 + c.weight) / Math.log(1 + most)));
				any = true;
			}
			tr.append(td);
		}
		if (any || i < n)
			t.append(tr);
	}
}

const SVG = "http://www.w3.org/2000/svg";
function shape(name, attributes, text) {
	const e = document.createElementNS(SVG, name);
	for (const key in attributes)
		e.setAttribute(key, attributes[key]);
	if (text !== undefined)
		e.textContent = text;
	return e;
}

/* Ranks on a circle, the outside in its middle. */
function graph(edges) {
	const n = D.ranks.length, svg = $("graph"), R = 150;
	if (n > 64) {
		svg.remove();
		return;
	}
	svg.setAttribute("viewBox", "-190 -190 380 380");
	const at = (i) => i >= n ? [0, 0] : [R * Math.sin(2 * Math.PI * i / n), -R * Math.cos(2 * Math.PI * i / n)];
	for (const [from, to, weight, title] of edges) {
		const [x, y] = at(from), [u, v] = at(to), width = 0.5 + Math.log2(1 + weight) / 5;
		const dx = u - x, dy = v - y, l = Math.hypot(dx, dy) || 1, d = from === to
			? `M${x} ${y} c ${-30 - y * .3} ${x * .3 - 10} ${x * .4} ${y * .4} 0 0`
			: `M${x} ${y} Q ${(x + u) / 2 - dy / l * 18} ${(y + v) / 2 + dx / l * 18} ${u} ${v}`;
		const path = shape("path", {d, fill: "none", stroke: "var(--accent)", "stroke-width": width, "stroke-opacity": .55});
		path.append(shape("title", {}, title));
		svg.append(path);
	}
	const r = Math.min(15, Math.max(5, 300 / n));
	for (let i = 0; i <= n; i++) {
		const [x, y] = at(i);
		if (i === n && !edges.some((e) => e[0] === n || e[1] === n))
			continue;
		svg.append(shape("circle", {cx: x, cy: y, r: i === n ? 26 : r, fill: "var(--band)", stroke: "var(--soft)"}),
			shape("text", {x, y: y + 4}, shortName(i)));
	}
}

const KINDS = ["send", "write", "read", "atomic"];
function talk() {
	const n = D.ranks.length, cells = new Map(), found = new Map();
	for (const e of D.traffic) {
		const used = KINDS.filter((k) => e[k][0]);
		const weight = used.reduce((sum, k) => sum + e[k][1], 0);
		cells.set(e.from * (n + 1) + e.to, {weight, text: count(used.reduce((sum, k) => sum + e[k][0], 0)),
			title: `${rankName(e.from)} → ${rankName(e.to)}: ` + used.map((k) => `${count(e[k][0])} ${k}s (${bytes(e[k][1])})`).join(", "),
			from: e.from, to: e.to});
	}
	matrix("matrix", n + 1, (i, k) => cells.get(i * (n + 1) + k));
	graph([...cells.values()].map((c) => [c.from, c.to, c.weight, c.title]));
	for (const [from, to, values, size] of D.producers)
		found.set(from * (n + 1) + to, {weight: size, text: bytes(size), title: `${rankName(from)} → ${rankName(to)}: ${count(values)} values, ${bytes(size)}`});
	$("producersTitle").textContent = D.replayed ? "Bytes that entered, by the rank that produced them (a replay's findings)"
		: "Bytes that entered, by the rank that produced them, as far as the trace alone tells" +
		(D.values.length < D.valuesTotal ? ` (of ${count(D.values.length)} of ${count(D.valuesTotal)} values)` : "");
	matrix("producers", n, (i, k) => found.get(i * (n + 1) + k));
}

const CLASSES = ["message", "fetched", "exposed memory"];
function showValue(i) {
	const v = D.values[i];
	$("value").textContent = v[8];
	for (const row of document.querySelectorAll("#valuesTable tr.on"))
		row.classList.remove("on");
	const row = document.querySelector(`#valuesTable tr[data-value="${i}"]`);
	if (row)
		row.classList.add("on");
}

function values() {
	const t = $("valuesTable"), head = element("tr");
	$("valuesNote").textContent = D.values.length < D.valuesTotal
		? `${count(D.values.length)} of ${count(D.valuesTotal)} values, at even distances; sreplay explain says it of each.`
		: `All ${count(D.valuesTotal)} values.`;
	for (const h of ["where", "call", "address", "bytes", "class", "from"])
		head.append(element("th", h));
	t.append(head);
	D.values.forEach((v, i) => {
		const track = D.tracks[v[0]], tr = element("tr");
		tr.append(element("td", placeName(track, v[2]) + (v[3] ? " + load " + v[3] : "")), element("td", T[track.k[v[1]]]),
			element("td", v[4]), element("td", count(v[5]), "n"), element("td", CLASSES[v[6]]), element("td", rankName(v[7])));
		tr.tabIndex = 0;
		tr.dataset.value = i;
		const choose = () => { showValue(i); selectBar(v[0], v[1], false); };
		tr.addEventListener("click", choose);
		tr.addEventListener("keydown", (e) => { if (e.key === "Enter") choose(); });
		t.append(tr);
	});
}

function placeName(track, sn) {
	return `${D.ranks[track.rank].n}.${track.thread}:${sn}`;
}

function costs() {
	table("entered", ["class", "values", "bytes"], D.entered);
	table("recordsTable", ["records", "bytes"], D.records);
	const kinds = D.kinds.map(([k, n, b]) => [T[k], n, b]).sort((a, b) => b[1] - a[1]);
	table("callsTable", ["call", "times", "bytes of records"], kinds.slice(0, 60));
	const sites = (list) => list.map(([rank, what, place, n, b]) => [rankName(rank), T[what], T[place], n, b]);
	table("sites", ["", "call", "place", "times", "bytes"], sites(D.sites));
	table("loads", ["", "", "place", "times", "bytes"], sites(D.loads));
}

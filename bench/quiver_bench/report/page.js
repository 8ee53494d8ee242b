"use strict";
// The static page: tabs, choice of suites and devices, state in the address, CSV.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);

function state() {
  const words = new URLSearchParams(location.hash.slice(1));
  const list = (name) => (words.get(name) || "").split(",").filter(Boolean);
  return { tab: words.get("tab") in data.tabs ? words.get("tab") : "trending", suites: list("suites"),
    devices: list("devices"), normalise: words.get("normalise") === "1" };
}

function go(change) {
  const next = { ...state(), ...change };
  const words = new URLSearchParams({ tab: next.tab });
  if (next.suites.length) words.set("suites", next.suites.join(","));
  if (next.devices.length) words.set("devices", next.devices.join(","));
  if (next.normalise) words.set("normalise", "1");
  location.hash = words.toString();
}

const chosen = (now, suite, device) =>
  (!now.suites.length || now.suites.includes(suite)) && (!now.devices.length || now.devices.includes(device));

function rows(now) {
  return data.coverage[now.normalise ? "2ghz" : "measured"].filter((row) => chosen(now, row.suite, row.device));
}

function shown(value, unit) {
  if (typeof value !== "number") return value === null ? "" : String(value);
  const scale = { pps: [1e6, " Mpps"], cps: [1e6, " Mcps"], bps: [1e9, " Gbit/s"], s: [1e-3, " ms"] }[unit] || [1, ""];
  return (value / scale[0]).toFixed(3) + scale[1];
}

function table(now) {
  const made = document.createElement("table");
  const head = made.createTHead().insertRow();
  for (const name of data.columns) head.appendChild(document.createElement("th")).textContent = name.replaceAll("_", " ");
  const body = made.createTBody();
  for (const row of rows(now)) {
    const line = body.insertRow();
    for (const name of data.columns) {
      const cell = line.insertCell();
      const time = name.endsWith("_us");
      const number = time || ["figure", "low", "high"].includes(name);
      if (time) cell.textContent = row[name]?.toFixed(1) ?? "";
      else cell.textContent = number ? shown(row[name], row.unit) : String(row[name] ?? "");
      if (number) cell.className = "number";
    }
  }
  at("table").replaceChildren(made);
  return body.rows.length;
}

function show() {
  const now = state();
  for (const button of at("tabs").children) button.classList.toggle("here", button.dataset.tab === now.tab);
  for (const [name, values] of [["suites", now.suites], ["devices", now.devices]])
    for (const option of at(name).options) option.selected = values.includes(option.value);
  at("normalise").checked = now.normalise;
  let count;
  if (now.tab === "coverage") {
    at("figure").replaceChildren();
    count = table(now);
  } else {
    at("table").replaceChildren();
    const figure = data.figures[now.tab][now.normalise ? "2ghz" : "measured"];
    const traces = figure.data.filter((trace) => !trace.meta || chosen(now, trace.meta.suite, trace.meta.device));
    count = traces.length;
    Plotly.react("figure", traces, figure.layout, { responsive: true, displaylogo: false });
  }
  at("empty").hidden = count > 0;
  document.body.dataset.shown = `${now.tab}:${count}`;
}

function csv() {
  const quote = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  const lines = [data.columns.join(","), ...rows(state()).map((row) => data.columns.map((name) => quote(row[name])).join(","))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = "quiver-bench.csv";
  link.click();
}

for (const [tab, title] of Object.entries(data.tabs)) {
  const button = at("tabs").appendChild(document.createElement("button"));
  button.textContent = title;
  button.dataset.tab = tab;
  button.onclick = () => go({ tab });
}
for (const name of ["suites", "devices"]) {
  for (const value of data[name]) at(name).add(new Option(value, value));
  at(name).onchange = () => go({ [name]: [...at(name).selectedOptions].map((option) => option.value) });
}
at("normalise").onchange = () => go({ normalise: at("normalise").checked });
at("all").onclick = () => go({ suites: [], devices: [] });
at("csv").onclick = csv;
addEventListener("hashchange", show);
show();

// Keeps an open page up to date: one EventSource tells that something changed, and the page's own
// content is then fetched and put in place of what differs. Without it every page works, only not live.

const { base, topics } = document.body.dataset;
const wanted = new Set(topics ? topics.split(" ") : []);
// The server's clock counts, if this machine's differs noticeably.
const arrived = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const apart = document.body.dataset.now ? Date.parse(document.body.dataset.now) - arrived : 0;
const ahead = Math.abs(apart) > 2000 ? apart : 0;
const SILENT = 20_000;
const SETTLE = 250;
const PRESS = 3000;

let source = null, lastHeard = 0, refreshing = false, again = false, timer = null, lostAt = null;
let pressedAt = -Infinity, kept = [];

const live = document.getElementById("live");
const banner = document.getElementById("banner");

function show(state, word, text = "") {
  if (live) { live.dataset.state = state; live.querySelector(".word").textContent = word; }
  banner.hidden = !text;
  banner.textContent = text;
  document.body.classList.toggle("stale", Boolean(text));
}

function lost() {
  lostAt ??= new Date();
  const at = lostAt.toISOString().slice(11, 19);
  show("lost", "disconnected", `No connection since ${at} UTC. What you see is from then; trying again.`);
}

function heard() {
  lastHeard = Date.now();
  lostAt = null;
  show("live", kept.length ? "partly paused" : "live");
}

function connect() {
  if (source || !wanted.size || document.hidden) return;
  lastHeard = Date.now();
  source = new EventSource(`${base}/live`);
  source.addEventListener("hello", () => { heard(); soon(); });
  source.addEventListener("beat", () => { heard(); if (wanted.has("beat")) soon(); });
  source.addEventListener("again", () => { disconnect(); connect(); });
  source.addEventListener("changed", (event) => {
    heard();
    if (event.data.split(" ").some((topic) => wanted.has(topic))) soon();
  });
  source.addEventListener("trouble", (event) => {
    lastHeard = Date.now();
    show("trouble", "stale", `The store does not answer: ${event.data} What you see may be old.`);
  });
  source.onerror = () => {
    lost();
    if (source && source.readyState === EventSource.CLOSED) { disconnect(); setTimeout(connect, 3000); }
  };
}

function disconnect() { source?.close(); source = null; }

function soon() { clearTimeout(timer); timer = setTimeout(refresh, SETTLE); }

async function refresh() {
  if (refreshing || isPressed()) { again = true; return; }
  refreshing = true;
  try {
    const answer = await fetch(location.href, { headers: { "Tenure-Fragment": "1" }, credentials: "same-origin" });
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (isPressed()) again = true;
    else place(fresh);
  } catch {
    lost();
  } finally {
    refreshing = false;
    catchUp();
  }
}

function place(fresh) {
  kept = [];
  for (const old of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(old.id);
    if (!next || next.innerHTML === old.dataset.was) continue;
    if (isUsed(old)) { kept.push(old); continue; }
    const was = next.innerHTML;
    for (const details of old.querySelectorAll("details[open]")) {
      const same = details.id && next.querySelector(`#${CSS.escape(details.id)}`);
      if (same) same.open = true;
    }
    const scrolled = [...old.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const focused = old.contains(document.activeElement) && document.activeElement.id;
    old.replaceWith(next);
    next.dataset.was = was;
    next.querySelectorAll(".scroll").forEach((box, n) => { box.scrollLeft = scrolled[n] ?? 0; });
    if (focused) document.getElementById(focused)?.focus();
  }
  if (live?.dataset.state === "live") heard();
}

// What had to wait for you to let go, or to be done with a section.
function catchUp() {
  if (kept.length && !kept.some(isUsed)) { kept = []; again = true; }
  if (again && !refreshing && !isPressed()) { again = false; soon(); }
}

// A press and its release are a click only if the same element is still there. Not every release is
// told (a scrollbar's, a system's shortcut), so a press ends by itself too.
function isPressed() { return performance.now() - pressedAt < PRESS; }
function release() { pressedAt = -Infinity; catchUp(); }
for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => { pressedAt = performance.now(); }, true);
for (const name of ["pointerup", "pointercancel", "keyup"]) addEventListener(name, release, true);
addEventListener("blur", release);

// Where you write, choose, mark a text to copy it or read a dialog, nothing is pulled away.
function isUsed(section) {
  const active = document.activeElement, marked = getSelection();
  return Boolean(section.querySelector("dialog[open], :checked:not(option)"))
    || (!marked.isCollapsed && marked.containsNode(section, true))
    || (section.contains(active) && active.matches("input, select, textarea"));
}

// "3m ago" goes on by itself, in the same words as the server's.
function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole}s`;
  for (const [name, size, smaller, part, most] of [["m", 60, "s", 1, 60], ["h", 3600, "m", 60, 48], ["d", 86400, "h", 3600, Infinity]]) {
    if (whole < size * most) {
      const rest = Math.floor((whole % size) / part);
      return rest ? `${Math.floor(whole / size)}${name} ${rest}${smaller}` : `${Math.floor(whole / size)}${name}`;
    }
  }
}

function count() {
  for (const time of document.querySelectorAll("time[data-relative]")) {
    const seconds = (Date.parse(time.dateTime) - Date.now() - ahead) / 1000;
    if (Math.abs(seconds) < 1) time.textContent = "now";
    else time.textContent = seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
  }
}

setInterval(() => {
  count();
  catchUp();
  if (source && Date.now() - lastHeard > SILENT) { lost(); disconnect(); connect(); }
}, 1000);
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);

// `/` goes to the search.
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});
// Browsers open and close dialogs by themselves (`command`), also before this script is there; those
// from before 2025 do not, and none marks what is to be overwritten.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[commandfor]");
  const dialog = button && document.getElementById(button.getAttribute("commandfor"));
  if (button?.getAttribute("command") === "show-modal") unfold(dialog);
  else dialog?.close();
});
function unfold(dialog) {
  dialog.showModal();
  const first = dialog.querySelector("form[data-preview] :is(input, select):not([type=hidden])");
  if (first?.value) { first.select?.(); first.dispatchEvent(new Event("input", { bubbles: true })); }
}
document.addEventListener("submit", (event) => {
  for (const button of event.target.querySelectorAll("button")) setTimeout(() => { button.disabled = true; });
});

// Shows what a form would do while it is filled in.
let asked = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-preview]");
  if (!form) return;
  const number = ++asked;
  setTimeout(async () => {
    if (number !== asked) return;
    const fields = new URLSearchParams(new FormData(form));
    fields.delete("proof");
    const answer = await fetch(`${base}${form.dataset.preview}?${fields}`, { credentials: "same-origin" }).catch(() => null);
    if (number !== asked || !answer?.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    form.querySelector(".preview").replaceChildren(...fresh.body.childNodes);
  }, SETTLE);
});

// What the last action said is said once: not after a reload, nor to whom the address is sent.
const here = new URL(location.href);
if (here.searchParams.has("said")) {
  for (const name of ["said", "mark"]) here.searchParams.delete(name);
  history.replaceState(null, "", here);
}

// A drawing that is wider than the window opens at "now", not at its oldest end.
for (const box of document.querySelectorAll("[data-at]")) {
  box.scrollLeft = box.dataset.at * box.scrollWidth - box.clientWidth * 0.7;
}

connect();

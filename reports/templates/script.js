// Tables with class "sort" are sorted by a click on a column's head; the page does without. Cells without a number stay last.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  const value = (cell) => {
    const text = cell ? cell.dataset.value || cell.textContent.trim() : "";
    const number = cell && cell.tagName === "TD" && text.match(/^[~+\u2212-]?\d[\d,]*(\.\d+)?/);
    return number ? Number(number[0].replace(/[~+,]/g, "").replace("\u2212", "-")) : text;
  };
  [...table.tHead.rows[table.tHead.rows.length - 1].cells].forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (one, other) => {
        const [a, b] = [value(one.cells[place]), value(other.cells[place])];
        const numbers = [a, b].filter((each) => typeof each === "number").length;
        if (numbers === 1) return typeof a === "number" ? -1 : 1;
        return (up ? 1 : -1) * (numbers ? a - b : a.localeCompare(b));
      };
      [...body.rows].sort(order).forEach((row) => body.append(row));
    });
  });
}

// A click copies the text; without a clipboard a link leads to it.
for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    navigator.clipboard.writeText(button.dataset.copy).then(() => (button.textContent = "copied"));
  });

// The search box of a page that has one: titles and other words first, then what is said of them.
for (const box of document.querySelectorAll(".search")) {
  const input = box.querySelector("input"), list = box.querySelector("ol");
  const index = JSON.parse(document.getElementById("index").textContent);
  const plain = (text) => text.toLowerCase().replace(/[_.-]/g, " ").replace(/s\b/g, "");
  for (const one of index) one.all = [plain(one.title), plain(one.words), plain(one.says)];
  const rank = (one, asked) => {
    const words = asked.split(/\s+/).filter(Boolean);
    if (!words.every((word) => one.all.some((text) => text.includes(word)))) return -1;
    const [title, also, says] = one.all;
    return title === asked || also.includes(asked) ? 4 : title.startsWith(asked) ? 3 : title.includes(asked) ? 2 : says.includes(asked) ? 1 : 0;
  };
  const search = () => {
    const asked = plain(input.value.trim()).trim();
    const found = asked ? index.map((one) => [rank(one, asked), one]).filter(([how]) => how >= 0) : [];
    found.sort(([a], [b]) => b - a);
    list.replaceChildren(...found.slice(0, 8).map(([, one]) => {
      const item = document.createElement("li"), link = document.createElement("a"), says = document.createElement("span");
      link.href = one.to;
      link.textContent = one.title;
      says.textContent = one.says;
      item.append(link, says);
      return item;
    }));
    if (asked && !found.length) list.append(Object.assign(document.createElement("li"), { textContent: "Nothing has these words." }));
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") list.querySelector("a")?.click();
    if (event.key === "Escape") { input.value = ""; search(); }
  });
  list.addEventListener("click", () => { input.value = ""; search(); });
  box.hidden = false;
}

// Files that the user chooses, or drops anywhere on the page.

/// Calls `f` with a list of files that are chosen in an input, or dropped.
export function onFiles(input, f) {
  const mark = (on) => document.documentElement.classList.toggle("dropping", on);
  input.addEventListener("change", () => {
    f([...input.files]);
    // The same file may be chosen again.
    input.value = "";
  });
  addEventListener("dragover", (event) => (event.preventDefault(), mark(true)));
  addEventListener("dragleave", () => mark(false));
  addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    f([...(event.dataTransfer?.files ?? [])]);
  });
}

// Files of models: their bytes, and the choices in the form.

/// Bytes of a file, at most `most`, unpacked if gzip compressed it. Rejects with a text.
export async function bytes(file, most) {
  const unreadable = (error) => {
    throw `the browser could not read it: ${error.message}`;
  };
  const whole = async (blob) => new Uint8Array(await blob.arrayBuffer().catch(unreadable));
  const head = await whole(file.slice(0, 2));
  if (head[0] !== 0x1f || head[1] !== 0x8b) return whole(file);
  const reader = file.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const parts = [];
  for (let size = 0; ; ) {
    const { done, value } = await reader.read().catch(unreadable);
    if (done) return whole(new Blob(parts));
    parts.push(value);
    size += value.length;
    if (size > most) {
      reader.cancel();
      throw `it has more than ${most} bytes when unpacked`;
    }
  }
}

/// Names and values of a form's fields.
export const fields = (form) => JSON.stringify([...new FormData(form)]);

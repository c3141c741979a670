/** Copies text, also in pages served without TLS, where `navigator.clipboard` is missing. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'off-screen';
  // While a modal dialog is open, only elements inside it can be selected.
  (document.querySelector('dialog[open]') ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand('copy');
  field.remove();
  if (!isCopied) throw new Error('the browser does not allow this page to copy; select the text and copy it manually');
}

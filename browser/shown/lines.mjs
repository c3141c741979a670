// A program that prints numbered lines until it is told to stop, and what a person sees of them, picture by picture.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startBy } from '../console.mjs';
import { until } from '../until.mjs';

/**
 * Every line is there once, and has what emulators differ in: colours, wide letters, a letter of two parts, a cursor that goes back. It waits
 * for Enter before the first, since nothing may be printed for a size that the terminal does not have yet, and stops at a file.
 */
const PROGRAM = `
stty -echo
printf 'waiting\\r\\n'
read -r go
n=0
while [ ! -e "$0.stop" ]; do
  for at_once in $(seq $2); do
    n=$((n + 1))
    printf '\\e[3%dm=%06d=\\e[0m \\e[1;48;5;%dm漢字\\e[0m e\\u0301 xx\\b\\b\\e[4mok\\e[0m %s\\r\\n' $((n % 8)) $n $((n % 256)) "$1"
  done
  sleep 0.03
done
printf 'the last was %d.\\r\\n' $n
read -r end
`;

export class Lines {
  /** Starts it by the dialog of the console, and waits until the page has a size to print for. */
  static async start(t, server, page, tag, atOnce = 5) {
    const lines = await Lines.#prepare(t, server, page, tag);
    await startBy(page, `exec bash ${lines.file} ${tag} ${atOnce}`, { tag });
    await lines.#untilSized();
    return lines;
  }

  /**
   * Of this one little is kept, and it prints that much within seconds; not faster, or the server's own idea of the screen would have to skip
   * something, and say so. The dialog has no such choice: it is opened from the list.
   */
  static async startForgetful(t, server, page, tag) {
    const lines = await Lines.#prepare(t, server, page, tag);
    await server.call('POST', '/v1/processes', { command: 'bash', args: [lines.file, tag, '15'], tty: true, tag, maxLogBytes: 128 * 1024 });
    await page.getByTestId('process').getByText(tag, { exact: true }).click();
    await lines.#untilSized();
    return lines;
  }

  static async #prepare(t, server, page, tag) {
    const lines = new Lines(server, page, tag, join(await t.folder(), 'lines'));
    await writeFile(lines.file, PROGRAM);
    return lines;
  }

  constructor(server, page, tag, file) {
    this.server = server;
    this.page = page;
    this.file = file;
    this.id = `tag:${tag}`;
  }

  async #untilSized() {
    await until('the terminal has the size of the page', async () => {
      const { cols, rows, attachments } = await this.server.call('GET', `/v1/processes/${this.id}`).catch(() => ({}));
      const inPage = await this.page.evaluate(() => globalThis.terminals.map((terminal) => [terminal.cols, terminal.rows]).at(-1));
      // 80 is what it is born with.
      return attachments === 1 && cols > 80 && String([cols, rows]) === String(inPage);
    });
    await this.untilShown('waiting');
  }

  begin() {
    return this.server.call('POST', `/v1/processes/${this.id}/input`, { data: '\n', encoding: 'utf8' });
  }

  /** Lets it print its last line, and waits until that is in the page. */
  async stop() {
    await writeFile(`${this.file}.stop`, '');
    await this.untilShown('the last was');
  }

  /** The number of the last line in the page. */
  shown() {
    return this.page.evaluate(() => {
      const buffer = globalThis.shownTerminal().buffer.active;
      for (let y = buffer.length - 1; y >= 0; y -= 1) {
        const number = buffer.getLine(y).translateToString().match(/^=(\d{6})=/)?.[1];
        if (number) return Number(number);
      }
      return 0;
    });
  }

  async untilShownBeyond(number, limitMs) {
    await until(`a line beyond ${number} is shown`, async () => (await this.shown()) > number, limitMs);
  }

  untilShown(text) {
    const isThere = (wanted) => {
      const buffer = globalThis.shownTerminal().buffer.active;
      return Array.from({ length: buffer.length }, (_, y) => buffer.getLine(y).translateToString()).some((line) => line.includes(wanted));
    };
    return until(`${text} is shown`, () => this.page.evaluate(isThere, text));
  }

  /** From now on every picture that the browser draws is looked at. */
  watch() {
    return this.page.evaluate(() => {
      const watched = { pictures: 0, last: 0, wrong: [] };
      globalThis.watched = watched;
      const rows = globalThis.shownTerminal().element.querySelector('.xterm-rows');
      // Before the requests for a frame are served a screen may be half done. Whoever waits for a size is told after them, when what will be
      // drawn is certain; so something gets another size for each picture.
      const clock = document.body.appendChild(document.createElement('div'));
      clock.style.position = 'fixed';
      clock.style.height = '1px';
      const tick = () => {
        clock.style.width = clock.style.width === '1px' ? '2px' : '1px';
        requestAnimationFrame(tick);
      };
      const look = () => {
        watched.pictures += 1;
        const texts = [...rows.children].map(({ textContent }) => textContent);
        const numbers = texts.flatMap((text) => [...text.matchAll(/=(\d{6})=/g)].map(([, number]) => Number(number)));
        const say = (what) => watched.wrong.length < 5 && watched.wrong.push(`picture ${watched.pictures}: ${what}`);
        if (texts.every((text) => text.trim() === '')) say('an empty screen');
        else if (numbers.some((number, y) => y > 0 && number !== numbers[y - 1] + 1)) say(`lines ${numbers.join(' ')}`);
        else if (numbers.length > 0 && numbers.at(-1) < watched.last) say(`line ${numbers.at(-1)} at the end after line ${watched.last}`);
        watched.last = Math.max(watched.last, ...numbers);
      };
      new ResizeObserver(look).observe(clock);
      tick();
    });
  }

  /** No line twice, none left out, none from before, and never an empty screen. Returns how many pictures were looked at. */
  async assertNoFlash() {
    const { pictures, last, wrong } = await this.page.evaluate(() => globalThis.watched);
    assert.deepEqual(wrong, [], 'what was drawn in between');
    assert.ok(pictures > 30 && last > 0, `only ${pictures} pictures were drawn`);
    return pictures;
  }
}

// A program that prints numbered lines until a stop file exists, and checks of every frame that shows them.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startProcess } from '../console.mjs';
import { until } from '../harness.mjs';

/**
 * Lines contain what emulators differ in: colours, wide and combining characters, backspaces. The program waits for
 * Enter before the first line, so that nothing is printed before the terminal has its final size.
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
  /** Starts the program with the dialog of the console, and waits until the terminal has the size of the page. */
  static async start(t, server, page, tag, linesPerBatch = 5) {
    const lines = await Lines.#prepare(t, server, page, tag);
    await startProcess(page, `exec bash ${lines.file} ${tag} ${linesPerBatch}`, { tag });
    await lines.#untilSized();
    return lines;
  }

  /**
   * Starts the program with a log that it overwrites within seconds. If it printed faster, the server's screen model
   * would skip output and mark the repaint as approximate. The dialog has no option for the log size, so the API is
   * used.
   */
  static async startWithSmallLog(t, server, page, tag) {
    const lines = await Lines.#prepare(t, server, page, tag);
    const options = { tty: true, tag, maxLogBytes: 128 * 1024 };
    await server.call('POST', '/v1/processes', { command: 'bash', args: [lines.file, tag, '15'], ...options });
    await page.getByTestId('process').getByText(tag, { exact: true }).click();
    await lines.#untilSized();
    return lines;
  }

  static async #prepare(t, server, page, tag) {
    const lines = new Lines(server, page, tag, join(await t.tempDir(), 'lines'));
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
      const inPage = await this.page.evaluate(() => {
        const terminal = globalThis.terminals.at(-1);
        return terminal && [terminal.cols, terminal.rows];
      });
      // The initial size has 80 columns.
      return attachments === 1 && cols > 80 && String([cols, rows]) === String(inPage);
    });
    await this.untilShown('waiting');
  }

  begin() {
    return this.server.call('POST', `/v1/processes/${this.id}/input`, { data: '\n', encoding: 'utf8' });
  }

  /** Stops the program and waits until the page shows its last line. */
  async stop() {
    await writeFile(`${this.file}.stop`, '');
    await this.untilShown('the last was');
  }

  /** The number of the last line in the page. */
  shown() {
    return this.page.evaluate(() => {
      const buffer = globalThis.visibleTerminal().buffer.active;
      for (let y = buffer.length - 1; y >= 0; y -= 1) {
        const number = buffer
          .getLine(y)
          .translateToString()
          .match(/^=(\d{6})=/)?.[1];
        if (number) return Number(number);
      }
      return 0;
    });
  }

  async untilShownBeyond(number, timeoutMs) {
    await until(`a line beyond ${number} is shown`, async () => (await this.shown()) > number, timeoutMs);
  }

  untilShown(text) {
    const isShown = (expected) => {
      const buffer = globalThis.visibleTerminal().buffer.active;
      for (let y = 0; y < buffer.length; y += 1) {
        if (buffer.getLine(y).translateToString().includes(expected)) return true;
      }
      return false;
    };
    return until(`${text} is shown`, () => this.page.evaluate(isShown, text));
  }

  /** From now on, checks every frame that the browser draws. */
  watch() {
    return this.page.evaluate(() => {
      const watched = { frames: 0, last: 0, errors: [] };
      globalThis.watched = watched;
      const rows = globalThis.visibleTerminal().element.querySelector('.xterm-rows');
      // In an animation frame callback the screen may be incomplete. A ResizeObserver runs after all of them, when the
      // content of the frame is final, so an element is resized in each frame.
      const clock = document.body.appendChild(document.createElement('div'));
      clock.style.position = 'fixed';
      clock.style.height = '1px';
      const tick = () => {
        clock.style.width = clock.style.width === '1px' ? '2px' : '1px';
        requestAnimationFrame(tick);
      };
      const checkFrame = () => {
        watched.frames += 1;
        const texts = [...rows.children].map(({ textContent }) => textContent);
        const numbers = texts.flatMap((text) => [...text.matchAll(/=(\d{6})=/g)].map(([, number]) => Number(number)));
        const report = (error) => watched.errors.length < 5 && watched.errors.push(`frame ${watched.frames}: ${error}`);
        const end = numbers.at(-1);
        if (texts.every((text) => text.trim() === '')) report('an empty screen');
        else if (numbers.some((number, y) => y > 0 && number !== numbers[y - 1] + 1))
          report(`lines ${numbers.join(' ')}`);
        else if (numbers.length > 0 && end < watched.last) report(`ends with line ${end} after line ${watched.last}`);
        watched.last = Math.max(watched.last, ...numbers);
      };
      new ResizeObserver(checkFrame).observe(clock);
      tick();
    });
  }

  /**
   * Asserts that no frame repeated or skipped a line, went back, or was empty. Returns the number of checked frames.
   */
  async assertNoFlash() {
    const { frames, last, errors } = await this.page.evaluate(() => globalThis.watched);
    assert.deepEqual(errors, [], 'errors in drawn frames');
    assert.ok(frames > 30 && last > 0, `only ${frames} frames were drawn`);
    return frames;
  }
}

import { OutliveError } from '@outlive/client';
import type { Console } from '../console.js';
import { remove } from '../list/session_list.js';
import { element, fill, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { ExecView } from '../session/exec_view.js';
import { frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';

/** Commands of the past that are shown; of each, so much of what it printed. */
const PAST_COMMANDS = 20;
const PAST_OUTPUT_BYTES = 16 * 1024;

/** A shell that remembers: what was run in it, and a line for the next command. */
export function sessionPane(console: Console, spec: PaneSpec, key: string): Pane {
  const parts = frame(console, spec, key);
  const session = console.outlive.session(spec.id);
  const transcript = element('div', {
    class: 'transcript',
    role: 'log',
    tabindex: 0,
    'aria-label': `Commands of session ${spec.id}`,
    'data-testid': 'transcript',
  });
  const input = element('textarea', {
    rows: 1,
    'aria-label': 'Command',
    placeholder: 'a command',
    autocapitalize: 'off',
    spellcheck: 'false',
    class: 'mono',
    'data-testid': 'session-command',
  });
  const where = element('span', { class: 'where mono' });
  parts.body.append(transcript, element('div', { class: 'prompt' }, where, input));
  const more = iconButton(
    'more',
    'More actions',
    () => openMenu(more, [{ label: 'Delete session…', isDangerous: true, run: () => remove(console, spec.id) }]),
    { 'aria-haspopup': 'menu' },
  );
  parts.actions.append(more);

  const past: string[] = [];
  let at = 0;
  let running: ExecView | undefined;

  const showFacts = () => {
    const info = console.sessions.get(spec.id);
    parts.dot.className = `dot session ${info?.status ?? 'exited'}`;
    fill(
      parts.facts,
      element('span', { class: 'fact', 'data-testid': 'state' }, info ? info.status : 'gone'),
      element('span', { class: 'fact' }, info?.shell ?? ''),
      info && info.generation > 1 ? element('span', { class: 'fact' }, `shell ${info.generation}`) : null,
    );
    setText(where, info?.cwd ? `${info.cwd} $` : '$');
  };
  const unfollow = console.sessions.onChange(showFacts);
  showFacts();
  const toEnd = () => (transcript.scrollTop = transcript.scrollHeight);

  async function loadPast(): Promise<void> {
    const execs = (await session.execs()).slice(-PAST_COMMANDS);
    for (const exec of execs) {
      past.push(exec.command);
      const view = new ExecView(exec.command, () => cancel(exec.execId));
      transcript.append(view.element);
      void session
        .result(exec.execId, { maxOutputBytes: PAST_OUTPUT_BYTES, wait: exec.status === 'running' || exec.status === 'queued' })
        .then(
          (result) => view.showResult(result),
          (error: unknown) => view.fail(error),
        );
    }
    at = past.length;
    requestAnimationFrame(toEnd);
  }

  const cancel = (execId: string | undefined) => {
    if (execId) void console.notices.try(() => session.cancel(execId));
  };

  async function run(command: string): Promise<void> {
    past.push(command);
    at = past.length;
    let execId: string | undefined;
    const view = new ExecView(command, () => cancel(execId));
    running = view;
    transcript.append(view.element);
    toEnd();
    void console.sessions.look().catch(() => {});
    try {
      for await (const item of session.stream(command)) {
        if (item.type === 'start') execId = item.execId;
        else if (item.type === 'end') view.end(item.exec);
        else if (item.type === 'gap') view.say('Something is missing here.');
        else view.print(item.type, item.bytes);
        toEnd();
      }
      // The stream broke off; the command did not.
      if (!view.isOver && execId) view.showResult(await session.result(execId, { wait: true }));
    } catch (error) {
      const isLost = execId !== undefined && error instanceof OutliveError && (error.isPassing || error.code === 'server_replaced');
      if (!isLost && !(error instanceof TypeError)) view.fail(error);
      else
        await session.result(execId!, { wait: true }).then(
          (result) => view.showResult(result),
          (failed: unknown) => view.fail(failed),
        );
    }
    if (running === view) running = undefined;
    toEnd();
    await console.sessions.look().catch(() => {});
  }

  input.addEventListener('input', () => (input.rows = Math.min(8, input.value.split('\n').length)));
  input.addEventListener('keydown', (event) => {
    const isLine = !input.value.includes('\n');
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      const command = input.value;
      if (command.trim() === '') return;
      input.value = '';
      input.rows = 1;
      void run(command);
    } else if (event.key === 'c' && event.ctrlKey && input.selectionStart === input.selectionEnd && running) {
      event.preventDefault();
      running.cancel();
    } else if (isLine && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      event.preventDefault();
      at = Math.max(0, Math.min(past.length, at + (event.key === 'ArrowUp' ? -1 : 1)));
      input.value = past[at] ?? '';
    }
  });

  console.notices.try(loadPast);
  return {
    element: parts.element,
    focus: () => input.focus(),
    dispose: unfollow,
  };
}

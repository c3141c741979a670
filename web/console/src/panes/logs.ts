import type { Attachment } from '@outlive/client';
import type { Console } from '../console.js';
import { processMenu } from '../list/process_menu.js';
import { bytes } from '../live/words.js';
import { LogView } from '../logs/log_view.js';
import { Search } from '../logs/search.js';
import { element, setText } from '../page/element.js';
import { openMenu } from '../page/menu.js';
import { frame, iconButton } from './frame.js';
import type { Pane, PaneSpec } from './pane.js';
import { followProcess } from './process_facts.js';

/** What is shown of a long past; the rest is asked for. */
const TAIL_BYTES = 512 * 1024;

/** What a process on pipes prints. */
export function logsPane(console: Console, spec: PaneSpec, key: string): Pane {
  const parts = frame(console, spec, key);
  const view = new LogView();
  const search = new Search(view);
  let attachment: Attachment | undefined;
  let isOver = false;
  /** The next byte. */
  let offset: number | undefined;

  const wanted = element('input', {
    type: 'search',
    placeholder: 'Search',
    'aria-label': 'Search in the output',
    'data-testid': 'log-search',
    spellcheck: 'false',
  });
  const found = element('span', { class: 'hint', role: 'status' });
  const look = (act: () => void) => {
    act();
    setText(found, wanted.value === '' ? '' : search.words || 'nothing');
  };
  wanted.addEventListener('input', () => look(() => search.look(wanted.value)));
  wanted.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') look(() => search.step(event.shiftKey ? 1 : -1));
    if (event.key === 'Escape') view.element.focus();
  });
  const follow = element(
    'button',
    {
      type: 'button',
      class: 'quiet toggle',
      'aria-pressed': 'true',
      'data-testid': 'follow',
      onclick: () => (view.isFollowing = follow.getAttribute('aria-pressed') !== 'true'),
    },
    'Follow',
  );
  view.onFollowChange = (isFollowing) => follow.setAttribute('aria-pressed', String(isFollowing));
  const earlier = element('button', { type: 'button', class: 'quiet', hidden: true, onclick: () => begin(0) }, 'From the beginning');
  parts.body.append(
    element(
      'div',
      { class: 'log-tools', role: 'toolbar', 'aria-label': 'Output' },
      wanted,
      found,
      element('span', { class: 'gap' }),
      earlier,
      follow,
    ),
    view.element,
  );
  view.element.addEventListener('keydown', (event) => {
    if (event.key !== '/' && !(event.key === 'f' && event.ctrlKey)) return;
    event.preventDefault();
    event.stopPropagation();
    wanted.focus();
  });

  const more = iconButton('more', 'More actions', () => openMenu(more, processMenu(console, spec.id, key)), {
    'aria-haspopup': 'menu',
    'data-testid': 'pane-menu',
  });
  parts.actions.append(more);
  const size = element('span', { class: 'fact wide-only' });
  const unfollow = followProcess(console, spec.id, parts, [size], (process, before) => {
    setText(size, process.outputEnd > 0 ? bytes(process.outputEnd) : '');
    // Started again: its output goes on.
    if (before && process.generation > before.generation && isOver)
      void read(console.outlive.process(spec.id).attach({ from: offset ?? 0, role: 'viewer', flow: 'live' }));
  });

  function begin(from?: number): void {
    attachment?.close();
    view.clear();
    view.isFollowing = from === undefined;
    void read(
      console.outlive.process(spec.id).attach({ ...(from === undefined ? { tail: TAIL_BYTES } : { from }), role: 'viewer', flow: 'live' }),
    );
  }

  async function read(from: Attachment): Promise<void> {
    attachment = from;
    isOver = false;
    try {
      for await (const item of from) {
        if (item.type === 'connected') {
          const begins = console.processes.get(spec.id)?.outputStart ?? 0;
          if (offset === undefined) earlier.hidden = item.offset <= begins;
        } else if (item.type === 'output') {
          if (item.stream !== 'terminal') view.add(item.stream, item.bytes);
          offset = item.offset + item.bytes.length;
        } else if (item.type === 'gap')
          view.say(`${bytes(item.to - item.from)} are missing here: they came faster than they were read, or are too old.`);
        else if (item.type === 'reconnecting') view.say(`The connection was lost, and comes back by itself: ${item.why}`);
        else if (item.type === 'exit')
          view.say(item.signal ? `It was ended by ${item.signal}.` : `It exited with ${item.exitCode ?? '?'}.`);
      }
    } catch (error) {
      view.say(error instanceof Error ? error.message : String(error));
    }
    if (attachment === from) isOver = true;
  }

  begin();
  return {
    element: parts.element,
    focus: () => view.element.focus(),
    dispose() {
      attachment?.close();
      search.dispose();
      unfollow();
    },
  };
}

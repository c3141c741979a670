import type { Boot } from '@outlive/client';
import type { Console } from '../console.js';
import { element, fill } from '../page/element.js';
import { EarlierBoots } from '../state/earlier_boots.js';
import { fillRow } from './process_list.js';

/** One closed section per earlier boot. Its processes are read when it is opened. */
export function bootList(console: Console): HTMLElement {
  const boots = new EarlierBoots(console.outlive, console.processes);
  const list = element('div', { class: 'boot-list', 'data-testid': 'boots' });
  const sections = new Map<string, HTMLElement>();
  const draw = () => {
    const drawn = boots.all().map((boot) => {
      const drawnBefore = sections.get(boot.id);
      const drawnSection = drawnBefore ?? section(console, boots, boot);
      sections.set(boot.id, drawnSection);
      return drawnSection;
    });
    fill(list, ...(drawn.length > 0 ? [element('h3', {}, 'Earlier boots'), ...drawn] : []));
  };
  console.processes.onChange((changed) => {
    // The whole list was read: outlive may have been started again.
    if (changed === undefined) void console.notices.attempt(() => boots.load().then(draw));
  });
  return list;
}

function section(console: Console, boots: EarlierBoots, boot: Boot): HTMLElement {
  const rows = element('ul', { class: 'rows', 'aria-label': 'Processes of an earlier boot' });
  const started = element('span', { title: boot.id }, new Date(boot.startedAtMs).toLocaleString());
  const details = element('details', { class: 'boot', 'data-testid': 'boot' }, element('summary', {}, started), rows);
  let ids: string[] = [];
  const draw = () => {
    const processes = ids.flatMap((id) => console.processes.get(id) ?? []);
    const none = element('li', { class: 'none' }, 'No processes');
    fill(
      rows,
      ...processes.map((process) => {
        const row = element('li', { class: 'row', 'data-id': process.id, 'data-testid': 'stored-process' });
        fillRow(console, row, process);
        return row;
      }),
      processes.length === 0 ? none : null,
    );
  };
  details.addEventListener('toggle', () => {
    if (!(details as HTMLDetailsElement).open) return;
    void console.notices.attempt(async () => {
      ids = await boots.loadProcesses(boot.id);
      draw();
    });
  });
  console.processes.onChange((changed) => {
    if (changed && ids.includes(changed.id)) draw();
  });
  return details;
}

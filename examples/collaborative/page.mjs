import { Outlive } from '@outlive/client';
import { OutliveAddon } from '@outlive/xterm-addon';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

const find = (selector) => document.querySelector(selector);
const parameters = new URLSearchParams(location.search);
if (parameters.has('room')) enterRoom(parameters.get('room'), parameters.get('name'), parameters.has('readonly'));
else listRooms();

async function listRooms() {
  const rooms = await (await fetch('/rooms')).json();
  find('#rooms').replaceChildren(...rooms.map((room) => new Option(room, room)));
}

function enterRoom(room, name, readOnly) {
  find('form').hidden = true;
  find('header').hidden = false;
  find('#room').textContent = room;
  // This page's server forwards requests below this URL to the room, and takes the name from it.
  const url = `${location.origin}/in/${encodeURIComponent(room)}/as/${encodeURIComponent(name)}`;
  const addon = new OutliveAddon({ client: new Outlive({ url }), readOnly });
  const [terminal, fit] = [new Terminal(), new FitAddon()];
  terminal.loadAddon(fit);
  terminal.loadAddon(addon);
  terminal.open(find('#terminal'));
  // A viewer shows the effective size of the terminal.
  if (!readOnly) new ResizeObserver(() => fit.fit()).observe(find('#terminal'));
  addon.onStateChange((state) => (find('#state').textContent = state.error?.message ?? state.name));
  addon.connect('the-room');
  terminal.focus();
  setInterval(() => showPeople(`${url}/presence`), 1_000);
}

async function showPeople(url) {
  const people = await fetch(url).then(
    (response) => (response.ok ? response.json() : []),
    () => [],
  );
  const badges = people.map(({ name, role, isTyping, sizes }) => {
    const badge = document.createElement('span');
    badge.className = isTyping ? 'person typing' : 'person';
    badge.textContent = `${name}${role === 'viewer' ? ' (read-only)' : ''}${sizes ? ' ⤢' : ''}`;
    return badge;
  });
  find('#people').replaceChildren(...badges);
}

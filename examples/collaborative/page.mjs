import { Outlive } from '@outlive/client';
import { OutliveAddon } from '@outlive/xterm-addon';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

const find = (selector) => document.querySelector(selector);
const asked = new URLSearchParams(location.search);
if (asked.has('room')) enter(asked.get('room'), asked.get('name'), asked.has('look'));
else listRooms();

async function listRooms() {
  const rooms = await (await fetch('/rooms')).json();
  find('#rooms').replaceChildren(...rooms.map((room) => new Option(room, room)));
}

function enter(room, name, readOnly) {
  find('form').hidden = true;
  find('header').hidden = false;
  find('#room').textContent = room;
  // The server of this page passes on what belongs to this room, and knows by the address who it is.
  const url = `${location.origin}/in/${encodeURIComponent(room)}/as/${encodeURIComponent(name)}`;
  const addon = new OutliveAddon({ client: new Outlive({ url }), readOnly });
  const [terminal, fit] = [new Terminal(), new FitAddon()];
  terminal.loadAddon(fit);
  terminal.loadAddon(addon);
  terminal.open(find('#terminal'));
  // A viewer has the size of the others.
  if (!readOnly) new ResizeObserver(() => fit.fit()).observe(find('#terminal'));
  addon.onStateChange((state) => (find('#state').textContent = state.error?.message ?? state.name));
  addon.connect('the-room');
  terminal.focus();
  setInterval(() => showPeople(`${url}/presence`), 1_000);
}

async function showPeople(url) {
  const people = await fetch(url).then((response) => (response.ok ? response.json() : []), () => []);
  const badges = people.map(({ name, role, isTyping, sizes }) => {
    const badge = document.createElement('span');
    badge.className = isTyping ? 'person typing' : 'person';
    badge.textContent = `${name}${role === 'viewer' ? ' (looks)' : ''}${sizes ? ' ⤢' : ''}`;
    return badge;
  });
  find('#people').replaceChildren(...badges);
}
